"""Runs the Python blocks of a page for tests/docs/python.rs, which sends an order for each and reads an answer."""

import ctypes
import io
import os
import signal
import sys
import threading
import traceback

import msgpack

orders = msgpack.Unpacker(os.fdopen(os.dup(0), "rb", buffering=0))
answers = os.fdopen(os.dup(1), "wb", buffering=0)
printed = io.StringIO()
sys.stdout = sys.stderr = printed
names = {"__name__": "__main__"}
PR_SET_PDEATHSIG = 1
# What went wrong in a thread or in a process.
failures = []
children = []


def run(block, failures):
    try:
        # So that an error names the line of the page.
        exec(compile("\n" * block["line"] + block["text"], block["page"], "exec"), names)
    except BaseException:
        failures.append(traceback.format_exc())


def start_thread(block):
    threading.Thread(target=run, args=(block, failures), daemon=True).start()


def start_process(block):
    """A process has signal handlers of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(reader)
        sys.stdout = sys.stderr = os.fdopen(writer, "w", buffering=1)
        failed = []
        run(block, failed)
        print(*failed, end="")
        os._exit(len(failed))
    os.close(writer)
    children.append(child)
    threading.Thread(target=lambda: [printed.write(line) for line in os.fdopen(reader)], daemon=True).start()


def end_processes():
    for child in children:
        os.kill(child, signal.SIGTERM)
        if os.waitpid(child, 0)[1] != 0:
            failures.append("a process in the background did not end well:\n" + printed.getvalue())


begin = 0
for order in orders:
    if order["do"] in ("run", "thread", "process"):
        begin = len(printed.getvalue())
    {
        "run": lambda: run(order, failures),
        "thread": lambda: start_thread(order),
        "process": lambda: start_process(order),
        "look": lambda: None,
        "end": end_processes,
    }[order["do"]]()
    error = failures.pop(0) if failures else None
    answers.write(msgpack.packb({"error": error, "printed": printed.getvalue()[begin:]}))
os._exit(0)
