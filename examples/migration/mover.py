"""Moves the jobs of another queue into DQ, none lost and none doubled.

move_zset.py, move_asynq.py and move_bullmq.py stand on it: each says what its jobs are.
"""

import argparse
import hashlib
import math
import os
import re
import sys
import time
from collections import namedtuple

import redis

# One job on its way: what the sorted set holds; the id, the payload and the options that DQ is to have; the keys of the
# old queue that go with it.
Job = namedtuple("Job", "member score id payload options keys")

DAY_MS = 86_400_000
# A batch is one step of the server, in which it serves nobody else: at most so many jobs, and bytes.
BATCH_JOBS = 50
BATCH_BYTES = 256 * 1024
# How often a command without an answer is sent again: about a minute.
TRIES = 30
# What one delayed job with an id of 40 letters takes besides its payload (docs/migration/zset.md).
OVERHEAD = 300


class Refused(Exception):
    """Nothing was moved; the text says what to change first."""


class Stopped(Exception):
    """Some jobs were moved; running again goes on."""


# On one server each job changes sides in one step: whoever takes it from the sorted set first, has it. A job that is
# refused stays where it is. One whose earlier life is being worked on (nil) stays too, until that is over.
MOVE = """
local unit, extra, moved, kept, arg, key = tonumber(ARGV[1]), tonumber(ARGV[2]), 0, 0, 3, 3
while ARGV[arg] do
  local member, id, payload, options = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3]
  local score = redis.call('ZSCORE', KEYS[1], member)
  if score then
    local push = {'DQ.PUSH', KEYS[2], payload, 'ID', id, 'KEEP', '0', 'NX', 'REPLACE'}
    for word in string.gmatch(options, '%S+') do push[#push + 1] = word end
    local due = math.ceil(tonumber(score) * unit)
    if due >= 1e11 then push[#push + 1] = 'AT'; push[#push + 1] = string.format('%.0f', due) end
    local reply = redis.pcall(unpack(push))
    if type(reply) == 'table' and reply.err then return {moved, kept, reply.err} end
    if reply then
      redis.call('ZREM', KEYS[1], member)
      for i = key, key + extra - 1 do redis.call('DEL', KEYS[i]) end
      moved = moved + 1
    else
      kept = kept + 1
    end
  end
  arg, key = arg + 4, key + extra
end
return {moved, kept, ''}
"""

# Between two servers a job is first put aside at the old one, in one step, under a name of its own. From then on it is
# the mover's, whatever happens to the mover, and its name tells the new server when it comes twice.
PARK = """
local parked = {}
for arg = 1, #ARGV, 4 do
  local member, token, payload, options = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3]
  local score = redis.call('ZSCORE', KEYS[1], member)
  if score then
    local head = score .. ',' .. options .. ',' .. #member .. '\\n'
    redis.call('HSET', KEYS[2], token, head .. member .. payload)
    redis.call('ZREM', KEYS[1], member)
    parked[#parked + 1] = token
    parked[#parked + 1] = score
  end
end
return parked
"""

# What is safe on the new server is forgotten at the old one.
FORGET = """
for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
return redis.call('HDEL', KEYS[1], unpack(ARGV))
"""

# What the new server refused goes back, unless the same member was added meanwhile.
UNPARK = """
for arg = 1, #ARGV, 3 do
  if redis.call('HDEL', KEYS[2], ARGV[arg]) == 1 then redis.call('ZADD', KEYS[1], 'NX', ARGV[arg + 1], ARGV[arg + 2]) end
end
return 0
"""


class Source:
    """A sorted set whose members are the payloads. For other queues the three methods are others."""

    def __init__(self, server, zset):
        self.server, self.zset = server, zset
        self.skipped = 0

    def jobs(self, page):
        """The jobs of a page of (member, score); what cannot be moved is left out and counted."""
        return [Job(member, score, sha_1(member), member, "", []) for member, score in page]

    def keys_of(self, member):
        """The keys that belong to this member alone."""
        return []

    def longest(self):
        """A guess by the first ten, since a page must not be too large."""
        return max((len(member) for member in self.server.zrange(self.zset, 0, 9)), default=1)


