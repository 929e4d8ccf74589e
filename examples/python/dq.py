"""A worker for DQ: claims, keeps leases, tells what came of each job, stops cleanly. It can stay as it is."""

import logging
import os
import random
import threading
import time
import traceback

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

log = logging.getLogger("dq")

BLOCK_MS = 2000  # How long a claim waits at the server; a stop waits for it.
UNKNOWN_KIND_MS = 30_000  # How long a job that this release does not know is left for another.
LAST_WORDS_S = 5  # How long a worker that stops tries to give its jobs back.


class Permanent(Exception):
    """It will never go well: the job becomes a dead letter."""


class UnknownKind(Exception):
    """No handler is for this kind of job; another release of the worker may have one."""


class Temporary(Exception):
    """It may go well later: after `delay_ms`, or else after the queue's backoff."""

    def __init__(self, message, delay_ms=None):
        super().__init__(message)
        self.delay_ms = delay_ms


def connect(read_timeout_s):
    """A client by the environment. The library itself sends nothing twice: a second claim would take jobs twice."""
    options = dict(socket_timeout=read_timeout_s, socket_connect_timeout=5, socket_keepalive=True)
    # A traceback can hold what is no UTF-8: it is sent all the same.
    options.update(retry=Retry(NoBackoff(), 0), encoding_errors="replace")
    url = os.environ.get("DQ_URL", "redis://127.0.0.1:6380")
    if "DQ_SENTINELS" not in os.environ:
        return redis.Redis.from_url(url, **options)
    sentinels = [address.rsplit(":", 1) for address in os.environ["DQ_SENTINELS"].split(",")]
    login = {name: value for name, value in redis.connection.parse_url(url).items() if name not in ("host", "port")}
    return Sentinel(sentinels, socket_timeout=2).master_for(os.environ["DQ_MASTER"], **login, **options)


def backoff_s(tries):
    """After a restart or a failover not all come at once."""
    return min(5, 0.1 * 2 ** min(tries, 6)) * random.uniform(0.5, 1)


def vital(part, *words):
    """Runs a part of the worker that it cannot live without: if it breaks, the process ends, and is started anew."""
    try:
        part(*words)
    except BaseException:
        log.critical("%s broke: the process ends; its jobs come back when their leases end", part.__name__, exc_info=True)
        os._exit(1)


