"""What went over the wire, kept beside Scrapy's Response in `request.meta["wire"]`: for the pace, the fetch log and
the archive.
"""

from __future__ import annotations

from dataclasses import dataclass

META_KEY = "wire"


@dataclass(slots=True)
class WireResponse:
    """One response as received. Times are seconds; ``started`` and ``ended`` on the monotonic clock.

    ``latency`` is the time from sending to the first byte of the answer. ``body`` is as received, Content-Encoding
    still applied, chunking undone. ``truncated`` is '' or why the body is not whole: `length` (over the limit),
    `disconnect`, `coding` (what was coded breaks off) or `range` (the server sent a part unasked).
    """

    status: int
    reason: str
    version: str
    raw_headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    ip: str
    started: float
    ended: float
    latency: float
    truncated: str = ""
