"""Delivers webhooks from a queue of DQ. README.md says how to start it; dq.py is the worker, this is its handler."""

import email.utils
import http.client
import json
import logging
import os
import signal
import time
import urllib.error
import urllib.request

import dq

TIMEOUT_S = float(os.environ.get("DQ_HTTP_TIMEOUT_S", 10))
MOST_RETRY_AFTER_S = 3600  # No receiver puts us off for longer. Keep it below dq.max-delay.


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # urllib would follow with a GET, which delivers nothing.


web = urllib.request.build_opener(NoRedirect)


def handle(payload, id, lost):
    """`payload` is bytes, as pushed by whomever: it is looked into here, where a fault costs only the job.

    `lost` is an event that is set when the lease is lost: a handler of many steps looks at it before each.
    """
    try:
        job = json.loads(payload.decode())
    except ValueError as error:
        raise dq.Permanent("the payload is not JSON") from error
    kind = field(job, "kind")
    if kind != "webhook":
        raise dq.UnknownKind(kind)
    deliver(field(job, "url"), field(job, "body"), id)


def field(job, name):
    value = job.get(name) if isinstance(job, dict) else None
    if not isinstance(value, str):
        raise dq.Permanent(f"the payload has no text {name!r}")
    return value


def deliver(url, body, id):
    """POSTs one webhook. It can come twice: the receiver knows it again by the job's id."""
    if not url.startswith(("http://", "https://")):
        raise dq.Permanent(f"not a web address: {url}")  # urllib would open file: and ftp: too.
    headers = {"Content-Type": "application/json", "Idempotency-Key": id}
    try:
        web.open(urllib.request.Request(url, body.encode(), headers), timeout=TIMEOUT_S).close()
    except (ValueError, http.client.InvalidURL) as error:
        raise dq.Permanent(f"cannot be sent to {url}: {error}") from error
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 429 or error.code >= 500:
            raise dq.Temporary(f"{url} answered {error.code}", retry_after_ms(error.headers)) from error
        raise dq.Permanent(f"{url} answered {error.code}") from error


def retry_after_ms(headers):
    """Seconds, or a date; None where there is neither."""
    text = headers.get("Retry-After", "")
    try:
        seconds = int(text) if text.isdecimal() else email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError):
        return None
    return int(1000 * min(max(seconds, 0), MOST_RETRY_AFTER_S))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # Before the threads, which inherit it: sigwait() takes them.
    hands, lease_ms = int(os.environ.get("DQ_HANDS", 4)), int(os.environ.get("DQ_LEASE_MS", 30_000))
    worker = dq.Worker(os.environ.get("DQ_QUEUE", "webhooks"), handle, hands, lease_ms)
    worker.start()
    signal.sigwait(signals)
    logging.info("stopping")
    worker.stop(float(os.environ.get("DQ_GRACE_S", 20)))
