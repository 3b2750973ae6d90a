"""The pictures of docs/top.md and docs/exporter.md, from a server with Frond under a small load.

    pictures.py                    writes docs/top.svg and docs/dashboard.svg

frond top records the server; a sample of the recording is shown in a terminal of 80 by 24 (tmux), whose cells become an SVG.
Prometheus scrapes frond exporter; the queries of ops/grafana/frond.json are asked over the run and drawn where the dashboard has
their panels, with rates over 15 s instead of a minute, as the run is short. None of it shows Frond's speed: the load is a few hundred
statements a second.

FROND names the program (default: target/release/frond). SECONDS_RUN: how long the load lasts (90). Needs tmux and prometheus.
"""

from __future__ import annotations

import html
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))

from exporter import free_port  # noqa: E402
from server import Server, rows, run  # noqa: E402
from top import Terminal  # noqa: E402

FROND = os.environ.get("FROND", str(ROOT / "target" / "release" / "frond"))
SECONDS = int(os.environ.get("SECONDS_RUN", "90"))
INK, SOFT, FAINT, GROUND, CARD = "#1c2422", "#5c6865", "#dfe4e2", "#f6f7f6", "#ffffff"
LINES = ["#1f7a5c", "#3a66b0", "#c2571a", "#7a3e9d", "#8a7a12", "#b3261e", "#2b8a9e"]
FONT = 'font-family="system-ui, Segoe UI, Roboto, Helvetica Neue, DejaVu Sans, sans-serif"'


# ---------------------------------------------------------------- a terminal's cells

# SVG would make one space of several.
NBSP = "\u00a0"
PALETTE = ["#1c2422", "#e06c60", "#77c98f", "#e0b460", "#7aa6e8", "#c792e0", "#63c3c9", "#dfe4e2",
           "#7b8884", "#ff8a80", "#93e0a8", "#f5cd7d", "#9ac0f5", "#dcb0f0", "#83dde2", "#ffffff"]


