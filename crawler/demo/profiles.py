"""The two generated worlds: `demo` has one of everything that is awkward about the web, `plain` only pages and links.

Hosts are h0.test, h1.test, … Home pages link to all pages of their own host and, as a binary tree, to further home
pages, so that h0 reaches every host within log2(hosts) links; the last hosts, where the awkward roles sit, are leaves
of that tree and hide nobody. Other links are drawn from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from crawler.demo.world import MISSING, Answer, Endless, Link, Page, Rules, World, nothing, redirect

LEAST_DEMO_HOSTS = 40
_BIG_PAGE_BYTES = 2_000_000
_SLOW_ANSWER_S = 1.0
_CRAWL_DELAY_S = 1.0


class _Draft:
    """A world in the making: roles add to it, `finish` freezes it."""

    def __init__(self, hosts: list[str], pages: int, seed: int) -> None:
        self.hosts = hosts
        self.pages = pages
        self.seed = seed
        self.resources: dict[str, tuple[Answer, ...]] = {}
        self.rules: dict[str, Rules] = {host: Rules() for host in hosts}
        self.latency: dict[str, float] = {}
        self.on_home: dict[str, list[Link]] = {host: [] for host in hosts}
        self.robots: dict[str, tuple[Answer, ...]] = {}  # where it is not simply its rules

    def put(self, host: str, path: str, *answers: Answer, nofollow: bool = False) -> None:
        """Adds a resource and a link to it on the host's home page."""
        self.resources[f"http://{host}{path}"] = answers
        self.on_home[host].append(Link(path, nofollow))

    def article(self, host: str, path: str) -> Page:
        """A page of its own text with two links: one home, one to another host's page."""
        rng = random.Random(f"{self.seed} {host}{path}")
        return Page(f"{self.seed} {host}{path}", (Link("/"), Link(self._elsewhere(rng))))

    def finish(self, seeds: int, endless: Endless = nothing) -> World:
        """The world with all ordinary pages, home pages and robots.txt files in place."""
        for index, host in enumerate(self.hosts):
            for number in range(1, self.pages):
                self.resources[f"http://{host}/p/{number}.html"] = (Answer(body=self._ordinary(host, number)),)
            self.resources[f"http://{host}/"] = (Answer(body=self._home(index, host)),)
            self.resources[f"http://{host}/robots.txt"] = self.robots.get(host, (_plain_text(self.rules[host].text()),))
        homes = tuple(f"http://{host}/" for host in self.hosts[:seeds])
        return World(homes, self.resources, self.rules, self.latency, endless)

    def _home(self, index: int, host: str) -> Page:
        own = [Link(f"p/{number}.html") for number in range(1, self.pages)]
        children = [Link(f"http://{child}/") for child in self.hosts[2 * index + 1 : 2 * index + 3]]
        return Page(f"{self.seed} {host}/", (*own, *children, *self.on_home[host]))

    def _ordinary(self, host: str, number: int) -> Page:
        rng = random.Random(f"{self.seed} {host} {number}")
        links = [Link("/"), Link(f"{rng.randrange(1, self.pages)}.html#top"), Link(self._elsewhere(rng))]
        links.append(Link(self._elsewhere(rng).removeprefix("http:")))
        canonical = f"http://{host}/p/{number}.html" if number % 3 == 0 else ""
        return Page(f"{self.seed} {host} {number}", tuple(links), canonical=canonical)

    def _elsewhere(self, rng: random.Random) -> str:
        number = rng.randrange(self.pages)
        return f"http://{rng.choice(self.hosts)}/" + (f"p/{number}.html" if number else "")


def plain(
    hosts: int = 300, pages: int = 10, seed: int = 7, *, delay_rules: bool = False, latency: float = 0.0
) -> World:
    """`hosts` × `pages` pages, all reachable from h0, all allowed; with `delay_rules` every tenth host asks for 1 s."""
    draft = _Draft([f"h{i}.test" for i in range(hosts)], pages, seed)
    _delay(draft, delay_rules, latency)
    return draft.finish(seeds=8)


