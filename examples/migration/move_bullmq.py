#!/usr/bin/python3
"""Moves the delayed jobs of a BullMQ queue, also those that wait for a retry, into a queue of DQ.

    move_bullmq.py video jobs --from redis://127.0.0.1:6379 --dry-run

BullMQ's workers may run meanwhile: what they take first is theirs. Jobs of a flow or of a job scheduler stay.
docs/migration/bullmq.md says more.
"""

import json
import os

from mover import DAY_MS, Job, Source, arguments, connect, id_of, main, move

# BullMQ's score is the time in ms, and 12 bits that keep jobs of one ms in order.
UNIT_MS = 1 / 4096
FIELDS = ["name", "data", "opts", "atm", "attemptsMade", "parentKey", "rjk"]
# The longest wait that BACKOFF allows: BullMQ's exponential backoff has no bound of its own.
CAP_MS = 30 * DAY_MS


def payload_of(name, data):
    """What your workers of DQ get: change this to what they read. `data` is JSON text."""
    return json.dumps({"name": name, "data": json.loads(data)}).encode()


def options_of(opts, attempts_made):
    """BullMQ's attempts are tries, DQ's RETRIES failures that a job survives."""
    words = [f"RETRIES {max(0, opts.get('attempts', 1) - 1 - attempts_made)}"]
    backoff = opts.get("backoff") or 0
    backoff = backoff if isinstance(backoff, dict) else {"type": "fixed", "delay": backoff}
    base = max(1, min(CAP_MS, int(backoff.get("delay") or 0)))
    if backoff["type"] == "exponential":
        words.append(f"BACKOFF {base} {CAP_MS}")
    elif backoff["type"] == "fixed":
        words.append(f"BACKOFF {base} {base}")
    return " ".join(words)


class Delayed(Source):
    """BullMQ's sorted set of delayed jobs: the members are ids, and each job has a hash."""

    def __init__(self, server, prefix, queue):
        self.prefix = prefix + b":" + queue + b":"
        super().__init__(server, self.prefix + b"delayed")

    def jobs(self, page):
        pipe = self.server.pipeline(transaction=False)
        for member, _ in page:
            pipe.hmget(self.prefix + member, FIELDS)
            pipe.exists(self.prefix + member + b":dependencies")
        answers, jobs = pipe.execute(), []
        for (member, score), fields, children in zip(page, answers[::2], answers[1::2]):
            name, data, opts, atm, made, parent, scheduler = fields
            if name is None or parent or scheduler or children or member.startswith(b"repeat:"):
                self.skipped += 1
                continue
            options = options_of(json.loads(opts or b"{}"), int(atm or made or 0))
            payload = payload_of(name.decode(), data)
            jobs.append(Job(member, score, id_of(member), payload, options, self.keys_of(member)))
        return jobs

    def keys_of(self, member):
        return [self.prefix + member, self.prefix + member + b":logs"]

    def longest(self):
        return 1000


def run(options):
    old, target = connect(options.source), connect(options.target or options.source)
    delayed = Delayed(old, os.fsencode(options.prefix), os.fsencode(options.bullmq_queue))
    move(delayed, target, os.fsencode(options.queue), UNIT_MS, options)


if __name__ == "__main__":
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("bullmq_queue", help="BullMQ's queue")
    parser.add_argument("queue", help="the queue of DQ")
    parser.add_argument("--prefix", default="bull", help="of BullMQ's keys")
    main(run, parser)
