"""Readers of setting values: each turns what a settings file or `-s NAME=VALUE` gives into one Python type, or refuses.

A reader is called with the raw value. It returns the value as code sees it, immutable, or raises ValueError with a
predicate that completes "NAME: 'value' ...". `label` is the type and unit as the settings page shows them. Lists may be
given as Python sequences, JSON, or comma-separated; mappings as Python mappings or JSON.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True)
class Reader:
    """One type of setting: its label on the settings page, and the function that reads it."""

    label: str
    read: Callable[[Any], Any]

    def __call__(self, raw: Any) -> Any:
        return self.read(raw)


def text(*, pattern: str = "", says: str = "", empty: bool = True) -> Reader:
    """A string; one that matches `pattern` as a whole (`says` tells what that means), or merely not empty."""

    def read(raw: Any) -> str:
        value = str(raw) if hasattr(raw, "__fspath__") else raw
        if not isinstance(value, str):
            raise ValueError("is not a string")
        if pattern and not re.fullmatch(pattern, value):
            raise ValueError(f"is not {says}")
        if not empty and not value.strip():
            raise ValueError("is empty")
        return value

    return Reader("text", read)


def choice(*allowed: str) -> Reader:
    """One of a few words, in any case."""

    def read(raw: Any) -> str:
        value = str(raw).strip().lower()
        if value not in allowed:
            raise ValueError(f"is not {allowed[0]}" if len(allowed) == 1 else f"is not one of {', '.join(allowed)}")
        return value

    return Reader(" or ".join(f"`{word}`" for word in allowed), read)


def switch() -> Reader:
    """True or False, also as 1/0, yes/no, on/off."""

    def read(raw: Any) -> bool:
        word = str(raw).strip().lower()
        if word not in TRUE | FALSE:
            raise ValueError("is not True or False")
        return word in TRUE

    return Reader("True or False", read)


def integer(*, at_least: int | None = None, at_most: int | None = None) -> Reader:
    """A whole number within bounds."""

    def read(raw: Any) -> int:
        try:
            value = int(str(raw).strip())
        except ValueError:
            raise ValueError("is not a whole number") from None
        _check_bounds(value, at_least=at_least, at_most=at_most)
        return value

    return Reader("whole number", read)


def size(*, at_least: int = 1) -> Reader:
    """A number of bytes."""
    return Reader("bytes", integer(at_least=at_least).read)


def number(*, at_least: float | None = None, at_most: float | None = None, above: float | None = None) -> Reader:
    """A finite number within bounds."""

    def read(raw: Any) -> float:
        value = _finite(raw, "a number")
        _check_bounds(value, at_least=at_least, at_most=at_most, above=above)
        return value

    return Reader("number", read)


def seconds(*, at_least: float = 0, above: float | None = None) -> Reader:
    """A time in seconds."""

    def read(raw: Any) -> float:
        value = _finite(raw, "a number of seconds")
        _check_bounds(value, at_least=at_least, above=above)
        return value

    return Reader("seconds", read)


def fraction() -> Reader:
    """A share between 0 and 1."""
    return Reader("share, 0 to 1", number(at_least=0, at_most=1).read)


def seconds_list() -> Reader:
    """At least one time in seconds."""

    def read(raw: Any) -> tuple[float, ...]:
        try:
            values = tuple(_finite(item, "") for item in _items(raw))
        except ValueError:
            raise ValueError("is not a list of seconds") from None
        if not values or min(values) < 0:
            raise ValueError("is not a list of seconds, each 0 or more and at least one")
        return values

    return Reader("list of seconds", read)


def names() -> Reader:
    """Words, in the order given."""

    def read(raw: Any) -> tuple[str, ...]:
        values = _items(raw)
        if not all(isinstance(item, str) and item for item in values):
            raise ValueError("is not a list of names")
        return tuple(values)

    return Reader("list of names", read)


def networks() -> Reader:
    """IP networks in CIDR form, or single addresses; both come out as networks."""

    def read(raw: Any) -> tuple[str, ...]:
        try:
            return tuple(str(ipaddress.ip_network(str(item), strict=False)) for item in _items(raw))
        except ValueError as bad:
            raise ValueError(f"is not a list of networks: {bad}") from None

    return Reader("list of networks", read)


def mapping() -> Reader:
    """Names to values of any kind."""
    return Reader("mapping", lambda raw: MappingProxyType(_pairs(raw)))


def addresses() -> Reader:
    """Host patterns to `address` or `address:port`; an IPv6 address with a port stands in brackets."""

    def read(raw: Any) -> Mapping[str, str]:
        pairs = _pairs(raw)
        for pattern, target in pairs.items():
            if not pattern or not isinstance(target, str) or not _is_address(target):
                raise ValueError(f"has {pattern!r}: {target!r}, which is not an address or address:port")
            if "*" in pattern[1:]:
                raise ValueError(f"has {pattern!r}, which fits no host: a * stands only at the beginning")
        return MappingProxyType(pairs)

    return Reader("mapping of host patterns to addresses", read)


def _finite(raw: Any, what: str) -> float:
    try:
        value = float(str(raw).strip())
    except ValueError:
        raise ValueError(f"is not {what}") from None
    if not math.isfinite(value):
        raise ValueError(f"is not {what}")
    return value


def _check_bounds(
    value: float, *, at_least: float | None = None, at_most: float | None = None, above: float | None = None
) -> None:
    if at_least is not None and value < at_least:
        raise ValueError(f"is less than {at_least}")
    if at_most is not None and value > at_most:
        raise ValueError(f"is more than {at_most}")
    if above is not None and value <= above:
        raise ValueError(f"is not more than {above}")


def _items(raw: Any) -> list[Any]:
    if isinstance(raw, str):
        stripped = raw.strip()
        if not stripped.startswith("["):
            return [item.strip() for item in stripped.split(",") if item.strip()]
        raw = _json(stripped, "a list")
    if isinstance(raw, int | float):  # RETRY_DELAYS = 5 means [5]
        return [raw]
    if isinstance(raw, Mapping) or not isinstance(raw, Iterable):
        raise ValueError("is not a list")
    return list(raw)


def _pairs(raw: Any) -> dict[str, Any]:
    value = (_json(raw, "a JSON object") if raw.strip() else {}) if isinstance(raw, str) else raw
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError("is not a mapping with text keys")
    return dict(value)


def _json(raw: str, what: str) -> Any:
    try:
        return json.loads(raw)
    except ValueError as bad:
        raise ValueError(f"is not {what}: {bad}") from None


def _is_address(target: str) -> bool:
    host, port = target, ""
    if match := re.fullmatch(r"(?:\[([^]]+)\]|([^:]+))(?::(\d{1,5}))?", target):
        host, port = match[1] or match[2], match[3] or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return not port or 0 < int(port) < 65536
