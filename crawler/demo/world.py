"""A generated web as pure data: what every URL answers, and what a crawl of it must therefore find.

A `World` maps each URL to the answers that it gives in turn (the last one for ever), and each host to the rules of its
robots.txt. The web server only plays it back; tests ask `World.truth` what is reachable, forbidden or failing. The
truth is worked out from the description, never from the bytes that are served, so it can witness against both.

URLs here are written so that wire form and key are the same string: `http://<host><path>`, no port, no fragment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from urllib.parse import urldefrag, urljoin, urlsplit

from crawler.demo import prose

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Link:
    """A link as a page writes it: relative or absolute."""

    href: str
    nofollow: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One HTML page; pages of one `prose` key carry the same text, less `changed` words."""

    prose: str
    links: tuple[Link, ...] = ()
    changed: int = 0
    meta_robots: str = ""
    canonical: str = ""
    base: str = ""
    charset: str = "utf-8"
    padding: int = 0  # bytes of a comment at the end

    def render(self) -> bytes:
        """The page as bytes in its charset."""
        head = [f"<title>{escape(prose.title(self.prose))}</title>"]
        if self.base:
            head.append(f'<base href="{escape(self.base)}">')
        if self.canonical:
            head.append(f'<link rel="canonical" href="{escape(self.canonical)}">')
        if self.meta_robots:
            head.append(f'<meta name="robots" content="{self.meta_robots}">')
        text = "\n".join(f"<p>{p}</p>" for p in prose.paragraphs(self.prose, changed=self.changed))
        if self.charset != "utf-8":
            text += "<p>Café, naïve, façade, señor: letters that only a legacy encoding would write like this.</p>"
        items = "\n".join(f"<li>{_anchor(link)}</li>" for link in self.links)
        padding = f"<!--{'.' * self.padding}-->" if self.padding else ""
        return (
            f'<!doctype html>\n<html lang="en"><head>{"".join(head)}</head>\n<body><main><article>'
            f"<h1>{escape(prose.title(self.prose))}</h1>\n{text}</article></main>\n"
            f"<nav><ul>\n{items}\n</ul></nav>{padding}</body></html>\n"
        ).encode(self.charset)

    def followed(self, url: str) -> Iterator[str]:
        """Where a crawler that obeys nofollow goes on to from this page at `url`: absolute URLs without fragment."""
        if "nofollow" in self.meta_robots:
            return
        base = urljoin(url, self.base)
        hrefs = [link.href for link in self.links if not link.nofollow]
        for href in [*hrefs, *([self.canonical] if self.canonical else [])]:
            yield urldefrag(urljoin(base, href)).url


def _anchor(link: Link) -> str:
    rel = ' rel="nofollow"' if link.nofollow else ""
    return f'<a href="{escape(link.href)}"{rel}>{escape(prose.title(link.href))}</a>'


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to one request. `cut` bytes are declared in Content-Length and never sent."""

    status: int = 200
    body: bytes | Page = b""
    content_type: str = HTML
    headers: tuple[tuple[str, str], ...] = ()
    cut: int = 0

    @property
    def location(self) -> str | None:
        """The redirect's target as it is written, if this is a redirect."""
        return dict(self.headers).get("Location")

    def payload(self) -> bytes:
        """The body as bytes."""
        return self.body.render() if isinstance(self.body, Page) else self.body


def redirect(target: str, status: int = 302, cookie: str = "") -> Answer:
    """A redirect to `target`."""
    cookies = (("Set-Cookie", cookie),) if cookie else ()
    return Answer(status, headers=(("Location", target), *cookies))


MISSING = Answer(404, b"not found\n", "text/plain")


@dataclass(frozen=True, slots=True)
class Rules:
    """What a host's robots.txt says: paths closed to all, product tokens closed out, seconds of Crawl-delay."""

    disallow: tuple[str, ...] = ("/private/",)
    banned: tuple[str, ...] = ("greedybot",)
    crawl_delay: float | None = None

    def text(self) -> str:
        """The rules as the lines of a robots.txt."""
        lines = [line for agent in self.banned for line in (f"User-agent: {agent}", "Disallow: /", "")]
        lines += ["User-agent: *", *(f"Disallow: {path}" for path in self.disallow)]
        if self.crawl_delay is not None:
            lines.append(f"Crawl-delay: {self.crawl_delay:g}")
        return "\n".join(lines) + "\n"

    def allowed(self, path: str, agent: str) -> bool:
        """Whether `agent` (its product token counts, in any case) may fetch `path`, query included."""
        if agent.split("/", 1)[0].strip().lower() in self.banned:
            return False
        return not any(path.startswith(prefix) for prefix in self.disallow)


