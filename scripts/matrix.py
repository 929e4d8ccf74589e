#!/usr/bin/env python3
"""Runs every test that starts servers on each server named, and writes the README's table of them.

    scripts/matrix.py redis-7.0 valkey-9.1 ...

The programs are built once. Each server's logs and results are kept in target/matrix/NAME; what has passed there, by the
same programs on the same server, is not run again, so that a run that was broken off goes on. A test that fails is run
once more by itself: one that fails then, too, has failed; one that does not is told of. A row of the README is written
when its server is through; the other rows stay as they are.

Ends with 1 where a test failed or a server could not be had.
"""

import datetime
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
SERVERS, MATRIX = TARGET / "servers", TARGET / "matrix"
PROGRAMS = MATRIX / "programs"

# A program of tests that takes longer hangs.
PATIENCE_S = 3600

BEGIN = "<!-- The rows are written by `make test-matrix`. -->"
END = "<!-- The end of what it writes. -->"


def build():
    """The programs of tests, copied beside the module so that the next build does not change them under a long run."""
    command = ["cargo", "test", "--locked", "--no-run", "--test", "*", "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    artifacts = [json.loads(line) for line in built.splitlines()]
    tests = {a["target"]["name"]: Path(a["executable"]) for a in artifacts if a.get("executable")}
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    for name, program in tests.items():
        copy(program, PROGRAMS / name)
        copy(program.with_name("libdq.so"), PROGRAMS / "libdq.so")
    return sorted(tests)


def copy(source, to):
    """To a new file: a program that still runs from an earlier build keeps its own."""
    to.unlink(missing_ok=True)
    shutil.copy2(source, to)


def fetch(names):
    """The servers that can be had, each with its version and where it is from; the script says which cannot."""
    command = [ROOT / "scripts/servers.sh", SERVERS, *names]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    print(told, end="", flush=True)
    return {name: (version, origin) for name, version, origin in re.findall(r"^(\S+): (\S+), of (.*)$", told, re.M)}


def digest(program, version):
    """What a result is of: the program, the module, the scripts that the tests start, and the server."""
    files = [PROGRAMS / program, PROGRAMS / "libdq.so", *sorted((ROOT / "tests").rglob("*.py"))]
    whole = hashlib.sha256(version.encode())
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()


def call(server, program, log, *args):
    """Runs a program of tests on a server; its output, which goes to the end of `log` too."""
    env = os.environ | {
        "DQ_TEST_SERVER": str(SERVERS / server / "server"),
        "DQ_TEST_CLI": str(SERVERS / server / "cli"),
    }
    begin = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        child = subprocess.Popen([PROGRAMS / program, "--show-output", *args], cwd=ROOT, env=env, start_new_session=True,
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            child.wait(PATIENCE_S)
        except BaseException as error:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            out.write(f"\nended after {PATIENCE_S} s\n".encode())
    with log.open("rb") as out:
        out.seek(begin)
        return out.read().decode(errors="replace")


def outcomes(output):
    """Of each test whether it passed, and the reason of each that was skipped; None where the program broke off."""
    result = re.search(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", output, re.M)
    tests = dict(re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored.*)$", output, re.M))
    if not result or len(tests) != sum(map(int, result.groups())):
        return None, {}
    skipped = {name: told.partition(", ")[2] or "ignored" for name, told in tests.items() if told.startswith("ignored")}
    # What a test printed stands under its name.
    end = r"(?=^---- |^successes:|^failures:|\Z)"
    for name, printed in re.findall(rf"^---- (\S+) stdout ----\n(.*?){end}", output, re.M | re.S):
        reason = re.search(r"^skipped: (.*)$", printed, re.M)
        if reason and tests.get(name) == "ok":
            skipped[name] = reason[1]
    return {name: told == "ok" for name, told in tests.items() if name not in skipped}, skipped


def run(server, program, version):
    """The result of one program on one server, which is kept."""
    kept, log = MATRIX / server / f"{program}.json", MATRIX / server / f"{program}.log"
    of = digest(program, version)
    if kept.exists():
        result = json.loads(kept.read_text())
        if result["of"] == of and not result["failed"]:
            return result
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    begin = time.monotonic()
    passed, skipped = outcomes(call(server, program, log))
    if passed is None:
        failed, again, passed = [f"{program} broke off"], [], {}
    else:
        tries = [name for name, ok in passed.items() if not ok]
        again = [name for name in tries if (outcomes(call(server, program, log, "--exact", name))[0] or {}).get(name)]
        failed = [name for name in tries if name not in again]
    result = {
        "of": of,
        "passed": len(passed) - len([name for name in failed if name in passed]),
        "failed": failed,
        "again": again,
        "skipped": skipped,
        "seconds": round(time.monotonic() - begin),
    }
    kept.write_text(json.dumps(result, indent=1) + "\n")
    return result


def test(server, programs, version):
    """All programs on one server: their sum."""
    whole = {"passed": 0, "failed": [], "again": [], "skipped": {}, "seconds": 0}
    for program in programs:
        result = run(server, program, version)
        print(f"{server} {program}: {sums(result)} in {result['seconds']} s", flush=True)
        for name in result["failed"]:
            print(f"    FAILED {name}, see {MATRIX / server / program}.log", flush=True)
        for name in result["again"]:
            print(f"    failed at first, passed when run by itself: {name}", flush=True)
        for key, value in result.items():
            if key in ("failed", "again"):
                whole[key] += [f"{program}: {name}" for name in value]
            elif key == "skipped":
                whole[key] |= {f"{program}: {name}": reason for name, reason in value.items()}
            elif key != "of":
                whole[key] += value
    return whole


def sums(result):
    return f"{result['passed']} passed, {len(result['failed'])} failed, {len(result['skipped'])} skipped"


def row(server, version, origin, result):
    """The server's line of the README's table."""
    kind, number = server.split("-")
    passed = str(result["passed"])
    if result["again"]:
        passed += f", {len(result['again'])} of them at the second try"
    failed = ", ".join([str(len(result["failed"])), *(f"`{name}`" for name in result["failed"])])
    reasons = {}
    for name, reason in result["skipped"].items():
        reasons.setdefault(reason, []).append(f"`{name.split('::')[-1]}`")
    skipped = "; ".join(f"{len(names)}: {reason} ({', '.join(names)})" for reason, names in reasons.items()) or "0"
    return f"| {kind.title()} {number} | {version} ({origin}) | {passed} | {failed} | {skipped} | {state()} |"


def state():
    """When, and of which commit the tests were; + where something is not committed."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    changed = "+" if git("status", "--porcelain", "--", "src", "tests", "Cargo.toml", "Cargo.lock") else ""
    return f"{datetime.date.today()}, {git('rev-parse', '--short', 'HEAD')}{changed}"


def write(server, line):
    """Puts a row into the README, in the place of the server's last one, and keeps the rows in order."""
    readme = ROOT / "README.md"
    before, begin, rest = readme.read_text().partition(BEGIN + "\n")
    table, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"README.md has no lines {BEGIN!r} and {END!r} around the table of servers")
    head, *rows = [line for line in table.split("\n") if line]
    rule, *rows = rows
    key = line.split("|")[1]
    rows = sorted([row for row in rows if row.split("|")[1] != key] + [line])
    readme.write_text(before + begin + "\n".join(["", head, rule, *rows, "", ""]) + end + after)


def main(names):
    there = fetch(names)
    programs = build()
    failed = [name for name in names if name not in there]
    for name, (version, origin) in there.items():
        result = test(name, programs, version)
        write(name, row(name, version, origin, result))
        print(f"{name} {version}: {sums(result)} in {result['seconds']} s", flush=True)
        if result["failed"]:
            failed.append(name)
    if failed:
        sys.exit(f"Not all was well: {' '.join(failed)}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
