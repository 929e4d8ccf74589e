"""A worker of the main job: claims, does with each job what was planned for it, and writes down all of it.

    worker.py FOLDER NUMBER

It knows nothing of a job but what the claim tells, as any worker does: a job may come again, here or elsewhere.

Diary, the times in µs of the server:
    claim receipt id serial copy attempt lease retries-left same|differs asked before after
    sent act receipt                       the act is about to be sent
    got act receipt answer before after    it was answered
    lost act receipt                       it was not, and is sent again
    crash receipt                          waits in the middle of the job to be killed
    end
"""

import sys

import redis

from common import LOST, QUEUE, Diary, Link, Plan, Stopped, pause, say

# How many jobs a claim asks for, by the worker's number.
COUNTS = (1, 4, 8, 16)
# Every so many claims name a lease of their own.
ASKED_EVERY, ASKED_LEASE = 5, 3000


class Job:
    """One claimed job."""

    def __init__(self, reply, plan):
        receipt, self.payload, id, self.attempt, self.lease, self.retries_left = reply[:6]
        self.receipt, self.id = receipt.decode(), id.decode()
        self.serial, self.copy = int.from_bytes(self.payload[:4], "big"), self.payload[4]
        self.task = plan.tasks[self.serial]
        self.same = "same" if self.payload == plan.payload(self.task, self.copy) else "differs"
        limit = plan.default_retries if self.task.retries is None else self.task.retries
        self.failures = limit - self.retries_left
        self.lapses = self.attempt - 1 - self.failures

    def crashes(self):
        """Whether the planned outcome is that this attempt ends its worker."""
        return {
            "crash-once": self.lapses == 0,
            "crash-always": True,
            "retry-then-crash": self.failures == 1,
        }.get(self.task.outcome, False)

    def is_slow(self):
        """Whether this attempt is to take longer than its lease."""
        return self.task.outcome == "slow" and self.lapses == 0

    def act(self):
        """What is planned for this attempt."""
        return {
            "retry-once": "retry" if self.failures < 1 else "ack",
            "retry-twice": "retry" if self.failures < 2 else "ack",
            "failed": "fail",
            "fail-after-retry": "retry" if self.failures < 1 else "fail",
            "used-up": "retry",
            "retry-then-crash": "retry",
        }.get(self.task.outcome, "ack")

    def note(self, act):
        """ERROR and STACK, in bytes that a careless hand would mangle."""
        words = ["ERROR", b"job %d.%d: %s %d\0\xff" % (self.serial, self.copy, act.encode(), self.failures + 1)]
        if self.task.stack:
            line = b"at job %d, failure %d\r\n" % (self.serial, self.failures + 1)
            words += ["STACK", (line * (self.task.stack // len(line) + 1))[:self.task.stack]]
        return words


class Worker:
    def __init__(self, folder, number):
        self.link, self.plan, self.diary = Link(folder), Plan(folder), Diary(folder, f"worker-{number}")
        self.count, self.claims = COUNTS[number % len(COUNTS)], 0

    def run(self):
        say("ready")
        try:
            while True:
                self.turn()
        except Stopped:
            self.diary.write(("end",))

    def turn(self):
        try:
            jobs = self.claim()
        except LOST:
            return
        if not jobs:
            pause(0.005)
        self.work(jobs)

    def claim(self):
        self.claims += 1
        command = ["DQ.CLAIM", QUEUE, "COUNT", self.count]
        asked = self.claims % ASKED_EVERY == 0
        if asked:
            command += ["LEASE", ASKED_LEASE]
        before, (reply,), after = self.link.call(command)
        if isinstance(reply, redis.ResponseError):
            raise reply
        jobs = [Job(job, self.plan) for job in reply]
        self.diary.write(*(
            ("claim", j.receipt, j.id, j.serial, j.copy, j.attempt, j.lease, j.retries_left, j.same,
             "asked" if asked else "own", before, after) for j in jobs))
        return jobs

    def work(self, jobs):
        """First the jobs that have been tried before, last those that killed a worker before: so a job shares the
        fate of a neighbour that kills its worker at most once, as it would with any careful worker."""
        again = [j for j in jobs if j.attempt > 1]
        self.do([j for j in again if not j.crashes()])
        self.do([j for j in jobs if j.attempt == 1])
        self.do([j for j in again if j.crashes()])

    def do(self, jobs):
        """One job after the other; what is done is acknowledged together, before the next failure and at the end."""
        done = []
        for job in jobs:
            if job.crashes():
                self.diary.write(("crash", job.receipt))
                say(f"crash {job.receipt}")
                while True:
                    pause(3600)
            if job.is_slow():
                pause(job.lease / 1000 + 0.5)
            if job.act() == "ack":
                done.append(job)
            else:
                self.ack(done)
                done = []
                self.act(job, job.act())
        self.ack(done)

    def act(self, job, act):
        command = [f"DQ.{act.upper()}", QUEUE, job.receipt, *job.note(act)]
        if act == "retry" and job.task.retry_delay is not None:
            command += ["DELAY", job.task.retry_delay]
        self.tell(act, [job.receipt], command, lambda reply: [answer(reply)])

    def ack(self, jobs):
        receipts = [job.receipt for job in jobs]
        if len(receipts) == 1:
            self.tell("ack", receipts, ["DQ.ACK", QUEUE, *receipts], lambda reply: [answer(reply)])
        elif receipts:
            self.tell("ack", receipts, ["DQ.ACK", QUEUE, *receipts, "EACH"],
                      lambda reply: reply if isinstance(reply, list) else [answer(reply)] * len(receipts))

    def tell(self, act, receipts, command, read):
        """Sends until there is an answer."""
        while True:
            self.diary.write(*(("sent", act, receipt) for receipt in receipts))
            try:
                before, (reply,), after = self.link.call(command)
            except LOST:
                self.diary.write(*(("lost", act, receipt) for receipt in receipts))
                continue
            self.diary.write(*(
                ("got", act, receipt, word, before, after)
                for receipt, word in zip(receipts, read(reply), strict=True)))
            return


def answer(reply):
    """One word for the diary."""
    if isinstance(reply, redis.ResponseError):
        text = str(reply)
        return "stale" if text.startswith("DQLOST") else text.replace(" ", "_")
    return reply.decode() if isinstance(reply, bytes) else reply


if __name__ == "__main__":
    Worker(sys.argv[1], int(sys.argv[2])).run()
