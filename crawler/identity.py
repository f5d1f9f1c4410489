"""Who we say we are. A site owner must be able to reach whoever crawls; without a contact no crawl leaves loopback."""

from __future__ import annotations

import re
from ipaddress import ip_address

_CONTACT = re.compile(r"https?://[^\s/;,()]+\.[^\s;,()]+|[^\s@;,()<>+]+@[^\s@;,()<>]+\.[^\s@;,()<>]+", re.IGNORECASE)


def contact(user_agent: str) -> str:
    """The URL or address in a User-Agent under which its owner can be reached; '' when there is none."""
    found = _CONTACT.search(user_agent)
    return found.group(0) if found else ""


def is_loopback(address: str) -> bool:
    """Whether an address, as the socket layer spells it, is this machine's own."""
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
