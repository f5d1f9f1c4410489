"""Measurements, each a module to be run: `python -m benchmarks.crawl --json`. See README.md for how to read them."""
