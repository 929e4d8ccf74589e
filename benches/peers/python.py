"""RQ, Celery and ChasquiMQ, and DQ by redis-py, at the orders of benches/peers.rs (script.rs tells them).

    python python.py rq|celery|chasquimq|dq|ping PORT BATCH

BATCH matters to dq and chasquimq: how many jobs go into a pipeline, a claim and an ack. The others push and finish job
by job, whatever one does.
"""

import asyncio
import logging
import random
import string
import sys
import time
from datetime import timedelta

import handlers
from handlers import SIZE, handle, listener

QUEUE = "peers"
LETTERS = string.ascii_letters + string.digits + "+/"
PAYLOADS = ["".join(random.choices(LETTERS, k=SIZE)) for _ in range(500)]


class Dq:
    def __init__(self, port, batch):
        import redis

        self.db, self.batch = redis.Redis(port=port), batch
        self.db.ping()

    def push(self, texts, delay):
        if len(texts) == 1:
            self.db.execute_command("DQ.PUSH", QUEUE, texts[0], "DELAY", delay)
            return
        self.db.execute_command("DQ.MPUSH", QUEUE, "DELAY", delay, "PAYLOADS", *texts)

    def turn(self):
        jobs = self.db.execute_command("DQ.CLAIM", QUEUE, "COUNT", self.batch, "BLOCK", 1500)
        for job in jobs:
            handle(job[1])
        return self.db.execute_command("DQ.ACK", QUEUE, *(job[0] for job in jobs)) if jobs else 0

    def work(self, count):
        while count > 0:
            count -= self.turn()

    def listen(self):
        while True:
            self.turn()


class Ping:
    """Commands of no work, in place of push, claim and finish."""

    batch = 1

    def __init__(self, port, _batch):
        import redis

        self.db = redis.Redis(port=port)

    def push(self, _texts, _delay):
        self.db.ping()

    def work(self, count):
        for _ in range(2 * count):
            self.db.ping()


class Rq:
    batch = 1

    def __init__(self, port, _batch):
        import redis
        import rq

        self.db = redis.Redis(port=port)
        self.queue = rq.Queue(QUEUE, connection=self.db)

    def push(self, texts, delay):
        # Results are kept for 500 s by default; DQ keeps none.
        if delay:
            self.queue.enqueue_in(timedelta(milliseconds=delay), "handlers.handle", texts[0], result_ttl=0)
        else:
            self.queue.enqueue("handlers.handle", texts[0], result_ttl=0)

    def run(self, burst):
        import rq

        # Does not fork for each job, which costs the client, and so shows RQ from its quick side.
        worker = rq.SimpleWorker([self.queue], connection=self.db)
        worker.work(burst=burst, with_scheduler=True, logging_level="WARNING")

    def work(self, count):
        before = listener.calls
        self.run(True)
        check(listener.calls - before, count)

    def listen(self):
        self.run(False)


class Celery:
    batch = 1

    def __init__(self, port, _batch):
        import celery

        self.app = celery.Celery(QUEUE, broker=f"redis://127.0.0.1:{port}/0")
        self.app.conf.task_ignore_result = True
        self.app.conf.task_default_queue = QUEUE
        self.app.conf.worker_hijack_root_logger = False
        self.app.conf.worker_redirect_stdouts = False
        self.left = 0

        @self.app.task(name="handle")
        def task(payload):
            self.handle(payload)

        self.task = task

    def handle(self, payload):
        from celery.worker import state

        handle(payload)
        self.left -= 1
        if self.left == 0:
            state.should_stop = 0

    def push(self, texts, delay):
        self.task.apply_async((texts[0],), countdown=delay / 1000 if delay else None)

    def start(self):
        self.app.Worker(
            pool="solo", loglevel="ERROR", quiet=True, without_mingle=True, without_gossip=True, without_heartbeat=True
        ).start()

    def work(self, count):
        from celery.worker import state

        self.left, state.should_stop = count, None
        self.start()
        check(count - self.left, count)

    def listen(self):
        self.start()


class Chasquimq:
    def __init__(self, port, batch):
        import chasquimq

        self.batch = batch
        self.loop = asyncio.new_event_loop()
        self.producer = chasquimq._native.Producer(f"redis://127.0.0.1:{port}", QUEUE)

    def push(self, texts, delay):
        self.loop.run_until_complete(self.add(texts, delay))

    async def add(self, texts, delay):
        # Queue.add_bulk sends jobs with a delay one by one; the engine below it has a bulk for them.
        await self.producer.add_in_bulk(delay, [text.encode() for text in texts])


def check(done, wanted):
    if done != wanted:
        raise RuntimeError(f"{done} jobs were done, not {wanted}")


PEERS = {"dq": Dq, "ping": Ping, "rq": Rq, "celery": Celery, "chasquimq": Chasquimq}


def push(peer, count, delay):
    for at in range(0, count, peer.batch):
        peer.push([PAYLOADS[i % len(PAYLOADS)] for i in range(at, min(count, at + peer.batch))], delay)


def listen(peer, count):
    listener.wanted = count
    handlers.say("ok")
    peer.listen()


def send(peer, count, gap, delay):
    for _ in range(count):
        peer.push([handlers.due_text(delay)], delay)
        time.sleep(gap / 1000)


def main():
    logging.disable(logging.WARNING)
    kind, port, batch = sys.argv[1:]
    peer = PEERS[kind](int(port), int(batch))
    orders = {"push": push, "work": lambda peer, count: peer.work(count), "listen": listen, "send": send}
    handlers.say("ok")
    for line in iter(sys.stdin.readline, ""):
        order, *numbers = line.split()
        orders[order](peer, *map(int, numbers))
        handlers.say("ok")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        handlers.die(error)
