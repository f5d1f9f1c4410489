"""The frontier: of all URLs that may be fetched now, which are worth fetching first?

The life of a URL
    A candidate that was never seen is QUEUED, in its politeness group's queue of its band. When the group's turn is
    free and its delay has passed, `lease` grants it to a worker under a token: LEASED, and the group's turn is
    taken. `fetched` ends the turn; the URL is HELD while its page is parsed, its links are added, its row is
    written. `seal`, once the row is on disk in a segment: SEALED. The segment's decision to publish makes it DONE,
    one to abort QUEUED again. Without a document a lease ends by `complete` (DONE), `retry` (DELAYED by a ladder,
    or DEAD), `release` (QUEUED), `bury` (DEAD), or by expiry, when its deadline or its worker is gone.
    states.TRANSITIONS is the table.

Invariants (architecture.md has their reasons; tests cite the numbers)
    1  A URL is in exactly one state; each state has a counter of its own, moved in the transition's script.
    2  At most one owner of a URL; at most C fetches at once in a politeness group.
    3  Every lease ends in exactly one outcome.
    4  A stale token changes nothing and publishes nothing.
    5  Between the end of one request to a group and the start of the next lies at least the group's delay.
    6  Sealed only with the row on disk and the links in the frontier; done only when the segment is published.
    7  Every call may be repeated after a lost reply with the same effect once.
    8  Everything survives a restart of anything; nothing follows a decision elsewhere before it is on Redis's disk.
    9  Queues carry pointers, never page bodies.
    10 A script touches one partition; what spans several is decided in one and carried out in the others by
    repeatable steps.

Where to read on: types (values), states, policy (pure), records and keys (what is stored), scripts and lua/
(transitions), client (Frontier: calls, outcomes, segments, durability, operators over link), batcher (joins a
worker's calls), model (the same in memory).
"""

from __future__ import annotations

from crawler.frontier.batcher import Batcher
from crawler.frontier.client import Frontier
from crawler.frontier.model import Model
from crawler.frontier.states import State
from crawler.frontier.types import (
    Added,
    Answer,
    Burial,
    Candidate,
    Completion,
    DeadLetter,
    Decided,
    Decision,
    Failure,
    GroupInfo,
    Handback,
    Handle,
    Holding,
    Lease,
    LeaseReply,
    Named,
    Pending,
    Reclaimed,
    Redirect,
    Reserved,
    Sealed,
    Snapshot,
    Wire,
)

__all__ = [
    "Added",
    "Answer",
    "Batcher",
    "Burial",
    "Candidate",
    "Completion",
    "DeadLetter",
    "Decided",
    "Decision",
    "Failure",
    "Frontier",
    "GroupInfo",
    "Handback",
    "Handle",
    "Holding",
    "Lease",
    "LeaseReply",
    "Model",
    "Named",
    "Pending",
    "Reclaimed",
    "Redirect",
    "Reserved",
    "Sealed",
    "Snapshot",
    "State",
    "Wire",
]
