"""What the producer and the workers of the main job share: the link to the server, the plan, the diary."""

import mmap
import os
import select
import sys

import msgpack
import redis

QUEUE = b"jobs"

LOST = redis.ConnectionError, redis.TimeoutError


class Stopped(Exception):
    """The test closed our standard input: it wants us to end."""


def pause(seconds):
    """Waits a little; ends the program where the test wants that."""
    if select.select([0], [], [], seconds)[0]:
        raise Stopped


class Link:
    """One connection. The port stands in a file, since a server that starts again may have to take another one."""

    def __init__(self, folder):
        self.port_file = os.path.join(folder, "port")
        self.client = None

    def connect(self):
        """Waits for the server, where it is gone."""
        while self.client is None:
            with open(self.port_file, encoding="ascii") as file:
                client = redis.Redis("127.0.0.1", int(file.read()), socket_timeout=60)
            try:
                client.ping()
                self.client = client
            except LOST:
                client.connection_pool.disconnect()
                pause(0.02)

    def call(self, *commands):
        """Sends the commands in one piece between two TIMEs of the server, and gives
        (time before in µs, replies, time after). An error of the server is a reply. Raises one of LOST where there
        is no answer, in which case the commands may have run or not."""
        self.connect()
        try:
            pipe = self.client.pipeline(transaction=False)
            pipe.execute_command("TIME")
            for command in commands:
                pipe.execute_command(*command)
            pipe.execute_command("TIME")
            before, *replies, after = pipe.execute(raise_on_error=False)
            return micros(before), replies, micros(after)
        except LOST:
            self.client.connection_pool.disconnect()
            self.client = None
            raise


def micros(time):
    seconds, micros = time
    return seconds * 1_000_000 + micros


class Task:
    """One job as the test planned it."""

    FIELDS = ("serial", "outcome", "wait", "at", "own_id", "twice", "many", "retries", "lease", "backoff", "stack",
              "retry_delay", "start", "length")

    def __init__(self, values):
        for name, value in zip(self.FIELDS, values, strict=True):
            setattr(self, name, value)


class Plan:
    """What the test planned, with the payloads in a file of their own."""

    def __init__(self, folder):
        with open(os.path.join(folder, "plan"), "rb") as file:
            self.default_retries, tasks = msgpack.unpackb(file.read())
        self.tasks = [Task(values) for values in tasks]
        with open(os.path.join(folder, "payloads"), "rb") as file:
            self.payloads = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def payload(self, task, copy):
        """The bytes of a job: its serial number, which copy it is, its outcome, and noise."""
        planned = self.payloads[task.start:task.start + task.length]
        return planned[:4] + bytes([copy]) + planned[5:]


class Diary:
    """Lines in a file, each on the disk's cache before anything else happens, so that they outlive a SIGKILL."""

    def __init__(self, folder, name):
        self.file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *lines):
        text = "".join(" ".join(str(word) for word in line) + "\n" for line in lines).encode()
        while text:
            text = text[os.write(self.file, text):]


def say(text):
    """Tells the test."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
