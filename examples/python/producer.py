"""Pushes one webhook: python3 producer.py URL BODY [DELAY [ID]]"""

import argparse
import json
import os
import sys
import time
import uuid

import redis

import dq

# An ID stays taken for 5 minutes (dq.id-keep). Later than that, the same push could make a second job.
PATIENCE_S = 240


def push(db, queue, payload, id, delay="0"):
    """Sends again until there is an answer: with an ID of its own, a job that is pushed twice is one job."""
    start, tries = time.monotonic(), 0
    while True:
        try:
            return db.execute_command("DQ.PUSH", queue, payload, "ID", id, "DELAY", delay)
        except redis.RedisError as error:
            tries += 1
            if not passes(error) or time.monotonic() - start > PATIENCE_S:
                raise
            print(f"again in a moment: {error}", file=sys.stderr)
            db.connection_pool.disconnect(inuse_connections=False)
            time.sleep(dq.backoff_s(tries))


def passes(error):
    """Whether the same push may be taken a moment later: there was no answer, a failover goes on, there is no room."""
    if not isinstance(error, redis.ResponseError) or isinstance(error, redis.exceptions.ReadOnlyError):
        return True
    # redis-py takes the code off what it knows: OOM from release 5 on.
    waits = ("NOREPLICAS", "MISCONF", "DQFULL", "OOM", "command not allowed when used memory", "unknown command")
    return str(error).startswith(waits)


if __name__ == "__main__":
    args = argparse.ArgumentParser(description="Pushes one webhook, and prints the id of its job.")
    args.add_argument("url")
    args.add_argument("body")
    args.add_argument("delay", nargs="?", default="0", help="when it is due, such as 10s; else at once")
    # Made before the first try: whoever calls this again after a crash passes an id of his own.
    args.add_argument("id", nargs="?", default=str(uuid.uuid4()), help="pushed twice with one id, it is one job")
    args = args.parse_args()
    payload = json.dumps({"kind": "webhook", "url": args.url, "body": args.body}).encode()
    try:
        id = push(dq.connect(5), os.environ.get("DQ_QUEUE", "webhooks"), payload, args.id, args.delay)
    except redis.RedisError as error:
        sys.exit(f"not pushed: {error}")
    print(id.decode())
