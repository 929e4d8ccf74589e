"""What the workers of python.py do with a job. A module of its own, since RQ imports a handler by its name."""

import os
import sys
import time

SIZE = int(os.environ["DQ_PEERS_PAYLOAD"])


class Listener:
    """Collects how late jobs are, whose payloads tell when they are due, and says so when all have come."""

    def __init__(self):
        self.calls = 0
        self.wanted = 0
        self.late = []

    def handle(self, payload):
        self.calls += 1
        if not self.wanted:
            return
        self.late.append(time.monotonic_ns() - int(payload))
        if len(self.late) == self.wanted:
            print("late", *self.late, flush=True)


listener = Listener()


def handle(payload):
    listener.handle(payload)


def due_text(delay_ms):
    return str(time.monotonic_ns() + delay_ms * 1_000_000).rjust(SIZE)


def say(text):
    print(text, flush=True)


def die(error):
    print(repr(error), file=sys.stderr, flush=True)
    sys.exit(1)
