"""Where a lease meets Scrapy.

lease.py     downloader: the end of a request ends the group's turn; statuses and failures become outcomes
turns.py     downloader: requests that pass the scheduler by (inline downloads) take a turn of their own
output.py    spider: children are stamped with their parent, the end of a callback settles the lease
"""