def sha_1(member):
    return hashlib.sha1(member).hexdigest().encode()


def id_of(id):
    """An id of the old queue as DQ's, or its digest where DQ does not allow such a one."""
    return id if re.fullmatch(rb"[!-~]{1,128}", id) else sha_1(id)


def parking_key(zset):
    """Beside the sorted set, in its slot of a cluster."""
    start = zset.find(b"{")
    tagged = start >= 0 and zset.find(b"}", start + 1) > start + 1
    return zset + b":moving" if tagged else b"{" + zset + b"}:moving"


class Mover:
    """From a source to a queue of DQ at `target`; `unit_ms` makes ms of its scores."""

    def __init__(self, source, target, queue, unit_ms, keep_ms):
        self.source, self.old, self.zset = source, source.server, source.zset
        self.target, self.queue, self.unit_ms, self.keep_ms = target, queue, unit_ms, keep_ms
        self.parking = parking_key(self.zset)
        self.one_step = in_one_step(self.old, target, self.zset, queue)
        self.moved = 0

    def run(self, longest):
        """Goes through the sorted set once, from the earliest job on. How many stay, since they are at work."""
        self.finish_parked()
        self.source.skipped, stayed = 0, 0
        turn = pages(self.old, self.zset, longest)
        page = next(turn, None)
        while page:
            jobs = self.source.jobs(page)
            stay = len(page) - len(jobs)
            for batch in batches(jobs, lambda job: len(job.payload)):
                kept = self.move(batch) if self.one_step else self.carry(batch)
                stay, stayed = stay + kept, stayed + kept
            self.say()
            try:
                page = turn.send(stay)
            except StopIteration:
                break
        self.finish_parked()
        return stayed

    def move(self, jobs):
        """One batch in one step of the one server."""
        args = [repr(self.unit_ms), len(jobs[0].keys)]
        for job in jobs:
            args += [job.member, job.id, job.payload, job.options]
        keys = [self.zset, self.queue] + [key for job in jobs for key in job.keys]
        moved, kept, error = self.eval(self.old, MOVE, keys, args)
        self.moved += moved
        if error:
            raise Stopped(error.decode())
        return kept

    def carry(self, jobs):
        """One batch from server to server: put aside, pushed, forgotten."""
        # Jobs that are due in one ms come in the order of their ids.
        batch = b"%013x%s" % (time.time_ns() // 1000, os.urandom(8).hex().encode())
        named = {b"mv%s%02x" % (batch, i): job for i, job in enumerate(jobs)}
        args = []
        for token, job in named.items():
            args += [job.member, token, job.payload, job.options]
        parked = self.eval(self.old, PARK, [self.zset, self.parking], args)
        scores = dict(zip(parked[::2], parked[1::2]))
        self.deliver([(token, job._replace(score=float(scores[token]))) for token, job in named.items() if token in scores])
        return 0

    def finish_parked(self):
        """What was put aside and not seen to its end, by this run or an earlier one."""
        cursor = None
        while cursor != 0:
            cursor, entries = self.old.hscan(self.parking, cursor or 0, count=BATCH_JOBS)
            jobs = sorted((self.unpack(token, entry) for token, entry in entries.items()), key=lambda job: job[1].score)
            for batch in batches(jobs, lambda job: len(job[1].payload)):
                self.deliver(batch)

    def unpack(self, token, entry):
        head, _, rest = entry.partition(b"\n")
        score, options, length = head.split(b",")
        member, payload = rest[: int(length)], rest[int(length) :]
        return token, Job(member, float(score), token, payload, options.decode(), self.source.keys_of(member))

    def deliver(self, jobs):
        """Pushes jobs that were put aside, and forgets them when that was answered."""
        for options in sorted({job.options for _, job in jobs}):
            same = [(token, job) for token, job in jobs if job.options == options]
            now = time_of(self.target)
            words = ["DQ.MPUSH", self.queue, "KEEP", self.keep_ms] + options.split() + ["JOBS"]
            for token, job in same:
                words += [token, max(0, due(job.score, self.unit_ms) - now), job.payload]
            try:
                self.send(self.target, *words)
            except redis.ResponseError as error:
                back = [word for token, job in same for word in (token, repr(job.score), job.member)]
                self.eval(self.old, UNPARK, [self.zset, self.parking], back)
                raise Stopped(str(error)) from None
            keys = [key for _, job in same for key in job.keys]
            self.eval(self.old, FORGET, [self.parking] + keys, [token for token, _ in same])
            self.moved += len(same)

    def eval(self, server, script, keys, args):
        return self.send(server, "EVAL", script, len(keys), *keys, *args)

    def send(self, server, *words):
        """Sends again where there was no answer: each of these commands does no harm the second time."""
        for attempt in range(TRIES):
            try:
                return server.execute_command(*words)
            except (redis.ConnectionError, redis.TimeoutError) as error:
                if attempt == TRIES - 1:
                    raise Stopped(f"no answer: {error}") from None
                time.sleep(min(2, 0.1 * 2**attempt))

    def say(self):
        if sys.stderr.isatty():
            print(f"\r{self.moved} moved", end="\r", file=sys.stderr)


def due(score, unit_ms):
    """In ms, never early; what has no time is due now."""
    return math.ceil(score * unit_ms) if math.isfinite(score) else 0


def time_of(server):
    seconds, micros = server.time()
    return seconds * 1000 + micros // 1000


def in_one_step(old, target, zset, queue):
    """Whether one script can reach both: on one server, and in a cluster in one slot."""
    if old.info("server")["run_id"] != target.info("server")["run_id"]:
        return False
    if not old.info("cluster")["cluster_enabled"]:
        return True
    slots = [old.execute_command("CLUSTER KEYSLOT", key) for key in (zset, queue)]
    return slots[0] == slots[1]


def batches(jobs, size):
    """Groups of as much as one step may hold."""
    batch, room = [], BATCH_BYTES
    for job in jobs:
        if batch and (len(batch) >= BATCH_JOBS or room < size(job)):
            yield batch
            batch, room = [], BATCH_BYTES
        batch.append(job)
        room -= size(job)
    if batch:
        yield batch


def pages(server, zset, longest):
    """The sorted set in pages of bounded size. The receiver sends how many of a page are still there; else all are."""
    start, step = 0, max(1, min(500, BATCH_BYTES * 2 // max(1, longest)))
    while True:
        page = server.zrange(zset, start, start + step - 1, withscores=True)
        if not page:
            return
        stay = yield page
        start += len(page) if stay is None else stay


class Plan:
    """What a look at every job says."""

    def __init__(self, source, now):
        self.now = now
        self.jobs = self.bytes = self.longest = self.never = 0
        self.least, self.most = math.inf, -math.inf
        for page in pages(source.server, source.zset, source.longest()):
            for job in source.jobs(page):
                self.look(len(job.payload), job.score)
        self.skipped = source.skipped

    def look(self, length, score):
        self.jobs += 1
        self.bytes += length
        self.longest = max(self.longest, length)
        if score == math.inf:
            self.never += 1
        elif score != -math.inf:
            self.least, self.most = min(self.least, score), max(self.most, score)


class Target:
    """The settings of the queue that decide what it takes."""

    def __init__(self, server, queue):
        rows = server.execute_command("DQ.CONFIG", queue, "GET")
        self.of = {row[0].decode(): row[1].decode() for row in rows}
        self.queue = queue.decode(errors="replace")
        stats = fields(server.execute_command("DQ.STATS", queue))
        self.jobs = stats[b"ready"] + stats[b"delayed"] + stats[b"leased"]

    def set(self, field, value):
        return f"DQ.CONFIG {self.queue} SET {field} {value}"


def fields(reply):
    """A map: names and values in turn under RESP2, a dict under RESP3, which redis-py 8 speaks."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def in_ms(text):
    units = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}
    digits = text.rstrip("dhms")
    return int(digits) * units[text[len(digits) :] or "ms"]


def in_bytes(text):
    units = {"kb": 1024, "mb": 1024**2}
    return int(text[:-2]) * units[text[-2:]] if text[-2:] in units else int(text)


def check(plan, unit_ms, target):
    """What would stop the move in the middle stops it here."""
    if plan.never:
        raise Refused(f"{plan.never} jobs have the score inf and would never be due: give them a time first")
    furthest = due(plan.most, unit_ms) - plan.now
    if furthest > in_ms(target.of["max-delay"]):
        days = math.ceil(furthest / DAY_MS) + 1
        if days > 3650:
            raise Refused(f"the last job is due in {days} days, and max-delay can be at most 3650d: is the unit right?")
        raise Refused(f"the last job is due in {furthest / DAY_MS:.1f} days, and max-delay is {target.of['max-delay']}. "
                      f"First: {target.set('max-delay', f'{days}d')}")
    largest = in_bytes(target.of["max-payload"])
    if 0 < largest < plan.longest:
        raise Refused(f"the longest payload has {plan.longest} bytes, and max-payload is {target.of['max-payload']}. "
                      f"First: {target.set('max-payload', plan.longest)}")
    room, wanted = int(target.of["max-length"]), target.jobs + plan.jobs
    if 0 < room < wanted:
        raise Refused(f"the queue would have {wanted} jobs, and max-length is {room}. "
                      f"First: {target.set('max-length', wanted)}")
    if target.of["stale-policy"] == "drop":
        raise Refused("stale-policy is drop: jobs that are due and that nobody claims would be dropped. "
                      f"First: {target.set('stale-policy', 'keep')}")


def tell(plan, unit_ms, target, one_step):
    day = lambda score: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(due(score, unit_ms) / 1000))
    print(f"jobs     {plan.jobs}, {plan.bytes / 1e6:.1f} MB of payload, the longest {plan.longest} bytes")
    if plan.skipped:
        print(f"stay     {plan.skipped} that cannot be moved")
    if plan.least <= plan.most:
        print(f"due      {day(plan.least)} to {day(plan.most)} UTC")
    print(f"memory   about {(plan.bytes + plan.jobs * OVERHEAD) / 1e6:.0f} MB in DQ")
    print("way      " + ("each job in one step of the server" if one_step else "put aside, pushed, forgotten"))
    if target.of["stale-policy"] == "dead":
        print(f"note     jobs that are due become dead letters where nobody claims for {target.of['stale-after']}: "
              "have workers, or " + target.set("stale-policy", "keep"))


def move(source, target, queue, unit_ms, options):
    """Looks at all jobs, refuses or tells what is to be done, and does it."""
    mover = Mover(source, target, queue, unit_ms, options.keep_days * DAY_MS)
    plan, settings = Plan(source, time_of(target)), Target(target, queue)
    check(plan, unit_ms, settings)
    tell(plan, unit_ms, settings, mover.one_step)
    if options.dry_run:
        return print("moved    nothing: --dry-run")
    stayed = mover.run(plan.longest)
    while options.follow:
        time.sleep(1)
        stayed = mover.run(plan.longest)
    print(f"moved    {mover.moved}")
    if stayed:
        raise Stopped(f"{stayed} members stay: their earlier job is being worked on. Run this again")


def arguments(description):
    """What all programs take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--from", dest="source", default="redis://127.0.0.1:6379", metavar="URL", help="where the old queue is")
    parser.add_argument("--to", dest="target", metavar="URL", help="where DQ is; else the same server")
    parser.add_argument("--dry-run", action="store_true", help="look at every job, say what would be done, move nothing")
    parser.add_argument("--follow", action="store_true", help="go on with what old producers still add, until Ctrl-C")
    parser.add_argument("--keep-days", type=int, default=1, help="from server to server: how soon a run that broke off is begun again")
    return parser


def connect(url):
    return redis.Redis.from_url(url, socket_timeout=60, encoding_errors="surrogateescape")


def main(run, parser):
    """Exit codes: 0 done, 1 refused, 2 stopped with some of the work left."""
    try:
        run(parser.parse_args())
    except Refused as error:
        sys.exit(f"refused, nothing was moved: {error}")
    except (Stopped, redis.RedisError) as error:
        print(f"stopped: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        pass
