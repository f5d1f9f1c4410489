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

TRANSITIONS: dict[str, tuple[tuple[State, State], ...]] = {
    "add": ((State.UNKNOWN, State.QUEUED), (State.DONE, State.QUEUED)),
    "lease": ((State.DELAYED, State.QUEUED), (State.QUEUED, State.LEASED)),
    "fetched": ((State.LEASED, State.HELD),),
    "seal": ((State.HELD, State.SEALED),),
    "publish": ((State.SEALED, State.DONE),),
    "abort": ((State.SEALED, State.QUEUED),),
    "complete": ((State.LEASED, State.DONE), (State.HELD, State.DONE)),
    "retry": (
        (State.LEASED, State.DELAYED),
        (State.HELD, State.DELAYED),
        (State.LEASED, State.DEAD),
        (State.HELD, State.DEAD),
    ),
    "release": ((State.LEASED, State.QUEUED), (State.HELD, State.QUEUED)),
    "bury": ((State.LEASED, State.DEAD), (State.HELD, State.DEAD)),
    "reclaim": (
        (State.LEASED, State.DELAYED),
        (State.HELD, State.DELAYED),
        (State.LEASED, State.DEAD),
        (State.HELD, State.DEAD),
    ),
    "offline": ((State.QUEUED, State.DEAD), (State.DELAYED, State.DEAD)),
}
"""What each call may move, as (from, to). ``lease`` first promotes delayed URLs whose time has come."""
