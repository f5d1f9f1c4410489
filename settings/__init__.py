"""Scrapy settings modules: `base` names the components, `local` and `production` are what a project runs with."""
