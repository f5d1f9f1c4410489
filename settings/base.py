"""What every crawl has in common: the components in the order data flows, and Scrapy's own features that they replace.

Values of Longline's own settings stand in `crawler/options.py`; here is only what differs from Scrapy's defaults.
"""

BOT_NAME = "longline"
USER_AGENT = "Longline/0.1"  # a contact must be added before a crawl leaves loopback
SPIDER_MODULES = ["crawler.spiders"]
COMMANDS_MODULE = "crawler.commands"

# The loop
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
ASYNCIO_EVENT_LOOP = "uvloop.Loop"

# The frontier
SCHEDULER = "crawler.scheduler.Scheduler"
DUPEFILTER_CLASS = "crawler.dupefilter.FrontierDupeFilter"
DEPTH_STATS_VERBOSE = False

# The way out and back. DOWNLOAD_DELAY is the politeness group's, kept by the frontier
CONCURRENT_REQUESTS = 200
CONCURRENT_REQUESTS_PER_DOMAIN = 1_000_000
DOWNLOAD_DELAY = 1.0
DOWNLOAD_DELAY_JITTER = 0.0  # DELAY_JITTER only lengthens
DOWNLOAD_TIMEOUT = 60
DOWNLOAD_MAXSIZE = 10 * 1024**2
DOWNLOAD_WARNSIZE = 0
ROBOTSTXT_OBEY = True
DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,  # scope is checked where links are found
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,  # rules are the fleet's, in the frontier
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,  # a failure is an outcome of the lease
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,  # a redirect too
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,  # a discovered link
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
    "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware": None,  # the address guard would see only the proxy
    "scrapy.downloadermiddlewares.httpcache.HttpCacheMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,  # the handler's, within its limits
    "scrapy.downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware": None,  # a lease bounds the time
    "crawler.middlewares.turns.TurnMiddleware": 990,  # inline downloads take a turn
    "crawler.middlewares.lease.LeaseMiddleware": 1000,  # next to the downloader: sees the end of a request first
}
DOWNLOAD_HANDLERS = {
    "http": "crawler.download.handler.DownloadHandler",
    "https": "crawler.download.handler.DownloadHandler",
    "data": None,
    "file": None,
    "ftp": None,
    "s3": None,
}
COOKIES_ENABLED = False
REDIRECT_ENABLED = False
RETRY_ENABLED = False
AUTOTHROTTLE_ENABLED = False

# Pages
SPIDER_MIDDLEWARES = {
    "crawler.middlewares.output.LeaseOutputMiddleware": 10,  # next to the engine: what a callback gave in the end
    "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
}
REFERER_ENABLED = False
CONCURRENT_ITEMS = 4  # 101 tasks a response cost 0.9 ms, five 0.3 ms
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 50_000_000  # bytes of responses in parsing; Scrapy's 5 MB is 28 real pages

# Rows
ITEM_PIPELINES = {
    "crawler.pipelines.export.ExportPipeline": 900,
}

# Watching
EXTENSIONS = {
    "scrapy.extensions.throttle.AutoThrottle": None,  # the delay is the group's, in the frontier
    "scrapy.extensions.spiderstate.SpiderState": None,
    "scrapy.extensions.logstats.LogStats": None,  # Progress says the same and more
    "extensions.progress.Progress": 500,
}
REMOTE_CONTROL_ENABLED = False
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"
