"""The states of a URL and the transitions between them: one table, from which docs and tests are made."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a URL is. Invariant 1: it is in exactly one of them at any time."""

    UNKNOWN = "unknown"
    QUEUED = "queued"
    DELAYED = "delayed"
    LEASED = "leased"
    HELD = "held"
    SEALED = "sealed"
    DONE = "done"
    DEAD = "dead"


COUNTED = tuple(state for state in State if state is not State.UNKNOWN)
"""States that have a counter of their own in every partition."""


def _from_each(sources: tuple[State, ...], targets: tuple[State, ...]) -> tuple[tuple[State, State], ...]:
    return tuple((source, target) for source in sources for target in targets)


_OWNED = (State.LEASED, State.HELD)
_WAITING = (State.QUEUED, State.DELAYED)

TRANSITIONS: dict[str, tuple[tuple[State, State], ...]] = {
    "add": ((State.UNKNOWN, State.QUEUED), (State.DONE, State.QUEUED)),
    "lease": ((State.DELAYED, State.QUEUED), (State.QUEUED, State.LEASED)),
    "fetched": ((State.LEASED, State.HELD),),
    "seal": ((State.HELD, State.SEALED),),
    "publish": ((State.SEALED, State.DONE),),
    "abort": ((State.SEALED, State.QUEUED),),
    "complete": _from_each(_OWNED, (State.DONE,)),
    "retry": _from_each(_OWNED, (State.DELAYED, State.QUEUED, State.DEAD)),
    "release": _from_each(_OWNED, (State.QUEUED, State.DELAYED)),
    "bury": _from_each(_OWNED, (State.DEAD,)),
    "reclaim": _from_each(_OWNED, (State.QUEUED, State.DELAYED, State.DEAD)),
    "offline": _from_each(_WAITING, (State.DEAD,)),
    "drop": _from_each(_WAITING, (State.DONE,)),
    "replay": ((State.DEAD, State.QUEUED),),
    "discard": ((State.DEAD, State.DONE),),
    "forget": ((State.DONE, State.UNKNOWN), (State.DEAD, State.UNKNOWN)),
}
"""What each call may move, as (from, to). ``lease`` first promotes delayed URLs whose time has come."""


def diagram() -> str:
    """The table as a Mermaid state diagram; docs/redis-schema.md holds it, and a test compares."""
    calls: dict[tuple[State, State], list[str]] = {}
    for call, moves in TRANSITIONS.items():
        for move in moves:
            calls.setdefault(move, []).append(call)
    arrows = (f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in calls.items())
    return "\n".join(["stateDiagram-v2", *arrows])
