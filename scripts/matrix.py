#!/usr/bin/env python3
"""Runs every test that starts servers on each server named, and writes the README's table of them.

    scripts/matrix.py redis-7.0 valkey-9.1 ...

The programs are built once. Each server's logs and results are kept in target/matrix/NAME; what has passed there, by
the same programs on the same server, is not run again, so that a run that was broken off goes on. A test that fails is
run once more by itself: one that fails then, too, has failed; one that does not is told of. A row of the README is
written when its server is through; the other rows stay as they are.

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
    """The names of the programs of tests, copied beside the module: the next build does not change a long run's."""
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
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    print(said, end="", flush=True)
    return {name: (version, origin) for name, version, origin in re.findall(r"^(\S+): (\S+), of (.*)$", said, re.M)}


def digest(program, version):
    """What a result is of: the program, the module, the scripts that the tests start, the pages that they run, the server."""
    pages = [*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")] if program == "docs" else []
    files = [PROGRAMS / program, PROGRAMS / "libdq.so", *sorted((ROOT / "tests").rglob("*.py")), *sorted(pages)]
    whole = hashlib.sha256(version.encode())
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()


def call(server, program, log, *args):
    """Runs a program of tests on a server; its output, which goes to the end of `log` too."""
    folder = SERVERS / server
    env = os.environ | {"DQ_TEST_SERVER": str(folder / "server"), "DQ_TEST_CLI": str(folder / "cli")}
    command = [PROGRAMS / program, "--show-output", *args]
    begin = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        child = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            out.write(f"\nended after {PATIENCE_S} s\n".encode())
        finally:
            # Its servers end with it.
            child.kill()
            child.wait()
    return log.read_bytes()[begin:].decode(errors="replace")


def outcomes(output):
    """Of each test whether it passed, and the reason of each that was skipped; None where the program broke off.

    What is ignored wherever it is run is a tool that the tests use, and no test."""
    result = re.search(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", output, re.M)
    tests = dict(re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored.*)$", output, re.M))
    if not result or len(tests) != sum(map(int, result.groups())):
        return None, {}
    tests = {name: end for name, end in tests.items() if not end.startswith("ignored")}
    skipped = {}
    # What a test printed stands under its name.
    border = r"(?=^---- |^successes:|^failures:|\Z)"
    for name, printed in re.findall(rf"^---- (\S+) stdout ----\n(.*?){border}", output, re.M | re.S):
        reason = re.search(r"^skipped: (.*)$", printed, re.M)
        if reason and tests.get(name) == "ok":
            skipped[name] = reason[1]
    return {name: end == "ok" for name, end in tests.items() if name not in skipped}, skipped


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
    result = {"of": of, "passed": [], "failed": [], "again": [], "skipped": {}}
    tests, result["skipped"] = outcomes(call(server, program, log))
    if tests is None:
        result["failed"] = ["the whole program, which broke off"]
    for name, passed in (tests or {}).items():
        if not passed and passes_alone(server, program, log, name):
            result["again"].append(name)
            passed = True
        result["passed" if passed else "failed"].append(name)
    result["seconds"] = round(time.monotonic() - begin)
    kept.write_text(json.dumps(result, indent=1) + "\n")
    return result


def passes_alone(server, program, log, name):
    tests, _ = outcomes(call(server, program, log, "--exact", name))
    return (tests or {}).get(name, False)


def test(server, programs, version):
    """All programs on one server: the sum of their results, each test with its program's name before it."""
    whole = {"passed": [], "failed": [], "again": [], "skipped": {}, "seconds": 0}
    for program in programs:
        result = run(server, program, version)
        print(f"{server} {program}: {told(result)}", flush=True)
        for name in result["failed"]:
            print(f"    FAILED {name}, see {MATRIX / server / program}.log", flush=True)
        for name in result["again"]:
            print(f"    failed at first, passed when run by itself: {name}", flush=True)
        for kind in ("passed", "failed", "again"):
            whole[kind] += [f"{program} {name}" for name in result[kind]]
        whole["skipped"] |= {f"{program} {name}": reason for name, reason in result["skipped"].items()}
        whole["seconds"] += result["seconds"]
    return whole


def told(result):
    counts = ", ".join(f"{len(result[kind])} {kind}" for kind in ("passed", "failed", "skipped"))
    return f"{counts} in {result['seconds']} s"


def row(server, version, origin, result, state):
    """The server's line of the README's table."""
    kind, number = server.split("-")
    passed = str(len(result["passed"]))
    if result["again"]:
        passed += f", {len(result['again'])} of them at the second try"
    failed = ", ".join([str(len(result["failed"])), *(f"`{name}`" for name in result["failed"])])
    reasons = {}
    for name, reason in result["skipped"].items():
        reasons.setdefault(reason, []).append(f"`{name.split('::')[-1]}`")
    skipped = "; ".join(f"{len(names)}: {reason} ({', '.join(names)})" for reason, names in reasons.items()) or "0"
    return f"| {kind.title()} {number} | {version} ({origin}) | {passed} | {failed} | {skipped} | {state} |"


def state():
    """Today, and the commit that is built; + where it is not all of what is built."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
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
    programs, built = build(), state()
    failed = [name for name in names if name not in there]
    for name, (version, origin) in there.items():
        result = test(name, programs, version)
        write(name, row(name, version, origin, result, built))
        print(f"{name} {version}: {told(result)}", flush=True)
        if result["failed"]:
            failed.append(name)
    if failed:
        sys.exit(f"Not all was well: {' '.join(failed)}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    # So that what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    main(sys.argv[1:])
