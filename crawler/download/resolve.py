"""Names to addresses: the RESOLVE table, as curl's --resolve, in front of DNS."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.hosts import hostname
from crawler.identity import is_loopback


@dataclass(frozen=True, slots=True)
class Target:
    """Where a name of the table leads; ``port`` None keeps the URL's own."""

    address: str
    port: int | None


class ResolveTable:
    """RESOLVE: host patterns (`a.test`, `*.test`) to `address` or `address:port`. The longest pattern that fits
    wins.
    """

    def __init__(self, table: Mapping[str, str]) -> None:
        self._exact: dict[str, Target] = {}
        self._suffixes: list[tuple[str, Target]] = []
        for pattern, value in table.items():
            name = pattern.lower().rstrip(".")
            if name.startswith("*"):
                self._suffixes.append((name[1:], _target(value)))
            else:
                self._exact[name] = _target(value)
        self._suffixes.sort(key=lambda pair: -len(pair[0]))

    def find(self, host: str) -> Target | None:
        """The target of ``host``, or None when DNS must be asked."""
        name = host.lower().rstrip(".")
        found = self._exact.get(name)
        if found is None:
            found = next((target for suffix, target in self._suffixes if name.endswith(suffix)), None)
        return found


class TableResolver(AbstractResolver):
    """Answers from the table alone; used by the connector that serves the table's hosts."""

    def __init__(self, table: ResolveTable) -> None:
        self._table = table

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002 - aiohttp's signature
    ) -> list[ResolveResult]:
        """One entry, with the table's port in place of the URL's. Raises OSError for a host outside the table."""
        target = self._table.find(host)
        if target is None:
            raise OSError(f"{host} is not in RESOLVE")
        version = ip_address(target.address).version
        return [
            ResolveResult(
                hostname=host,
                host=target.address,
                port=target.port or port,
                family=socket.AF_INET if version == 4 else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """Nothing is held open."""


def leaves_loopback(url: str, table: ResolveTable) -> bool:
    """Whether ``url``, in wire form, leads to another machine as far as can be said before names are resolved."""
    host = hostname(url)
    target = table.find(host)
    return host != "localhost" and not is_loopback(target.address if target else host)


def _target(value: str) -> Target:
    """Read `1.2.3.4`, `1.2.3.4:80`, `::1` or `[::1]:80`; the settings reader has refused anything else."""
    if value.startswith("["):
        address, _, port = value[1:].partition("]")
        return Target(address, int(port[1:]) if port else None)
    if value.count(":") == 1:
        address, port = value.split(":")
        return Target(address, int(port))
    return Target(value, None)
