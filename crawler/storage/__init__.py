"""The corpus: from a fetched page's row to a line that a manifest vouches for.

In the order that data flows: `schema` makes a line; `writer` buffers it, writes it to the open segment (`segments`,
its `journal`) in the worker's `spool`, and has it sealed (`sealing`); `publish` makes closed segments part of the
corpus, once, through a sink (`sinks`) and a manifest (`manifests`); `verify` reads it all back. Imports no Scrapy.
"""

from __future__ import annotations

from crawler.storage.schema import SCHEMA_VERSION, document, fetch_entry
from crawler.storage.sinks import DirectorySink, Sink, open_sink
from crawler.storage.writer import CorpusWriter

__all__ = ["SCHEMA_VERSION", "CorpusWriter", "DirectorySink", "Sink", "document", "fetch_entry", "open_sink"]
