"""Which addresses may be connected to, checked where it counts: on the address that a socket is about to be opened to.

A page names its hosts, and a name may point anywhere, now or later. So the check is made for every address that is
tried, after resolution, on every hop; what a URL looked like before does not matter."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")
_SIIT = IPv6Network("::ffff:0:0:0/96")
_CLOSED = (
    IPv4Network("192.0.0.0/24"),  # IETF protocol assignments; Python calls some of it global
    IPv6Network("64:ff9b:1::/48"),  # local NAT64: no telling where it leads, RFC 8215
    IPv6Network("fec0::/10"),  # site-local, deprecated
)


class AddressRefused(OSError):
    """A connection to an address that is not public and was not allowed by ALLOWED_PRIVATE_NETWORKS."""


REFUSAL = "no connection to"
LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
EVERYWHERE: tuple[Network, ...] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))


class AddressGuard:
    """Refuses every address that is not globally reachable, unless a network in ``allowed`` holds it.

    Without ``public`` it refuses the others too: whoever crawls them must have said who they are.
    """

    def __init__(self, allowed: Iterable[Network] = (), *, public: bool = True) -> None:
        self._allowed = tuple(allowed)
        self._public = public

    def refuses(self, address: str) -> bool:
        """Whether ``address``, as the socket layer spells it, must not be connected to."""
        seen = ip_address(address.partition("%")[0])
        real = _unwrapped(seen)
        if any(form in network for network in self._allowed for form in (seen, real)):
            return False
        if not self._public or any(real in network for network in _CLOSED):
            return True
        return not real.is_global or real.is_multicast or real.is_reserved

    def socket_factory(self) -> Callable[[Any], socket.socket]:
        """A factory for aiohttp's connector, called with each getaddrinfo entry that is about to be tried.

        It raises AddressRefused for a refused address; the connector then tries the next one.
        """

        def open_socket(info: Any) -> socket.socket:
            family, kind, proto, _, sockaddr = info
            if self.refuses(sockaddr[0]):
                why = "it is not a public address" if self._public else "USER_AGENT names no contact"
                raise AddressRefused(f"{REFUSAL} {sockaddr[0]}: {why}")
            return plain_socket(family, kind, proto)

        return open_socket


def plain_socket(family: int, kind: int, proto: int) -> socket.socket:
    """A non-blocking socket, as asyncio wants it."""
    sock = socket.socket(family, kind, proto)
    sock.setblocking(False)
    return sock


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one, where a translator or tunnel would take it out again (RFC 4291, 6052,
    3056, 4380).
    """
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64 or address in _SIIT:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    if int(address) < 1 << 32 and int(address) > 1:  # ::a.b.c.d, deprecated but still routed by some stacks
        return IPv4Address(int(address))
    return address
