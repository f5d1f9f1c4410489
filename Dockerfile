# A scrapyd node with the project's dependencies baked in; the project itself comes as an egg (`scrapyd-deploy`), so one
# image serves every version whose requirements.txt is the same.
FROM python:3.12-slim-bookworm

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1

# tini forwards TERM to scrapyd and collects finished jobs
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini=0.19.* \
    && rm -rf /var/lib/apt/lists/*

COPY requirements.txt /tmp/requirements.txt
RUN pip install -r /tmp/requirements.txt && rm /tmp/requirements.txt

RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/scrapyd scrapyd
COPY scrapyd.conf /etc/scrapyd/scrapyd.conf
USER scrapyd
WORKDIR /var/lib/scrapyd
VOLUME /var/lib/scrapyd
EXPOSE 6800

HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 6800), 4).close()"]

ENTRYPOINT ["tini", "--"]
# scrapyd takes user name and password from the environment, and would start open to everybody without them
CMD ["sh", "-c", ": \"${SCRAPYD_USERNAME:?}\" \"${SCRAPYD_PASSWORD:?}\" && exec scrapyd --pidfile="]
