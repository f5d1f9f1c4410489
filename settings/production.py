"""A fleet: where things are comes from the environment, so that one egg serves every crawl."""

import os

from settings.base import *

CONCURRENT_REQUESTS = 1_000
REACTOR_THREADPOOL_MAXSIZE = 20
LOG_FORMAT = "%(asctime)s %(levelname)s [%(name)s] %(message)s"

REDIS_URL = os.environ.get("REDIS_URL", "")
OUTPUT = os.environ.get("OUTPUT", "./output")
SPOOL_DIR = os.environ.get("SPOOL_DIR", ".longline/spool")
if "USER_AGENT" in os.environ:
    USER_AGENT = os.environ["USER_AGENT"]
