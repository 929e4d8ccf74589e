#!/usr/bin/python3
"""Moves the scheduled tasks of an asynq queue, and those that wait for a retry, into a queue of DQ.

    move_asynq.py default jobs --from redis://127.0.0.1:6379 --dry-run

asynq's servers may run meanwhile: what they take first is theirs. docs/migration/asynq.md says more.
"""

import base64
import json
import os

from mover import Job, Source, arguments, connect, id_of, main, move

# The fields of asynq's message that a job of DQ has a place for.
TYPE, PAYLOAD, RETRY, RETRIED = 1, 2, 5, 6


def payload_of(kind, payload):
    """What your workers of DQ get: change this to what they read."""
    try:
        return json.dumps({"type": kind, "payload": json.loads(payload)}).encode()
    except ValueError:
        return json.dumps({"type": kind, "payload_base64": base64.b64encode(payload).decode()}).encode()


def decode(message):
    """The fields of a message in protocol buffers: numbers and byte strings by their field numbers."""
    fields, at = {}, 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        elif tag & 7 != 0:
            raise ValueError(f"a field of wire type {tag & 7}")
        fields[tag >> 3] = value
    return fields


def varint(message, at):
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 128:
            return value, at


class Tasks(Source):
    """One of asynq's sorted sets: the members are ids, and each task has a hash."""

    def __init__(self, server, queue, state):
        self.prefix = b"asynq:{" + queue + b"}:"
        super().__init__(server, self.prefix + state)

    def jobs(self, page):
        pipe = self.server.pipeline(transaction=False)
        for member, _ in page:
            pipe.hget(self.prefix + b"t:" + member, "msg")
        jobs = []
        for (member, score), message in zip(page, pipe.execute()):
            if message is None:
                self.skipped += 1
                continue
            task = decode(message)
            left = max(0, task.get(RETRY, 0) - task.get(RETRIED, 0))
            payload = payload_of(task[TYPE].decode(), task.get(PAYLOAD, b""))
            jobs.append(Job(member, score, id_of(member), payload, f"RETRIES {left}", self.keys_of(member)))
        return jobs

    def keys_of(self, member):
        return [self.prefix + b"t:" + member]

    def longest(self):
        return 1000


def run(options):
    old, target = connect(options.source), connect(options.target or options.source)
    for state in (b"scheduled", b"retry"):
        print(f"asynq    {state.decode()}")
        tasks = Tasks(old, os.fsencode(options.asynq_queue), state)
        move(tasks, target, os.fsencode(options.queue), 1000, options)


if __name__ == "__main__":
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("asynq_queue", help="asynq's queue, such as default")
    parser.add_argument("queue", help="the queue of DQ")
    main(run, parser)
