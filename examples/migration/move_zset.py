#!/usr/bin/python3
"""Moves the jobs of a sorted set (member = payload, score = when it is due) into a queue of DQ.

    move_zset.py jobs:delayed mail --from redis://old:6379 --to redis://new:6380 --dry-run

None is lost and none is doubled: not when it is killed, and not when a poller that takes its jobs by ZREM, ZPOPMIN or
a script runs at the same time. Run it again after anything; docs/migration/zset.md says more.
"""

import os

from mover import (
    DAY_MS, Refused, Source, Stopped, arguments, connect, fields, in_one_step, main, move, pages, parking_key, time_of
)

UNITS = {"s": 1000, "ms": 1}
# Scores within 20 years of now are taken for what they look like.
YEARS_MS = 20 * 365 * DAY_MS

# The way back: a job that nobody holds becomes a member again, unless the same member is there.
BACK = """
local back, stay = 0, 0
for i = 2, #ARGV do
  local job, fields = redis.call('DQ.GET', KEYS[2], ARGV[i]), {}
  for at = 1, #(job or {}), 2 do fields[job[at]] = job[at + 1] end
  if fields.state == 'ready' or fields.state == 'delayed' then
    local score = string.format('%.3f', fields['due-at'] / tonumber(ARGV[1]))
    if redis.call('ZADD', KEYS[1], 'NX', score, fields.payload) == 1 then
      redis.call('DQ.CANCEL', KEYS[2], 'STATE', fields.state, ARGV[i])
      back = back + 1
    else
      stay = stay + 1
    end
  end
end
return {back, stay}
"""


def unit_of(source, wanted, now):
    """The unit that is wanted, or the one that all scores look like."""
    count = {"s": 0, "ms": 0, "neither": 0}
    for page in pages(source.server, source.zset, source.longest()):
        for _, score in page:
            looks = [unit for unit, ms in UNITS.items() if abs(score * ms - now) < YEARS_MS]
            count[looks[0] if looks else "neither"] += 1
    if wanted == "ms" and count["s"]:
        raise Refused(f"{count['s']} scores look like seconds: as ms they would all be due since 1970")
    if wanted != "auto":
        return wanted
    found = [unit for unit in count if count[unit]]
    if found == ["neither"] or len(found) > 1:
        says = f"{count['s']} look like seconds, {count['ms']} like ms, {count['neither']} like neither"
        raise Refused(f"the unit of the scores is not clear: {says}. Say --unit s or --unit ms")
    if not found and source.server.exists(parking_key(source.zset)):
        raise Refused("an earlier run has put jobs aside: say --unit s or --unit ms, as it was then")
    return found[0] if found else "ms"


def back(server, zset, queue, unit):
    """Every job that is ready or delayed becomes a member again."""
    moved = stay = 0
    for state in ("ready", "delayed"):
        after = []
        while True:
            cursor, jobs = server.execute_command("DQ.PEEK", queue, "STATE", state, "COUNT", 50, *after)
            ids = [fields(job)[b"id"] for job in jobs]
            if ids:
                went, stayed = server.eval(BACK, 2, zset, queue, UNITS[unit], *ids)
                moved, stay = moved + went, stay + stayed
            if cursor == b"0":
                break
            after = ["AFTER", cursor]
    print(f"moved    {moved} back")
    if stay:
        raise Stopped(f"{stay} jobs stay in DQ: the sorted set has a member of the same bytes")


def run(options):
    old, target = connect(options.source), connect(options.target or options.source)
    zset, queue = os.fsencode(options.zset), os.fsencode(options.queue)
    if options.back:
        if options.unit == "auto" or not in_one_step(old, target, zset, queue):
            raise Refused("--back goes within one server, and wants --unit s or --unit ms")
        return back(old, zset, queue, options.unit)
    source = Source(old, zset)
    if options.follow and options.unit == "auto":
        raise Refused("what comes later may have any unit: say --unit s or --unit ms with --follow")
    unit = unit_of(source, options.unit, time_of(target))
    print(f"unit     {unit}")
    move(source, target, queue, UNITS[unit], options)


if __name__ == "__main__":
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("zset", help="the key of the sorted set")
    parser.add_argument("queue", help="the queue of DQ")
    parser.add_argument("--unit", choices=["auto", "s", "ms"], default="auto", help="of the scores")
    parser.add_argument("--back", action="store_true", help="the other way: what is in DQ and nobody works on")
    main(run, parser)
