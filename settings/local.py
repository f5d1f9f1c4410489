"""One engineer, one machine: the embedded server, the corpus in a folder here."""

from settings.base import *

OUTPUT = "./output"
