"""Commands of `scrapy`: argument parsing only; the work is done by what they call."""
