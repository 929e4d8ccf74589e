"""Measures what a job takes in memory, by its payload and its state: the table in docs/operations.md.

`python3 benches/sizes.py target/release/libdq.so [JOBS]` starts servers of its own and prints the table. JOBS, 100000 by
default, is the number of jobs; of a payload of 10,000 bytes it is a tenth of that.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time

import redis

PAYLOADS = [0, 100, 1000, 10_000]
BATCH = 500
COLUMNS = ["ready or delayed", "leased", "dead letter", "with an ID", "the ID alone", "snapshot"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(module, folder):
    """A server of its own, and a client of it."""
    port, program = free_port(), os.environ.get("DQ_TEST_SERVER", "redis-server").split()
    words = ["--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--loadmodule", module]
    log = open(os.path.join(folder, "log"), "w")
    server = subprocess.Popen([*program, *map(str, words)], stdout=log, stderr=log)
    db = redis.Redis(port=port)
    for _ in range(200):
        try:
            db.config_set("dq.dead-max", 0)
            return server, db
        except redis.ConnectionError:
            time.sleep(0.05)
    raise SystemExit(f"the server does not start: see {folder}/log")


def used(db):
    return int(db.info("memory")["used_memory"])


def batches(jobs):
    return (range(first, min(first + BATCH, jobs)) for first in range(0, jobs, BATCH))


def push(db, queue, jobs, payload, own_ids):
    for batch in batches(jobs):
        words = [word for n in batch for word in (f"job-{n:010}" if own_ids else "", 0, payload)]
        db.execute_command("DQ.MPUSH", queue, *(["KEEP", "1d"] if own_ids else []), "JOBS", *words)


def claim_all(db, queue):
    receipts = []
    while jobs := db.execute_command("DQ.CLAIM", queue, "COUNT", BATCH, "LEASE", "1h"):
        receipts += [job[0] for job in jobs]
    return receipts


def measure(db, jobs, payload, folder):
    """Bytes a job, for each of COLUMNS."""
    figures, empty = [], used(db)
    note = lambda: figures.append((used(db) - empty) / jobs)
    push(db, "q", jobs, payload, own_ids=False)
    note()
    db.save()
    snapshot = os.path.getsize(os.path.join(folder, "dump.rdb")) / jobs
    receipts = claim_all(db, "q")
    note()
    for batch in batches(jobs):
        with db.pipeline(transaction=False) as pipe:
            for n in batch:
                pipe.execute_command("DQ.FAIL", "q", receipts[n])
            pipe.execute()
    del receipts
    note()
    db.flushall()
    push(db, "q", jobs, payload, own_ids=True)
    note()
    receipts = claim_all(db, "q")
    for batch in batches(jobs):
        db.execute_command("DQ.ACK", "q", *(receipts[n] for n in batch))
    note()
    return [*figures, snapshot]


def main():
    module, jobs = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    print(f"| payload | {' | '.join(COLUMNS)} |\n| --: {'| --: ' * len(COLUMNS)}|")
    for size in PAYLOADS:
        with tempfile.TemporaryDirectory() as folder:
            server, db = start(module, folder)
            try:
                figures = measure(db, jobs if size < 10_000 else jobs // 10, os.urandom(size // 2 + 1).hex()[:size], folder)
            finally:
                server.terminate()
                server.wait()
        print(f"| {size:,} | {' | '.join(f'{figure:,.0f}' for figure in figures)} |", flush=True)


if __name__ == "__main__":
    main()