def demo(hosts: int = 60, pages: int = 8, seed: int = 7, *, delay_rules: bool = False, latency: float = 0.0) -> World:
    """All that is awkward, one host each (`_ROLES`), among ordinary hosts of which some have subdomains.

    `hosts` counts registrable domains, at least LEAST_DEMO_HOSTS; `pages` counts the ordinary pages of each host.
    """
    domains = [f"h{i}.test" for i in range(max(hosts, LEAST_DEMO_HOSTS))]
    subdomains = [f"{label}.{domains[i]}" for i in range(3, len(domains) // 2, 10) for label in ("www", "blog")]
    draft = _Draft(domains + subdomains, pages, seed)
    _delay(draft, delay_rules, latency)
    for host in draft.hosts:
        draft.on_home[host].append(Link("/private/diary.html"))
    for role, host in zip(_ROLES, domains[-len(_ROLES) :], strict=True):
        role(draft, host)
    return draft.finish(seeds=8, endless=_calendar)


def _plain_text(text: str) -> Answer:
    return Answer(body=text.encode(), content_type="text/plain")


def _delay(draft: _Draft, delay_rules: bool, latency: float) -> None:
    if latency:
        draft.latency.update(dict.fromkeys(draft.hosts, latency))
    if delay_rules:
        for host in draft.hosts[::10]:
            draft.rules[host] = replace(draft.rules[host], crawl_delay=_CRAWL_DELAY_S)


def _asks_for_a_delay(draft: _Draft, host: str) -> None:
    draft.rules[host] = Rules(crawl_delay=_CRAWL_DELAY_S)


def _closed(draft: _Draft, host: str) -> None:
    draft.rules[host] = Rules(disallow=("/",))


def _robots_missing(draft: _Draft, host: str) -> None:
    draft.rules[host] = Rules(disallow=(), banned=())
    draft.robots[host] = (MISSING,)
    draft.put(host, "/private/diary.html", Answer(body=draft.article(host, "/private/diary.html")))


def _robots_unwell(draft: _Draft, host: str) -> None:
    draft.robots[host] = (Answer(503, b"", "text/plain"), _plain_text(draft.rules[host].text()))


def _robots_with_bom(draft: _Draft, host: str) -> None:
    draft.rules[host] = Rules(banned=())  # the rules that count stand right behind the BOM
    draft.robots[host] = (_plain_text("\ufeff" + draft.rules[host].text()),)


def _slow(draft: _Draft, host: str) -> None:
    draft.latency[host] = max(_SLOW_ANSWER_S, draft.latency.get(host, 0.0))


def _trap(draft: _Draft, host: str) -> None:
    draft.on_home[host].append(Link("/calendar?month=0"))


def _calendar(url: str) -> Answer | None:
    """One page a month, each with a link to the next, for ever."""
    parts = urlsplit(url)
    month = parse_qs(parts.query).get("month", [""])[0]
    if parts.path != "/calendar" or not month.isascii() or not month.isdecimal() or len(month) > 9:
        return None
    return Answer(body=Page(url, (Link(f"/calendar?month={int(month) + 1}"),)))


def _redirects(draft: _Draft, host: str) -> None:
    draft.put(host, "/moved", redirect("/p/1.html", 301))
    draft.put(host, "/away", redirect(f"http://{draft.hosts[1]}/p/2.html"))
    draft.put(host, "/chain/1", redirect("/chain/2", 307))
    draft.resources[f"http://{host}/chain/2"] = (redirect(f"http://{draft.hosts[2]}/chain/3", 308),)
    draft.resources[f"http://{draft.hosts[2]}/chain/3"] = (redirect(f"http://{host}/chain/end.html"),)
    draft.resources[f"http://{host}/chain/end.html"] = (Answer(body=draft.article(host, "/chain/end.html")),)
    wall = redirect("/cookie.html", cookie="visited=1")
    draft.put(host, "/cookie.html", wall, Answer(body=draft.article(host, "/cookie.html")))
    draft.put(host, "/loop/a", redirect("/loop/b"))
    draft.resources[f"http://{host}/loop/b"] = (redirect("/loop/a"),)
    draft.put(host, "/gate", redirect("/private/garden.html"))


def _errors(draft: _Draft, host: str) -> None:
    busy = Answer(503, b"busy\n", "text/plain", (("Retry-After", "1"),))
    draft.put(host, "/busy.html", busy, busy, Answer(body=draft.article(host, "/busy.html")))
    draft.put(host, "/broken.html", Answer(500, b"broken\n", "text/plain"))
    draft.on_home[host] += [Link("/gone.html"), Link("/p/gone.html")]


def _cut_short(draft: _Draft, host: str) -> None:
    short = Answer(body=draft.article(host, "/short.html"), cut=1000)
    draft.put(host, "/short.html", short)
    draft.put(host, "/once-short.html", short, Answer(body=draft.article(host, "/once-short.html")))


def _formats(draft: _Draft, host: str) -> None:
    legacy = replace(draft.article(host, "/legacy.html"), charset="windows-1252")
    draft.put(host, "/legacy.html", Answer(body=legacy, content_type="text/html; charset=windows-1252"))
    draft.put(host, "/big.html", Answer(body=replace(draft.article(host, "/big.html"), padding=_BIG_PAGE_BYTES)))
    base = f"http://{draft.hosts[4]}/p/"
    draft.put(host, "/based.html", Answer(body=Page(f"{host}/based.html", (Link("1.html"), Link("/")), base=base)))
    draft.put(host, "/report.pdf", Answer(body=b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n" * 40, content_type="application/pdf"))
    draft.put(host, "/notes.txt", Answer(body=b"Notes without a single tag.\n" * 20, content_type="text/plain"))


def _copies(draft: _Draft, host: str) -> None:
    original = draft.article(draft.hosts[5], "/essay.html")
    draft.put(draft.hosts[5], "/essay.html", Answer(body=original))
    draft.put(host, "/copied.html", Answer(body=original))
    draft.put(host, "/reworded.html", Answer(body=replace(original, changed=3)))
    canonical = replace(original, canonical=f"http://{draft.hosts[5]}/essay.html")
    draft.put(host, "/syndicated.html", Answer(body=canonical))


def _shy(draft: _Draft, host: str) -> None:
    secrets = tuple(Link(f"/hidden/{number}.html") for number in (1, 2))
    draft.put(host, "/nofollow.html", Answer(body=Page(f"{host}/nofollow.html", secrets, meta_robots="nofollow")))
    noindex = replace(draft.article(host, "/noindex.html"), meta_robots="noindex")
    draft.put(host, "/noindex.html", Answer(body=noindex))
    for number in (1, 2, 3):
        path = f"/hidden/{number}.html"
        draft.resources[f"http://{host}{path}"] = (Answer(body=draft.article(host, path)),)
    draft.on_home[host].append(Link("/hidden/3.html", nofollow=True))


_ROLES: tuple[Callable[[_Draft, str], None], ...] = (
    _asks_for_a_delay,
    _closed,
    _robots_missing,
    _robots_unwell,
    _robots_with_bom,
    _slow,
    _trap,
    _redirects,
    _errors,
    _cut_short,
    _formats,
    _copies,
    _shy,
)
