"""Spiders: a response becomes a page and its links."""