@dataclass(slots=True)
class Truth:
    """Where every URL must end that a crawl can meet. The sets are disjoint, but `noindex` is a part of `documents`."""

    documents: set[str] = field(default_factory=set)  # HTML, answered 200 in the end
    noindex: set[str] = field(default_factory=set)  # of those: pages that ask not to be indexed
    files: set[str] = field(default_factory=set)  # answered 200, not HTML
    redirects: set[str] = field(default_factory=set)  # answered a redirect
    forbidden: set[str] = field(default_factory=set)  # linked, closed by robots.txt
    missing: set[str] = field(default_factory=set)  # 404
    failing: set[str] = field(default_factory=set)  # never answered whole and well
    trap: set[str] = field(default_factory=set)  # endless pages: how many are met depends on the order of the crawl


Endless = Callable[[str], "Answer | None"]


def nothing(_url: str) -> Answer | None:
    """The `endless` of a world without traps."""
    return None


@dataclass(frozen=True)
class World:
    """A whole web. `endless` answers for URLs that `resources` does not list (a trap), None where there is nothing."""

    seeds: tuple[str, ...]
    resources: Mapping[str, tuple[Answer, ...]]
    rules: Mapping[str, Rules]
    latency: Mapping[str, float] = field(default_factory=dict)  # host → seconds before each answer
    endless: Endless = nothing

    def answers(self, url: str) -> tuple[Answer, ...]:
        """What `url` answers in turn; its last answer is for ever."""
        known = self.resources.get(url)
        if known is not None:
            return known
        return (self.endless(url) or MISSING,)

    def followed(self, url: str) -> Iterator[str]:
        """The URLs that a crawler goes on to from the page at `url`; none when it is no page."""
        answer = self.answers(url)[-1]
        if isinstance(answer.body, Page):
            yield from answer.body.followed(url)

    def allowed(self, url: str, agent: str = "*") -> bool:
        """Whether the robots.txt of the URL's host lets `agent` fetch it."""
        parts = urlsplit(url)
        rules = self.rules.get(parts.netloc)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        return rules is None or rules.allowed(path, agent)

    def delays(self, floor: float) -> dict[str, float]:
        """By politeness group: seconds that a polite crawl, whose own delay is `floor`, leaves between requests."""
        delays: dict[str, float] = {}
        for host, rules in self.rules.items():
            group = registrable(host)
            delays[group] = max(floor, rules.crawl_delay or 0.0, delays.get(group, 0.0))
        return delays

    def reachable(self, seeds: Iterable[str] | None = None, agent: str = "*") -> set[str]:
        """The HTML pages that must stand in the corpus of a whole crawl from `seeds` (default: the world's own)."""
        return self.truth(seeds, agent).documents

    def truth(self, seeds: Iterable[str] | None = None, agent: str = "*", depth_limit: int = 16) -> Truth:
        """Walks the description breadth first, obeying robots.txt and nofollow, to `depth_limit` links from `seeds`."""
        truth = Truth()
        first = list(self.seeds if seeds is None else seeds)
        seen = set(first)
        queue = deque((url, 0) for url in first)
        while queue:
            url, depth = queue.popleft()
            for target in self._visit(url, agent, truth):
                if target not in seen and depth < depth_limit:
                    seen.add(target)
                    queue.append((target, depth + 1))
        truth.failing |= _loops(self, truth.redirects)
        truth.redirects -= truth.failing
        return truth

    def _visit(self, url: str, agent: str, truth: Truth) -> Iterable[str]:
        if not self.allowed(url, agent):
            truth.forbidden.add(url)
            return ()
        answer = self.answers(url)[-1]
        if answer.location is not None:
            truth.redirects.add(url)
            return (urljoin(url, answer.location),)
        if answer.status == 404:
            truth.missing.add(url)
        elif answer.status != 200 or answer.cut:
            truth.failing.add(url)
        elif not isinstance(answer.body, Page):
            truth.files.add(url)
        else:
            (truth.documents if url in self.resources else truth.trap).add(url)
            if "noindex" in answer.body.meta_robots:
                truth.noindex.add(url)
            return answer.body.followed(url)
        return ()


def _loops(world: World, redirects: set[str]) -> set[str]:
    """The redirects that only ever lead to one another."""
    looping = set()
    for url in redirects:
        chain = [url]
        while (location := world.answers(chain[-1])[-1].location) is not None:
            target = urljoin(chain[-1], location)
            if target in chain:
                looping.add(url)
                break
            chain.append(target)
    return looping


def registrable(host: str) -> str:
    """The politeness group of a generated host: its last two labels. The crawler's own rule is not asked on purpose."""
    return ".".join(host.split(":", 1)[0].lower().rsplit(".", 2)[-2:])
