"""Longline: a broad web crawler on Scrapy, with a leased frontier in Redis. The map, in the order data flows:

    options, errors          what may be set, what may go wrong
    urls, hosts              a URL's wire form, key and politeness group
    connection, embedded     a Redis client from the options; a server of our own where there is none
    frontier                 what may be fetched now: add, lease, fetched, seal, publish
    scheduler, dupefilter    the frontier as Scrapy's scheduler
    middlewares, download    robots.txt, pace, address guard, the fetch itself, the lease's outcome
    spiders                  a response becomes a page and its links
    extract, links, robots   the pure functions on bytes that they use
    pipelines, dedup         a page becomes a row
    storage                  rows become segments, segments become the published corpus
    commands, demo           the command line, and the web that `make crawl` serves
"""

__version__ = "0.1.0"
