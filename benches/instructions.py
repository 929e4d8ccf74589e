#!/usr/bin/env python3
"""How many instructions of the processor a job costs the server, counted by valgrind: figures that do not depend on what
else the machine does, good to about 2 %. `make bench-instructions`; docs/benchmarks.md explains.

    instructions.py MODULE [--aof]

Time is not the same: it also hangs on the caches. Where both can be had, benches/life.rs measures time.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

JOBS = 3200
PUSHES, COUNT = 32, 50
PAYLOAD = b"x" * 100
# As long as a record of DQ's: 4 bytes beside the payload.
RECORD = b"r" * 104
SERVER = os.environ.get("REDIS_SERVER", "redis-server").split()

LUA_PUSH = "redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2]) return redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])"
LUA_CLAIM = (
    "local ids = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2]) "
    "if #ids == 0 then return {} end redis.call('ZREM', KEYS[1], unpack(ids)) local leases = {} "
    "for i, id in ipairs(ids) do leases[2 * i - 1] = ARGV[3] leases[2 * i] = id end "
    "redis.call('ZADD', KEYS[2], unpack(leases)) return {ids, redis.call('HMGET', KEYS[3], unpack(ids))}"
)
LUA_ACK = "redis.call('ZREM', KEYS[1], unpack(ARGV)) return redis.call('HDEL', KEYS[2], unpack(ARGV))"


def encode(words):
    out = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        out.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(out)


class Server:
    """A server under callgrind, which counts only while `cost` runs."""

    def __init__(self, module, aof):
        self.dir = tempfile.mkdtemp(prefix="dq-instructions-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        counting = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self.dir}/out"]
        server = [*SERVER, "--port", str(self.port), "--dir", self.dir, "--save", "", "--hz", "1"]
        server += ["--loadmodule", module, "--appendonly", "yes" if aof else "no", "--appendfsync", "no"]
        with open(f"{self.dir}/log", "w") as log:
            self.process = subprocess.Popen(counting + server, stdout=log, stderr=log)
        self.socket = self.connect()
        self.replies = self.socket.makefile("rb")

    def connect(self):
        until = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise SystemExit(open(f"{self.dir}/log").read())
                time.sleep(0.05)

    def read(self):
        line = self.replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise SystemExit(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else self.replies.read(int(rest) + 2)[:-2]
        return [self.read() for _ in range(int(rest))] if kind == b"*" else rest

    def run(self, commands, depth):
        out = []
        for start in range(0, len(commands), depth):
            batch = commands[start : start + depth]
            self.socket.sendall(b"".join(map(encode, batch)))
            out += [self.read() for _ in batch]
        return out

    def control(self, *orders):
        subprocess.run(["callgrind_control", *orders, str(self.process.pid)], check=True, capture_output=True)

    def cost(self, commands, depth, jobs):
        """The instructions of one job, and the replies."""
        self.control("-z")
        self.control("-i", "on")
        replies = self.run(commands, depth)
        self.control("-i", "off")
        before = set(os.listdir(self.dir))
        self.control("-d")
        (dump,) = (name for name in set(os.listdir(self.dir)) - before if name.startswith("out"))
        with open(f"{self.dir}/{dump}", errors="replace") as lines:
            total = next(int(line.split()[1]) for line in lines if line.startswith("totals:"))
        return total / jobs, replies

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir)


def chunks(items, size):
    return [items[start : start + size] for start in range(0, len(items), size)]


def dq(server):
    server.run([("DQ.PUSH", "q", PAYLOAD)] * JOBS, PUSHES)
    costs = {}
    costs["push"], _ = server.cost([("DQ.PUSH", "q", PAYLOAD)] * JOBS, PUSHES, JOBS)
    costs["claim"], claims = server.cost([("DQ.CLAIM", "q", "COUNT", COUNT)] * (JOBS // COUNT), 4, JOBS)
    receipts = [job[0] for claim in claims for job in claim]
    costs["ack"], _ = server.cost([("DQ.ACK", "q", *some) for some in chunks(receipts, COUNT)], 4, JOBS)
    bulk = [("DQ.MPUSH", "q", "PAYLOADS", *[PAYLOAD] * COUNT)] * (JOBS // COUNT)
    costs["push of 50"], _ = server.cost(bulk, 4, JOBS)
    singles = JOBS // 4
    costs["claim of 1"], claims = server.cost([("DQ.CLAIM", "q")] * singles, PUSHES, singles)
    costs["ack of 1"], _ = server.cost([("DQ.ACK", "q", claim[0][0]) for claim in claims], PUSHES, singles)
    return costs


def flat(pairs):
    return [word for pair in pairs for word in pair]


def native(server):
    ids = [b"%011d" % i for i in range(2 * JOBS)]
    now = int(time.time() * 1000)
    push = lambda id: [("ZADD", "nd", now, id), ("HSET", "nj", id, RECORD)]
    server.run(flat(map(push, ids[JOBS:])), 2 * PUSHES)
    costs = {}
    costs["push"], _ = server.cost(flat(map(push, ids[:JOBS])), 2 * PUSHES, JOBS)
    bulk = lambda some: [("ZADD", "bd", *flat((now, id) for id in some)), ("HSET", "bj", *flat((id, RECORD) for id in some))]
    costs["push of 50"], _ = server.cost(flat(map(bulk, chunks(ids[:JOBS], COUNT))), 8, JOBS)
    lease = lambda some: [
        ("ZRANGE", "nd", "-inf", now, "BYSCORE", "LIMIT", 0, len(some)),
        ("ZREM", "nd", *some),
        ("ZADD", "nl", *flat((now + 1000, id) for id in some)),
        ("HMGET", "nj", *some),
    ]
    finish = lambda some: [("ZREM", "nl", *some), ("HDEL", "nj", *some)]
    costs["claim"], _ = server.cost(flat(map(lease, chunks(ids[:JOBS], COUNT))), 16, JOBS)
    costs["ack"], _ = server.cost(flat(map(finish, chunks(ids[:JOBS], COUNT))), 8, JOBS)
    singles = [[id] for id in ids[JOBS : JOBS + JOBS // 4]]
    costs["claim of 1"], _ = server.cost(flat(map(lease, singles)), 4 * PUSHES, len(singles))
    costs["ack of 1"], _ = server.cost(flat(map(finish, singles)), 2 * PUSHES, len(singles))
    return costs


def lua(server):
    push, claim, ack = server.run([("SCRIPT", "LOAD", script) for script in (LUA_PUSH, LUA_CLAIM, LUA_ACK)], 3)
    ids = [b"%011d" % i for i in range(2 * JOBS)]
    now = int(time.time() * 1000)
    pushes = [("EVALSHA", push, 2, "ld", "lj", now, id, RECORD) for id in ids]
    server.run(pushes[JOBS:], PUSHES)
    claims = lambda count: ("EVALSHA", claim, 3, "ld", "ll", "lj", now, count, now + 1000)
    acks = lambda some: ("EVALSHA", ack, 2, "ll", "lj", *some)
    costs = {}
    costs["push"], _ = server.cost(pushes[:JOBS], PUSHES, JOBS)
    costs["claim"], _ = server.cost([claims(COUNT)] * (JOBS // COUNT), 4, JOBS)
    costs["ack"], _ = server.cost(list(map(acks, chunks(ids[:JOBS], COUNT))), 4, JOBS)
    singles = JOBS // 4
    costs["claim of 1"], found = server.cost([claims(1)] * singles, PUSHES, singles)
    costs["ack of 1"], _ = server.cost([acks(reply[0]) for reply in found], PUSHES, singles)
    return costs


def show(costs):
    print("| instructions a job | native | lua | dq | dq/native | dq/lua |")
    print("| --- | --: | --: | --: | --: | --: |")
    life = lambda way: sum(costs[way][step] for step in ("push", "claim", "ack"))
    rows = [(step, {way: costs[way].get(step) for way in costs}) for step in costs["native"]]
    for step, row in rows + [("whole life", {way: life(way) for way in costs})]:
        cells = [f"{row[way]:,.0f}" if row[way] else "" for way in ("native", "lua", "dq")]
        ratios = [f"{row['dq'] / row[way]:.2f}" if row[way] else "" for way in ("native", "lua")]
        print(f"| {step} | {' | '.join(cells + ratios)} |")


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    server = Server(os.path.abspath(sys.argv[1]), "--aof" in sys.argv)
    try:
        show({"native": native(server), "lua": lua(server), "dq": dq(server)})
    finally:
        server.end()


if __name__ == "__main__":
    main()
