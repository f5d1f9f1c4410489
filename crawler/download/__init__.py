"""From a request to bytes: which address may be asked, and what came back as it was received.

resolve.py     names to addresses: RESOLVE's own table first, then DNS
guard.py       which addresses may be connected to, checked at the socket
lenient.py     answers that break HTTP's syntax, put in order where browsers read on
content.py     Content-Encoding undone within limits
handler.py     Scrapy's download handler over aiohttp
"""
