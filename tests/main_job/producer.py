"""The producer of the main job: pushes every planned job and writes down what was answered.

    producer.py FOLDER

A push without an answer is made again: as it was where the job has an id of its own, which makes that one job, and
else as the next copy, since the first may have arrived.

Diary, the times those of the server:
    push serial copy id due after      it was answered after µs; the job is due no earlier than due ms
    dup serial copy id after           the same push a second time
    lost serial copy                   no answer
    refused serial copy error
"""

import os
import sys
import time

import redis

from common import LOST, QUEUE, Diary, Link, Plan, pause, say

PIPELINE = 10
MANY = 25
# So that producer and workers are at work at the same time.
PUSHES_A_SECOND = 1200
# Where the job dies, its id is free again, and the same push could make it twice.
DYING = ("failed", "fail-after-retry", "used-up", "crash-always", "retry-then-crash")


class Producer:
    def __init__(self, folder):
        self.link, self.plan, self.diary = Link(folder), Plan(folder), Diary(folder, "producer")
        self.copies = [0] * len(self.plan.tasks)
        self.pushed = 0
        self.now, self.started = 0, 0
        self.restarted = os.path.join(folder, "restarted")

    def run(self):
        self.now = self.link.call()[0] // 1000
        self.started = time.monotonic()
        waiting, kind = [], None
        for task in self.plan.tasks:
            if kind is not None and (task.many != kind or len(waiting) == (MANY if kind else PIPELINE)):
                self.push_all(waiting, kind)
                waiting = []
            kind = task.many
            waiting.append(task)
        self.push_all(waiting, kind)
        self.push_again([t for t in self.plan.tasks if t.twice])
        say("done")

    def push_again(self, tasks):
        """Once more what was pushed before the server was killed and since, and is mostly done: its ids are taken."""
        for start in range(0, len(tasks), MANY):
            some = tasks[start:start + MANY]
            _, replies, after = self.link.call(*(self.pushes(t)[0] for t in some))
            self.diary.write(*(
                ("dup", t.serial, self.copies[t.serial], word(reply), after) for t, reply in zip(some, replies)))

    def push_all(self, tasks, many):
        """Pushes until each has its answer."""
        while tasks:
            commands = [self.mpush(tasks)] if many else [c for t in tasks for c in self.pushes(t)]
            try:
                before, replies, after = self.link.call(*commands)
            except LOST:
                self.diary.write(*(("lost", t.serial, self.copies[t.serial]) for t in tasks))
                for task in tasks:
                    if not self.may_repeat(task):
                        self.copies[task.serial] += 1
                continue
            if many and not isinstance(replies[0], redis.ResponseError):
                replies = replies[0]
            elif many:
                replies = replies * len(tasks)
            self.note(tasks, iter(replies), before // 1000, after)
            self.now = after // 1000
            self.pushed += len(tasks)
            say(f"pushed {self.pushed}")
            self.keep_pace()
            return

    def keep_pace(self):
        ahead = self.started + self.pushed / PUSHES_A_SECOND - time.monotonic()
        pause(max(ahead, 0))
        # However slow the test is on this machine, the server is killed while we push.
        while self.pushed > len(self.plan.tasks) * 0.9 and not os.path.exists(self.restarted):
            pause(0.01)

    def may_repeat(self, task):
        return task.own_id and task.outcome not in DYING

    def note(self, tasks, replies, before, after):
        lines = []
        for task in tasks:
            copy, reply = self.copies[task.serial], next(replies)
            if isinstance(reply, redis.ResponseError):
                lines.append(("refused", task.serial, copy, reply))
                continue
            due = task.due if task.at else before + task.wait
            lines.append(("push", task.serial, copy, reply.decode(), due, after))
            if task.twice:
                lines.append(("dup", task.serial, copy, word(next(replies)), after))
        self.diary.write(*lines)

    def own_id(self, task):
        return b"%s:%d.%d" % (task.own_id, task.serial, self.copies[task.serial])

    def pushes(self, task):
        command = ["DQ.PUSH", QUEUE, self.plan.payload(task, self.copies[task.serial])]
        if task.own_id:
            command += ["ID", self.own_id(task)]
        if task.at:
            task.due = self.now + task.wait
            command += ["AT", task.due]
        elif task.wait:
            command += ["DELAY", task.wait]
        if task.retries is not None:
            command += ["RETRIES", task.retries]
        if task.lease is not None:
            command += ["LEASE", task.lease]
        if task.backoff is not None:
            command += ["BACKOFF", *task.backoff]
        return [command, command] if task.twice else [command]

    def mpush(self, tasks):
        command = ["DQ.MPUSH", QUEUE, "JOBS"]
        for task in tasks:
            own_id = self.own_id(task) if task.own_id else b""
            command += [own_id, task.wait, self.plan.payload(task, self.copies[task.serial])]
        return command


def word(reply):
    return reply.decode() if isinstance(reply, bytes) else str(reply).replace(" ", "_")


if __name__ == "__main__":
    Producer(sys.argv[1]).run()
