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
DOWNLOADER_MIDDLEWARES_BASE = {  # of Scrapy's, what is not here is done elsewhere; DOWNLOADER_MIDDLEWARES stays free
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": 50,
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": 300,
    "scrapy.downloadermiddlewares.defaultheaders.DefaultHeadersMiddleware": 400,
    "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware": 500,
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": 700,  # only with COOKIES_ENABLED
    "scrapy.downloadermiddlewares.stats.DownloaderStats": 850,
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
SPIDER_MIDDLEWARES_BASE = {
    "crawler.middlewares.output.LeaseOutputMiddleware": 10,  # next to the engine: what a callback gave in the end
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware": 25,
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": 50,
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": 800,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": 900,
}
REFERER_ENABLED = False
CONCURRENT_ITEMS = 4  # 101 tasks a response cost 0.9 ms, five 0.3 ms
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 50_000_000  # bytes of responses in parsing; Scrapy's 5 MB is 28 real pages

# Rows
ITEM_PIPELINES_BASE = {
    "crawler.pipelines.export.ExportPipeline": 900,
}

# Watching
EXTENSIONS_BASE = {
    "scrapy.extensions.corestats.CoreStats": 0,
    "scrapy.extensions.logcount.LogCount": 0,
    "scrapy.extensions.telnet.TelnetConsole": 0,
    "scrapy.extensions.memusage.MemoryUsage": 0,
    "scrapy.extensions.memdebug.MemoryDebugger": 0,
    "scrapy.extensions.closespider.CloseSpider": 0,
    "scrapy.extensions.feedexport.FeedExporter": 0,
    "extensions.progress.Progress": 500,
}
REMOTE_CONTROL_ENABLED = False
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"
