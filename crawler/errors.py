"""Every error that Longline raises on purpose.

LonglineError
├── BadInput                  the caller's input is at fault; the message names it
│   ├── InvalidURL            (also a ValueError)
│   ├── BadSetting            one or more settings do not make sense
│   ├── BadSeeds              a seeds source that is missing, unreadable or empty
│   └── NotSerialisable       a Request that cannot travel through the frontier
├── FrontierError
│   ├── FrontierUnavailable   Redis cannot be reached, or refuses us for now; try again
│   ├── FrontierMismatch      the stored crawl was made with other partitions, servers or versions
│   └── ProtocolError         a call out of its order, such as sealing a URL that is still leased
├── StorageError
│   ├── SpoolError            the spool cannot be written, or is somebody else's
│   ├── SinkError             the corpus cannot be written
│   └── CorruptSegment        a segment whose bytes are not what they should be
└── FetchError                a fetch that ended in a failure; ``kind`` is one of policy.KINDS
"""

from __future__ import annotations


class LonglineError(Exception):
    """Root of the tree; catching it catches nothing that is not ours."""


class BadInput(LonglineError):
    """The caller's input is at fault."""


class InvalidURL(BadInput, ValueError):
    """A URL that cannot be fetched: it does not parse, or is not http or https."""


class BadSetting(BadInput):
    """Settings that do not make sense; the message lists each with its value."""


class BadSeeds(BadInput):
    """A seeds source that is missing, unreadable or holds no usable URL."""


class NotSerialisable(BadInput):
    """A Request whose callback, meta or body cannot be stored as JSON."""


class FrontierError(LonglineError):
    """Something is wrong between us and the frontier."""


class FrontierUnavailable(FrontierError):
    """Redis cannot be reached or cannot serve us now; every call may be repeated later."""


class FrontierMismatch(FrontierError):
    """The crawl in Redis was made with other partitions, servers or format versions."""


class ProtocolError(FrontierError):
    """A frontier call out of its order: a defect in the caller, never a race."""


class StorageError(LonglineError):
    """Something is wrong with the spool or the corpus."""


class SpoolError(StorageError):
    """The spool cannot be read or written."""


class SinkError(StorageError):
    """The place where the corpus stands cannot be read or written."""


class CorruptSegment(StorageError):
    """Bytes of a segment are not what its manifest or journal says."""


class FetchError(LonglineError):
    """A fetch that ended in a failure.

    ``kind`` is the failure's one name, the same in the fetch log, the stats and the dead letters.
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind
        self.detail = detail
