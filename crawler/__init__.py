"""Longline: a broad web crawler on Scrapy, with a leased frontier in Redis. The map, in the order data flows:

options, errors          what may be set, what may go wrong
urls, hosts              a URL's wire form, key and politeness group
connection, embedded     a Redis client from the options; a server of our own where there is none
frontier                 what may be fetched now: add, lease, fetched, seal, publish
storage                  rows become segments, segments become the published corpus
worker                   one process's share: its leases from grant to outcome, its duties; knows no Scrapy
scheduler, dupefilter    the worker as Scrapy's scheduler
middlewares, download    the fetch itself, the address guard, where requests and callbacks end
seeds, spiders           where a crawl begins; a response becomes a page and its links
extract, links, robots   the pure functions on bytes that they use
items, pipelines         a page becomes a row
commands, demo           the command line, and the web that `make crawl` serves
"""

__version__ = "0.1.0"
