"""The address guard at the socket: what a crawler may connect to, however it is spelled and however it got there."""

from __future__ import annotations

import pytest
from scrapy import Request

from crawler.download.guard import AddressGuard
from crawler.errors import FetchError
from crawler.urls import canonicalize
from tests.support.fetching import fetch, handler
from tests.support.raw import RawServer, ok, raw_server

PAGE = ok(b"<p>secret</p>")
NO_CONTACT = "mybot/1.0"

REFUSED = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",  # clouds' metadata
    "169.254.0.1",
    "100.64.0.1",  # carriers' NAT, RFC 6598
    "100.127.255.255",
    "192.0.0.8",
    "192.0.2.1",  # documentation
    "198.18.0.1",  # benchmarks
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",  # a cloud's metadata
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1",  # SIIT, RFC 2765
    "64:ff9b::127.0.0.1",  # NAT64, RFC 6052
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::1",  # local NAT64, RFC 8215
    "2002:7f00:1::",  # 6to4
    "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",  # Teredo's client 127.0.0.1
]
ALLOWED = [
    "93.184.215.14",
    "172.15.0.1",
    "172.32.0.1",
    "100.63.0.1",
    "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
    "::ffff:93.184.215.14",
    "64:ff9b::93.184.215.14",
    "2002:5db8:d70e::1",
]

LOOPBACK_SPELLINGS = [
    "127.0.0.1",
    "0x7f.1",
    "127.1",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "127.0.0.1.",
    "１２７.０.０.１",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:0:0:1]",
    "localhost",
    "LOCALHOST.",
]


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert AddressGuard().refuses(address)


@pytest.mark.parametrize("address", ALLOWED)
def test_a_public_address_is_not(address: str) -> None:
    assert not AddressGuard().refuses(address)
    assert AddressGuard(public=False).refuses(address), "unless nobody has said who we are"


@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
async def test_no_spelling_of_loopback_gets_through(host: str) -> None:
    async with raw_server({"/": PAGE}) as web:
        with pytest.raises(FetchError) as caught:
            await fetch(canonicalize(f"http://{host}:{web.port}/"), allowed_private_networks=())
    assert caught.value.kind == ("dns" if host.endswith("T.") else "guard"), str(caught.value)
    assert web.asked == []


async def test_allowed_networks_open_what_they_name_and_nothing_else() -> None:
    async with raw_server({"/": PAGE}) as web:
        response, _ = await fetch(web.url(), allowed_private_networks=("127.0.0.1/32",))
        assert response.status == 200
        with pytest.raises(FetchError, match="guard"):
            await fetch(web.url(), allowed_private_networks=("127.0.0.2/31", "10.0.0.0/8", "::1/128"))
    assert len(web.asked) == 1


class TestResolve:
    """RESOLVE leads names of its own where they say, and opens nothing else there."""

    async def get(self, url: str, web: RawServer, **options: object) -> int:
        table = {
            "exact.test": f"127.0.0.1:{web.port}",
            "*.wild.test": f"127.0.0.1:{web.port}",
            "own-port.test": "127.0.0.1",
            "*.near.wild.test": "127.0.0.1:1",
        }
        response, _ = await fetch(url, resolve=table, **{"allowed_private_networks": (), **options})
        return response.status

    @pytest.mark.parametrize("host", ["exact.test", "EXACT.test.", "a.wild.test", "a.b.wild.test"])
    async def test_names_lead_to_the_address_and_port_given(self, host: str) -> None:
        async with raw_server({"/": PAGE}) as web:
            assert await self.get(f"http://{host}/", web) == 200
        assert b"\r\nHost: " + host.rstrip(".").encode() + b"\r\n" in web.asked[0], "it is asked by the URL's name"

    async def test_without_a_port_the_urls_own_is_kept(self) -> None:
        async with raw_server({"/": PAGE}) as web:
            assert await self.get(f"http://own-port.test:{web.port}/", web) == 200

    async def test_the_longest_pattern_wins(self) -> None:
        async with raw_server({"/": PAGE}) as web:
            with pytest.raises(FetchError, match="refused"):
                await self.get("http://a.near.wild.test/", web)

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "wild.test", "other.test", "notexact.test"])
    async def test_the_same_address_under_another_name_stays_closed(self, host: str) -> None:
        async with raw_server({"/": PAGE}) as web:
            with pytest.raises(FetchError) as caught:
                await self.get(f"http://{host}:{web.port}/", web)
        assert caught.value.kind in ("guard", "dns")
        assert web.asked == []

    async def test_one_handler_keeps_the_two_apart(self) -> None:
        """A connection that a name of the table left open must not serve the literal address."""
        async with raw_server({"/": PAGE}, keep_open=True) as web:
            table = {"a.test": "127.0.0.1"}
            async with handler(allowed_private_networks=(), resolve=table) as made:
                await made.download_request(Request(f"http://a.test:{web.port}/"))
                with pytest.raises(FetchError, match="guard"):
                    await made.download_request(Request(web.url()))


class TestContact:
    """Without a contact in USER_AGENT nothing but loopback is spoken to, and that only where it is named."""

    async def test_a_public_address_is_refused_before_anything_is_sent(self) -> None:
        for url in ("http://93.184.215.14/", "http://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/"):
            with pytest.raises(FetchError, match=r"guard: .*: USER_AGENT names no contact"):
                await fetch(url, user_agent=NO_CONTACT)

    async def test_resolve_may_lead_to_loopback_but_not_away(self) -> None:
        async with raw_server({"/": PAGE}) as web:
            table = {"near.test": f"127.0.0.1:{web.port}", "far.test": "93.184.215.14"}
            response, _ = await fetch("http://near.test/", user_agent=NO_CONTACT, resolve=table)
            assert response.status == 200
            with pytest.raises(FetchError, match="guard"):
                await fetch("http://far.test/", user_agent=NO_CONTACT, resolve=table)

    async def test_networks_named_by_the_operator_stay_open(self) -> None:
        async with raw_server({"/": PAGE}) as web:
            response, _ = await fetch(web.url(), user_agent=NO_CONTACT)
        assert response.status == 200