class Worker:
    def __init__(self, queue, handle, hands=4, lease_ms=30_000):
        # The claim waits at the server: its connection is more patient than that, and nothing else waits behind it.
        self.claims, self.db = connect(BLOCK_MS / 1000 + 5), connect(5)
        self.queue, self.handle, self.hands, self.lease_ms = queue, handle, hands, lease_ms
        self.free = threading.Semaphore(hands)
        self.held = {}  # receipt -> the event that tells its handler that the lease is lost
        self.lock = threading.Lock()  # of `held`
        self.stopping = threading.Event()

    def start(self):
        self.claimer = threading.Thread(target=vital, args=(self.claim,), daemon=True)
        self.claimer.start()
        threading.Thread(target=vital, args=(self.keep_leases,), daemon=True).start()

    def stop(self, grace_s):
        """Lets the hands finish for a while; what still runs then is given back, and no failure is counted."""
        until = time.monotonic() + grace_s
        self.stopping.set()
        self.claimer.join()  # A claim that still waited would take what is given back.
        for _ in range(self.hands):
            self.free.acquire(timeout=max(0, until - time.monotonic()))
        with self.lock:
            rest, self.held = list(self.held), {}
        if rest:
            self.tell(LAST_WORDS_S, "DQ.RELEASE", "RECEIPTS", *rest)

    def claim(self):
        """Claims as many jobs as there are free hands, never more."""
        tries = 0
        while not self.stopping.is_set():
            if not self.free.acquire(timeout=0.2):
                continue
            hands = 1
            while self.free.acquire(blocking=False):
                hands += 1
            jobs, options = [], ["COUNT", hands, "LEASE", self.lease_ms, "BLOCK", BLOCK_MS]
            try:
                jobs = self.claims.execute_command("DQ.CLAIM", self.queue, *options)
                tries = 0
            except Exception as error:  # Whatever it is: a worker that ends here helps nobody.
                tries += 1
                self.report("no jobs", error, self.claims)
                self.stopping.wait(backoff_s(tries))
            if jobs and self.stopping.is_set():
                self.tell(LAST_WORDS_S, "DQ.RELEASE", "RECEIPTS", *(job[0] for job in jobs))
                jobs = []
            for receipt, payload, id, *_ in jobs:
                with self.lock:
                    lost = self.held[receipt] = threading.Event()
                words = self.work, receipt, payload, id.decode(), lost
                threading.Thread(target=vital, args=words, daemon=True).start()
            for _ in range(hands - len(jobs)):
                self.free.release()

    def work(self, receipt, payload, id, lost):
        try:
            end = self.outcome(receipt, payload, id, lost)
            with self.lock:
                mine = self.held.pop(receipt, None)
            if mine:  # Else stop() has given it back.
                self.tell(float("inf"), *end)
        finally:
            self.free.release()

    def outcome(self, receipt, payload, id, lost):
        """Runs the handler, and gives the command that tells what came of it."""
        try:
            self.handle(payload, id, lost)
            return ["DQ.ACK", receipt]
        except UnknownKind as error:
            log.warning("%s is of the unknown kind %s", receipt, error)
            return ["DQ.RELEASE", "DELAY", UNKNOWN_KIND_MS, "RECEIPTS", receipt]
        except Permanent as error:
            return ["DQ.FAIL", receipt, "ERROR", str(error), "STACK", traceback.format_exc()]
        except Exception as error:  # A bug too: the next release may have mended it, and retries are bounded.
            delay_ms = getattr(error, "delay_ms", None)
            delay = [] if delay_ms is None else ["DELAY", delay_ms]
            return ["DQ.RETRY", receipt, *delay, "ERROR", repr(error), "STACK", traceback.format_exc()]

    def tell(self, patience_s, verb, *words):
        """Tells the end of a job until there is an answer: a receipt acts once, so telling it again does no harm."""
        start, tries = time.monotonic(), 0
        job = (words[-1] if verb == "DQ.RELEASE" else words[0]).decode()
        while True:
            try:
                answer = self.db.execute_command(verb, self.queue, *words)
                stale = answer in (0, [-1])
                break
            except redis.RedisError as error:
                stale = str(error).startswith("DQLOST")
                if stale:
                    break
                self.report(f"{verb} {job} is not told", error, self.db)
                # A refusal that lasts for a lease is no failover. Without an answer nobody else has the job either.
                refused = isinstance(error, redis.ResponseError)
                if time.monotonic() - start > (self.lease_ms / 1000 if refused else patience_s):
                    return log.error("%s %s is given up: the job comes back when its lease ends", verb, job)
                tries += 1
                time.sleep(backoff_s(tries))
        if not stale:
            log.info("%s %s: %s", verb, job, answer)
        elif tries:
            log.info("%s %s: stale: an earlier try did it, or the lease ran out meanwhile", verb, job)
        else:
            log.warning("%s %s: stale: its lease ran out, and it is somebody else's", verb, job)

    def keep_leases(self):
        """One command for all jobs at hand, three times a lease."""
        while True:
            time.sleep(self.lease_ms / 3000)
            with self.lock:
                held = dict(self.held)
            try:
                left = self.db.execute_command("DQ.EXTEND", self.queue, self.lease_ms, *held) if held else []
            except Exception as error:
                self.report("leases are not extended", error, self.db)
                continue
            for (receipt, lost), ms in zip(held.items(), left):
                if ms == -1 and receipt in self.held and not lost.is_set():  # Else it has just ended.
                    log.warning("%s: stale: its lease is lost while it runs", receipt)
                    lost.set()

    def report(self, what, error, client):
        log.warning("%s: %s: %s", what, type(error).__name__, error)
        # What else is open may lead to a server that is gone, or a primary no more.
        client.connection_pool.disconnect(inuse_connections=False)
