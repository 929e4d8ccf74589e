"""Exporter and Prometheus by the files of monitoring/, on a server that is there: every panel and every alert has data.

    chain.py PORT PROGRAMS WORKDIR MONITORING
"""

import json
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

PORT, PROGRAMS, WORK, MONITORING = int(sys.argv[1]), *map(Path, sys.argv[2:5])
DEADLINE = time.monotonic() + 50
# Names in an expression that are metrics: ours, and those of the exporter and of Prometheus.
METRIC = re.compile(r"\b(?:dq_\w+|redis_\w+|up)\b")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def wait(what, look):
    error = None
    while time.monotonic() < DEADLINE:
        try:
            found = look()
            if found:
                return found
        except OSError as problem:
            error = problem
        time.sleep(0.1)
    sys.exit(f"waited in vain for {what}: {error}")


def exporter_words(port):
    """The line of Debian's defaults file with the ports and paths of this test."""
    line = re.search(r'^ARGS="(.*)"$', (MONITORING / "prometheus-redis-exporter.default").read_text(), re.M).group(1)
    line = line.replace(":6380", f":{PORT}").replace(":9121", f":{port}")
    return [PROGRAMS / "prometheus-redis-exporter"] + shlex.split(line.replace("/etc/prometheus", str(MONITORING)))


def prometheus_words(exporter, port):
    text = (MONITORING / "prometheus.yml").read_text().replace(":9121", f":{exporter}").replace("15s", "1s")
    config = WORK / "prometheus.yml"
    config.write_text(text.replace("/etc/prometheus", str(MONITORING)))
    return [PROGRAMS / "prometheus", f"--config.file={config}", f"--storage.tsdb.path={WORK / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]


def query(base, expr):
    answer = json.loads(get(base + "/api/v1/query?" + urllib.parse.urlencode({"query": expr})))
    return answer["data"]["result"]


def expressions(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expr = target["expr"].replace("$job", "dq").replace("$__rate_interval", "20s")
            yield panel["title"], re.sub(r"\$\w+", ".*", expr)


def check_dashboard(dashboard, base):
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)), "each panel has an id of its own"
    cells = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not mine & cells, f"{panel['title']} lies on another"
        cells |= mine
    known = {variable["name"] for variable in dashboard["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) <= known
    count = 0
    for title, expr in expressions(dashboard):
        wait(f"data of {title}: {expr}", lambda: query(base, expr))
        count += 1
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric = METRIC.search(variable["definition"]).group()
            label = variable["definition"].rsplit(", ", 1)[1].rstrip(")")
            assert all(label in row["metric"] for row in query(base, metric)), variable["name"]
    return count


def check_rules(base):
    groups = json.loads(get(base + "/api/v1/rules"))["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    for rule in rules:
        # On a primary that is well, some of them are known from nothing but the metrics they look at.
        for metric in set(METRIC.findall(rule["query"])):
            wait(f"data of {rule['name']}: {metric}", lambda: query(base, metric))
        assert rule["health"] != "err", rule
    return rules


def main():
    exporter_port, port = free_port(), free_port()
    base, started = f"http://127.0.0.1:{port}", []
    try:
        with open(WORK / "exporter.log", "w") as log:
            started.append(subprocess.Popen(exporter_words(exporter_port), stdout=log, stderr=log))
            started.append(subprocess.Popen(prometheus_words(exporter_port, port), stdout=log, stderr=log))
        wait("the exporter", lambda: "redis_up 1" in get(f"http://127.0.0.1:{exporter_port}/metrics"))
        wait("Prometheus", lambda: query(base, "dq_acting"))
        dashboard = json.loads((MONITORING / "grafana-dq.json").read_text())
        panels = check_dashboard(dashboard, base)
        rules = check_rules(base)
        values = {row["metric"]["queue"]: row["value"][1] for row in query(base, "dq_queue_ready")}
        assert values == {"mail": "88", 'größe "x" {': "1", "no \\xff text": "1", "later": "0", "paused": "0"}, values
        assert not query(base, 'redis_script_values{key=~"dq_.*|queue .*"}'), "all of it has a name of its own"
        wait("the far alarm", lambda: [row for row in query(base, 'ALERTS{alertname="DqFarAlarm"}')
                                       if row["metric"]["queue"] == "later" and row["metric"]["alertstate"] == "firing"])
        print(f"{panels} expressions of the dashboard and {len(rules)} alerts have data")
    except BaseException:
        print((WORK / "exporter.log").read_text()[-3000:], file=sys.stderr)
        raise
    finally:
        for program in started:
            program.kill()
            program.wait()


main()