def colour(words: list[int]) -> str | None:
    """The colour that the parameters after 38 or 48 give."""
    if words[:1] == [5] and len(words) > 1:
        n = words[1]
        if n < 16:
            return PALETTE[n]
        if n >= 232:
            return "#" + f"{8 + (n - 232) * 10:02x}" * 3
        steps = [0, 95, 135, 175, 215, 255]
        n -= 16
        return "#%02x%02x%02x" % (steps[n // 36], steps[n // 6 % 6], steps[n % 6])
    if words[:1] == [2] and len(words) > 3:
        return "#%02x%02x%02x" % tuple(words[1:4])
    return None


class Style:
    def __init__(self) -> None:
        self.ink: str | None = None
        self.ground: str | None = None
        self.bold = self.dim = self.turned = False

    def take(self, words: list[int]) -> None:
        while words:
            word = words.pop(0)
            if word == 0:
                self.__init__()  # type: ignore[misc]
            elif word in (1, 2):
                self.bold, self.dim = (self.bold or word == 1), (self.dim or word == 2)
            elif word == 22:
                self.bold = self.dim = False
            elif word in (7, 27):
                self.turned = word == 7
            elif 30 <= word <= 37 or 90 <= word <= 97:
                self.ink = PALETTE[word - 30 if word < 90 else word - 82]
            elif 40 <= word <= 47 or 100 <= word <= 107:
                self.ground = PALETTE[word - 40 if word < 100 else word - 92]
            elif word == 39:
                self.ink = None
            elif word == 49:
                self.ground = None
            elif word in (38, 48):
                chosen = colour(words)
                del words[:2 if words[:1] == [5] else 4]
                if word == 38:
                    self.ink = chosen
                else:
                    self.ground = chosen


def terminal_svg(screen: str) -> str:
    wide, high, size = 8.4, 18, 14
    lines = screen.rstrip("\n").split("\n")[:24]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {80 * wide + 24:.0f} {24 * high + 24}" role="img" '
           'aria-label="frond top in a terminal of 80 by 24">',
           '<rect width="100%" height="100%" rx="8" fill="#141817"/>',
           f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{size}">']
    for at, line in enumerate(lines):
        style, column, y = Style(), 0, 12 + (at + 1) * high
        for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
            if piece.startswith("\x1b["):
                style.take([int(word or 0) for word in piece[2:-1].split(";")])
                continue
            if not piece:
                continue
            ink, ground = style.ink or "#e5ebe8", style.ground
            if style.turned:
                ink, ground = ground or "#141817", ink
            x, width = 12 + column * wide, len(piece) * wide
            if ground:
                out.append(f'<rect x="{x:.1f}" y="{y - high + 5}" width="{width:.1f}" height="{high}" fill="{ground}"/>')
            if piece.strip():
                more = (' font-weight="700"' if style.bold else "") + (' opacity=".65"' if style.dim else "")
                out.append(f'<text x="{x:.1f}" y="{y}" fill="{ink}" textLength="{width:.1f}"{more}>{html.escape(piece).replace(" ", NBSP)}</text>')
            column += len(piece)
    return "\n".join(out + ["</g>", "</svg>", ""])


# ---------------------------------------------------------------- the dashboard

def short(value: float, unit: str | None) -> str:
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    step, names = (1024.0, ["", "Ki", "Mi", "Gi", "Ti"]) if unit in ("bytes", "Bps") else (1000.0, ["", "k", "M", "G", "T"])
    at = 0
    while abs(value) >= step and at + 1 < len(names):
        value /= step
        at += 1
    end = {"bytes": "B", "Bps": "B/s", "ops": "/s"}.get(unit or "", "")
    return f"{value:.3g} {names[at]}{end}".strip()


def panel_svg(panel: dict[str, Any], series: list[tuple[str, list[tuple[float, float]]]], x: float, y: float, w: float, h: float) -> list[str]:
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
    out = [f'<g transform="translate({x:.0f} {y:.0f})">', f'<rect width="{w:.0f}" height="{h:.0f}" rx="6" fill="{CARD}" stroke="{FAINT}"/>',
           f'<text x="10" y="18" font-size="12" font-weight="600" fill="{INK}">{html.escape(panel["title"])}</text>']
    left, right, top, bottom = 66.0, 10.0, 30.0, 40.0
    times = [t for _, points in series for t, _ in points]
    most = max((v for _, points in series for _, v in points), default=0.0) or 1.0
    first, last = (min(times), max(times)) if times else (0.0, 1.0)
    for part in range(3):
        at = top + (h - top - bottom) * part / 2
        out.append(f'<line x1="{left}" x2="{w - right:.0f}" y1="{at:.1f}" y2="{at:.1f}" stroke="{FAINT}"/>')
        out.append(f'<text x="{left - 6}" y="{at + 4:.1f}" font-size="10" fill="{SOFT}" text-anchor="end">{short(most * (1 - part / 2), unit)}</text>')
    legend = 10.0
    for at, (name, points) in enumerate(series):
        ink = LINES[at % len(LINES)]
        place = [(left + (t - first) / max(last - first, 1) * (w - left - right), top + (1 - v / most) * (h - top - bottom)) for t, v in points]
        if place:
            out.append(f'<polyline fill="none" stroke="{ink}" stroke-width="1.5" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in place)}"/>')
        needs = 20 + 5.6 * len(name)
        if legend + needs < w:
            out.append(f'<rect x="{legend:.0f}" y="{h - 20:.0f}" width="9" height="9" rx="2" fill="{ink}"/>')
            out.append(f'<text x="{legend + 13:.0f}" y="{h - 12:.0f}" font-size="10" fill="{SOFT}">{html.escape(name)}</text>')
        legend += needs
    return out + ["</g>"]


def asked(base: str, panel: dict[str, Any], start: float, end: float) -> list[tuple[str, list[tuple[float, float]]]]:
    found = []
    for target in panel.get("targets", []):
        query = urllib.parse.urlencode({"query": target["expr"].replace("$instance", ".*").replace("[1m]", "[15s]"), "start": f"{start:.0f}", "end": f"{end:.0f}", "step": "2"})
        with urllib.request.urlopen(f"{base}/api/v1/query_range?{query}", timeout=30) as answer:
            result = json.loads(answer.read())["data"]["result"]
        for one in result:
            name = re.sub(r"\{\{(\w+)\}\}", lambda m: one["metric"].get(m[1], ""), target.get("legendFormat") or "value")
            found.append((name, [(float(t), float(v)) for t, v in one["values"]]))
    return found


def dashboard_svg(base: str, start: float, end: float) -> str:
    panels = json.loads((ROOT / "ops" / "grafana" / "frond.json").read_text())["panels"]
    unit_w, unit_h = 50.0, 21.0
    high = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels) * unit_h + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * unit_w + 20:.0f} {high:.0f}" role="img" '
           f'aria-label="The dashboard ops/grafana/frond.json" {FONT}>', f'<rect width="100%" height="100%" fill="{GROUND}"/>']
    for panel in panels:
        pos = panel["gridPos"]
        x, y = 10 + pos["x"] * unit_w, 10 + pos["y"] * unit_h
        if panel["type"] == "row":
            out.append(f'<text x="{x:.0f}" y="{y + 16:.0f}" font-size="13" font-weight="650" fill="{INK}">{html.escape(panel["title"])}</text>')
        else:
            out += panel_svg(panel, asked(base, panel, start, end), x, y, pos["w"] * unit_w - 8, pos["h"] * unit_h - 8)
    return "\n".join(out + ["</svg>", ""])


# ---------------------------------------------------------------- the server and its load

