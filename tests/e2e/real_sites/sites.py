"""Three real sites, Debian's documentation packages, served by nginx as three registrable domains, and wget's walk."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.poll import until

START_DEADLINE_S = 10.0
WGET_DEADLINE_S = 600.0


@dataclass(frozen=True)
class Site:
    """A site: the folder that is its root, and what its robots.txt closes (folders and files that are linked)."""

    host: str
    package: str
    root: Path
    disallow: tuple[str, ...]

    @property
    def robots(self) -> str:
        return "\\n".join(["User-agent: *", *(f"Disallow: {path}" for path in self.disallow)]) + "\\n"


DOC = Path("/usr/share/doc")
SITES = (
    Site("django.test", "python-django-doc", DOC / "python-django-doc/html", ("/_modules/", "/releases/1.1")),
    Site("postgres.test", "postgresql-doc-15", DOC / "postgresql-doc-15/html", ("/release-", "/bookindex.html")),
    Site("sqlite.test", "sqlite3-doc", DOC / "sqlite3", ("/releaselog/", "/session/")),
)


def missing() -> list[str]:
    """The Debian packages that would have to be installed first."""
    programs = [program for program in ("nginx", "wget") if shutil.which(program, path=_PATH) is None]
    return programs + [site.package for site in SITES if not (site.root / "index.html").exists()]


_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"  # nginx lies in sbin

_CONF = """
daemon off;
master_process off;
pid {state}/nginx.pid;
error_log {state}/error.log warn;
events {{ worker_connections 512; }}
http {{
    types {{ text/html html; text/css css; text/javascript js; image/png png; image/gif gif; image/svg+xml svg; }}
    default_type application/octet-stream;
    log_format witness "$status\\t$sent_http_content_type\\thttp://$host$request_uri";
    client_body_temp_path {state}/body; proxy_temp_path {state}/proxy; fastcgi_temp_path {state}/fastcgi;
    uwsgi_temp_path {state}/uwsgi; scgi_temp_path {state}/scgi;
    server {{ listen 127.0.0.1:{port} default_server; access_log off; return 404; }}
    {servers}
}}
"""
_SERVER = """
    server {{
        listen 127.0.0.1:{port};
        server_name {site.host};
        root {site.root};
        access_log {state}/{site.host}.log witness;
        location = /robots.txt {{ default_type text/plain; return 200 "{site.robots}"; }}
    }}"""


@dataclass(frozen=True)
class Nginx:
    """nginx with all sites on one port of loopback, told apart by their names."""

    port: int
    state: Path

    @property
    def seeds(self) -> list[str]:
        """The three home pages."""
        return [f"http://{site.host}/" for site in SITES]

    def html_answered(self) -> set[str]:
        """The URLs that have been answered 200 with HTML, as asked for, by nginx's own log."""
        lines = [line for site in SITES for line in (self.state / f"{site.host}.log").read_text().splitlines()]
        return {url for status, kind, url in (line.split("\t", 2) for line in lines) if (status, kind) == _GOOD}

    def forget(self) -> None:
        """Empties the logs."""
        for site in SITES:
            (self.state / f"{site.host}.log").write_text("")


_GOOD = ("200", "text/html")


@contextlib.contextmanager
def nginx(state: Path) -> Iterator[Nginx]:
    """Serves the sites while the block runs; needs no root."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    servers = "".join(_SERVER.format(site=site, port=port, state=state) for site in SITES)
    (state / "nginx.conf").write_text(_CONF.format(state=state, port=port, servers=servers))
    program = shutil.which("nginx", path=_PATH)
    assert program is not None
    command = [program, "-p", str(state), "-c", str(state / "nginx.conf"), "-e", str(state / "error.log")]
    with subprocess.Popen(command) as process:
        try:
            until(lambda: process.poll() is not None or _listens(port), START_DEADLINE_S, "nginx listens")
            assert process.poll() is None, (state / "error.log").read_text()
            yield Nginx(port, state)
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def wget(server: Nginx, folder: Path) -> set[str]:
    """The HTML that `wget --recursive` finds from the home pages, obeying robots.txt, staying on the three hosts.

    nginx stands in as wget's proxy: it answers requests in a proxy's form as its own, so that names need not resolve.
    """
    server.forget()
    command = ["wget", "--no-config", "--recursive", "--level=inf", "--span-hosts", "--no-verbose", "--delete-after"]
    command += [f"--domains={','.join(site.host for site in SITES)}", f"--directory-prefix={folder}", "--no-hsts"]
    command += ["-e", "use_proxy=on", "-e", f"http_proxy=http://127.0.0.1:{server.port}", "-e", "robots=on"]
    done = subprocess.run(
        [*command, *server.seeds],
        capture_output=True,
        text=True,
        timeout=WGET_DEADLINE_S,
        check=False,
        env={"PATH": _PATH},
    )
    assert done.returncode in (0, _SOME_ANSWERS_WERE_ERRORS), done.stderr[-2000:]
    return server.html_answered()


_SOME_ANSWERS_WERE_ERRORS = 8  # wget's exit code when anything was a 404
