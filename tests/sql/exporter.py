"""frond exporter beside Debian's Prometheus: formats, rules, and every query of the dashboard.

    exporter.py

A server with Frond and some load is scraped. promtool reads both the metrics and the rules; Prometheus answers all expressions of
ops/grafana/frond.json and of ops/prometheus/frond.rules.yml. Then the server is killed: the exporter says so and goes on, and finds it
again; so it does with one that hangs. Hostile clients keep nobody from a scrape. Without Prometheus the parts that need it are skipped.

FROND names the program (default: target/release/frond). Last line: N passed, N failed, N skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from checks import FROND, Checks
from server import ROOT, Server, run

OPS = ROOT / "ops"
# These may give nothing: without traffic, or when all is well.
MAY_BE_EMPTY = re.compile(r"> 0\b|== 0|== 1|> 0\.")


def get(url: str, accept: str | None = None) -> tuple[int, str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, "", ""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def started(server: Server, *options: str) -> tuple[subprocess.Popen[str], str]:
    child = subprocess.Popen([FROND, "exporter", "--no-defaults", "--user", "scraper", "--socket", server.socket, "--listen",
                              "127.0.0.1:0", "--run-time", "120", *options], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    return child, child.stdout.readline().strip()


def formats(url: str, checks: Checks) -> None:
    status, kind, old = get(url)
    checks.that("text of Prometheus", status == 200 and kind.startswith("text/plain; version=0.0.4"), (status, kind))
    status, kind, new = get(url, "application/openmetrics-text; version=1.0.0")
    checks.that("OpenMetrics", kind.startswith("application/openmetrics-text") and new.endswith("# EOF\n"), kind)
    for name in ["frond_exporter_up 1", "frond_commits_total ", "mariadb_threads_connected ", "frond_log_capacity_bytes "]:
        checks.that(name, f"\n{name}" in old, old[:500])
    checks.that("few series", len([line for line in old.splitlines() if not line.startswith("#")]) < 250, len(old))
    checks.that("no unknown counter", "frond_unknown" not in old)
    checks.that("other paths", get(url.replace("metrics", "etc/passwd"))[0] == 404)
    for name, text in [("text", old)]:
        if not shutil.which("promtool"):
            checks.skip("promtool is not installed (Debian: prometheus)")
            continue
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False)
        checks.that(f"promtool reads the {name}", done.returncode == 0, done.stdout + done.stderr)


def hostile(url: str, checks: Checks) -> None:
    host, port = url.split("/")[2].split(":")
    silent = []
    for _ in range(10):
        client = socket.create_connection((host, int(port)))
        client.sendall(b"GET /metrics HT")
        silent.append(client)
    for noise in [b"\x16\x03\x01\x00\xff" + b"\0" * 300 + b"\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n", b"A" * 20_000]:
        with socket.create_connection((host, int(port))) as client:
            try:
                client.sendall(noise)
                client.settimeout(20)
                answer = client.recv(1000)
            except ConnectionResetError:
                answer = b"HTTP/1.1 4"
            checks.that("noise is refused", answer.startswith(b"HTTP/1.1 4"), answer[:50])
    begin = time.monotonic()
    checks.that("silent clients keep nobody waiting", get(url)[0] == 200 and time.monotonic() - begin < 3)
    for client in silent:
        client.close()


def hangs(url: str, server: Server, checks: Checks) -> None:
    """A server that is stopped is away within the time limit of a scrape, and connecting does not wait for it."""
    os.kill(server.pid(), signal.SIGSTOP)
    try:
        time.sleep(1.1)
        begin = time.monotonic()
        text = get(url)[2]
        took = time.monotonic() - begin
        checks.that("a server that hangs is away within 10 s", "\nfrond_exporter_up 0" in text and took < 9, (took, text[:300]))
    finally:
        os.kill(server.pid(), signal.SIGCONT)
    time.sleep(2.1)
    checks.that("and back when it goes on", "\nfrond_exporter_up 1" in get(url)[2])
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as full:
        full.bind(f"{directory}/s")
        full.listen(0)
        held = []
        try:
            while len(held) < 100:
                held.append(socket.socket(socket.AF_UNIX))
                held[-1].setblocking(False)
                held[-1].connect(f"{directory}/s")
        except BlockingIOError:
            pass
        for command, seconds in [(["exporter", "--once"], 4), (["backup", "full", f"{directory}/b"], 10)]:
            done = subprocess.run([FROND, *command, "--no-defaults", "--socket", f"{directory}/s"], capture_output=True, text=True, timeout=20,
                                  check=False)
            checks.that(f"a full queue of connections: {command[0]}",
                        done.returncode != 0 and f"no answer within {seconds} seconds" in done.stderr, done)
        for one in held:
            one.close()


def expressions() -> list[str]:
    dashboard = json.loads((OPS / "grafana" / "frond.json").read_text())
    found = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", [])]
    found = [e.replace("$instance", ".*") for e in found]
    rules = (OPS / "prometheus" / "frond.rules.yml").read_text()
    return found + re.findall(r"^ +expr: (.*)$", rules, re.MULTILINE)


def prometheus(url: str, server: Server, checks: Checks) -> None:
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        checks.skip("prometheus and promtool are not installed (Debian: prometheus)")
        return
    for what in [["check", "rules", "frond.rules.yml"], ["test", "rules", "frond.test.yml"], ["check", "config", "prometheus.yml"]]:
        done = subprocess.run(["promtool", *what], cwd=OPS / "prometheus", capture_output=True, text=True, timeout=60, check=False)
        checks.that(" ".join(what), done.returncode == 0, done.stdout + done.stderr)
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "prometheus.yml"
        text = (OPS / "prometheus" / "prometheus.yml").read_text().replace("15s", "1s").replace("127.0.0.1:9360", url.split("/")[2])
        config.write_text(text.replace("- frond.rules.yml", f"- {OPS}/prometheus/frond.rules.yml"))
        port = free_port()
        with open(Path(directory) / "log", "w", encoding="utf-8") as log:
            child = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
                                      f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            admin = server.connect("shop")
            until = time.monotonic() + 9
            row = 0
            while time.monotonic() < until:
                row += 1
                run(admin, f"INSERT INTO t VALUES ({row}, {row})")
                time.sleep(0.01)
            asked = 0
            for expression in expressions():
                # Of an alert what it compares with a number: that is there whether it fires or not.
                asked_for = re.sub(r" [<>] [0-9.]+$", "", expression)
                query = urllib.parse.urlencode({"query": asked_for})
                answer = json.loads(get(f"http://127.0.0.1:{port}/api/v1/query?{query}")[2] or "{}")
                good = answer.get("status") == "success"
                result = answer.get("data", {}).get("result", [])
                checks.that(f"answered: {expression}", good and (bool(result) or bool(MAY_BE_EMPTY.search(expression))), answer)
                asked += 1
            checks.that("all queries were asked", asked > 40, asked)
            rules = json.loads(get(f"http://127.0.0.1:{port}/api/v1/rules")[2])["data"]["groups"][0]["rules"]
            checks.that("rules are loaded and healthy", len(rules) > 8 and all(r["health"] == "ok" for r in rules),
                        [r for r in rules if r["health"] != "ok"])
            checks.that("nothing is alarming", all(r["state"] == "inactive" for r in rules), [r["name"] for r in rules if r["alerts"]])
        finally:
            child.terminate()
            child.wait(timeout=30)


def main() -> int:
    checks = Checks()
    with Server("exporter", ["--skip-log-bin", "--innodb-buffer-pool-size=16M"]) as server:
        admin = server.connect()
        run(admin, "CREATE DATABASE shop")
        run(admin, "CREATE TABLE shop.t (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=Frond")
        run(admin, "CREATE USER scraper@localhost")
        once = subprocess.run([FROND, "exporter", "--once", "--no-defaults", "--user", "scraper", "--socket", server.socket],
                              capture_output=True, text=True, timeout=60, check=False)
        checks.that("--once", once.returncode == 0 and "frond_commits_total" in once.stdout, once.stderr)
        child, url = started(server)
        try:
            formats(url, checks)
            hostile(url, checks)
            prometheus(url, server, checks)
            hangs(url, server, checks)
            server.kill()
            time.sleep(1.1)
            status, _, text = get(url)
            checks.that("a server that is gone is said to be", status == 200 and "\nfrond_exporter_up 0" in text, text)
            server.start()
            time.sleep(2.1)
            checks.that("one that came back is found", "\nfrond_exporter_up 1" in get(url)[2])
        finally:
            child.terminate()
        checks.that("a signal ends it orderly", child.wait(timeout=20) == 0, child.returncode)
        server.stop()
        once = subprocess.run([FROND, "exporter", "--once", "--no-defaults", "--socket", server.socket], capture_output=True, text=True,
                              timeout=60, check=False)
        checks.that("--once without a server", once.returncode == 2 and "is the server running" in once.stderr, once)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