def loads(server: Server, done: threading.Event, begin: float) -> list[threading.Thread]:
    def often(work: Callable[[Any, random.Random], None], pause: float, seed: int) -> threading.Thread:
        def repeat() -> None:
            connection, dice = server.connect("shop"), random.Random(seed)
            while not done.is_set():
                try:
                    work(connection, dice)
                except Exception:  # noqa: BLE001  A lock that was waited for too long: part of the picture.
                    pass
                # More in the middle than at the ends.
                time.sleep(pause * (2.5 if (time.monotonic() - begin) % 60 < 25 else 1))
        return threading.Thread(target=repeat)

    def sale(c: Any, d: random.Random) -> None:
        values = ",".join(f"({d.randrange(50)}, {d.randrange(9000)}, {d.randrange(99999)})" for _ in range(60))
        run(c, f"INSERT INTO sale (shop, customer, cents) VALUES {values}")

    def update(c: Any, d: random.Random) -> None:
        run(c, f"UPDATE sale SET cents = cents + 1 WHERE customer = {d.randrange(9000)} LIMIT 5")

    def look(c: Any, d: random.Random) -> None:
        rows(c, f"SELECT shop, SUM(cents) FROM sale WHERE customer = {d.randrange(9000)} GROUP BY shop")

    def stock(c: Any, d: random.Random) -> None:
        run(c, f"UPDATE stock SET left_over = left_over - 1 WHERE id = {d.randrange(500)}")

    def hot(c: Any, d: random.Random) -> None:
        run(c, "BEGIN")
        run(c, f"UPDATE counter SET n = n + 1 WHERE id = {d.randrange(2)}")
        time.sleep(0.6)
        run(c, "COMMIT")

    return [often(sale, 0.02, 1), often(sale, 0.03, 2), often(update, 0.01, 3), often(look, 0.01, 4), often(look, 0.02, 5),
            often(stock, 0.02, 6), often(hot, 0.1, 7), often(hot, 0.1, 8), often(hot, 0.2, 9)]


def prepare(server: Server) -> None:
    admin = server.connect()
    run(admin, "CREATE DATABASE shop")
    run(admin, "CREATE USER scraper@localhost")
    run(admin, "CREATE TABLE shop.sale (id BIGINT AUTO_INCREMENT PRIMARY KEY, shop INT, customer INT, cents INT, at DATETIME DEFAULT NOW(),"
               "KEY by_customer (customer), KEY by_shop (shop, cents)) ENGINE=Frond")
    run(admin, "CREATE TABLE shop.counter (id INT PRIMARY KEY, n INT) ENGINE=Frond")
    run(admin, "CREATE TABLE shop.stock (id INT PRIMARY KEY, left_over INT) ENGINE=InnoDB")
    run(admin, "INSERT INTO shop.counter VALUES (0, 0), (1, 0)")
    run(admin, "INSERT INTO shop.stock SELECT seq, 1000 FROM shop.seq_0_to_500")
    run(admin, "INSERT INTO shop.sale (shop, customer, cents) SELECT seq % 50, seq % 9001, seq % 99991 FROM shop.seq_1_to_200000")


def top_picture(recording: str, directory: str) -> str:
    terminal = Terminal(directory)
    try:
        samples = sum(1 for _ in open(recording, encoding="utf-8")) - 1
        terminal.type(f"clear; {shlex.quote(FROND)} top --replay {shlex.quote(recording)}\n")
        terminal.until(lambda s: "sample 1 of" in s)
        for _ in range(samples * 2 // 3):
            terminal.key("Right")
        terminal.until(lambda s: f"sample {samples * 2 // 3 + 1} of" in s)
        time.sleep(0.5)
        screen = terminal._tmux("capture-pane", "-p", "-e")
        terminal.key("q")
        return terminal_svg(screen)
    finally:
        terminal.close()


def main() -> int:
    options = ["--skip-log-bin", "--innodb-buffer-pool-size=16M", "--performance-schema=ON", "--frond-cache-size=32M"]
    with tempfile.TemporaryDirectory() as directory, Server("pictures", options) as server:
        prepare(server)
        listen, port = free_port(), free_port()
        config = Path(directory) / "prometheus.yml"
        config.write_text("global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: frond\n    static_configs: [{targets: "
                          f"['127.0.0.1:{listen}']}}]\n", encoding="utf-8")
        children = [subprocess.Popen([FROND, "exporter", "--no-defaults", "--user", "scraper", "--socket", server.socket, "--listen",
                                      f"127.0.0.1:{listen}"], stdout=subprocess.DEVNULL)]
        with open(f"{directory}/log", "w", encoding="utf-8") as log:
            children.append(subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
                                              f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log))
        recording = f"{directory}/kept.top"
        terminal = Terminal(directory)
        terminal.type(f"{shlex.quote(FROND)} top --no-defaults --user root --socket {server.socket} --every 2 --record {recording}\n")
        done, begin, start = threading.Event(), time.monotonic(), time.time()
        threads = loads(server, done, begin)
        for thread in threads:
            thread.start()
        try:
            time.sleep(SECONDS)
            (ROOT / "docs" / "dashboard.svg").write_text(dashboard_svg(f"http://127.0.0.1:{port}", start + 16, time.time()), encoding="utf-8")
        finally:
            done.set()
            terminal.key("q")
            for thread in threads:
                thread.join(timeout=60)
            for child in children:
                child.terminate()
                child.wait(timeout=30)
            terminal.close()
        (ROOT / "docs" / "top.svg").write_text(top_picture(recording, directory), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
