"""Scrapy extensions: they read signals, stats and snapshots, and never steer."""
