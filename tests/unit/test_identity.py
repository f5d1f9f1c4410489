"""What counts as a contact in a User-Agent."""

from __future__ import annotations

import pytest

from crawler.identity import contact, is_loopback


@pytest.mark.parametrize(
    ("agent", "found"),
    [
        ("mybot/1.0 (+https://example.org/bot)", "https://example.org/bot"),
        ("mybot/1.0 (http://example.org; research)", "http://example.org"),
        ("mybot (bot@example.org)", "bot@example.org"),
        ("mybot HTTPS://EXAMPLE.ORG", "HTTPS://EXAMPLE.ORG"),
        ("Longline/0.1", ""),
        ("Mozilla/5.0 (compatible; mybot/2.0)", ""),
        ("mybot (+http://localhost)", ""),
        ("mybot me@home", ""),
        ("", ""),
    ],
)
def test_a_url_or_an_address_is_a_contact(agent: str, found: str) -> None:
    assert contact(agent) == found


@pytest.mark.parametrize(
    ("address", "own"), [("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("a.test", False)]
)
def test_loopback_is_this_machine(address: str, own: bool) -> None:
    assert is_loopback(address) is own
