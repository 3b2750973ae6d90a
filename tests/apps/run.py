"""Test suites of applications' libraries, and applications, on Frond as the default engine and on InnoDB, on one server.

    run.py [--suites django,sqlalchemy,wordpress,mediawiki] [--engines Frond,InnoDB] [--minutes N] [--only LABEL...]

The sources of Django and SQLAlchemy come from the package index once, into target/apps, with what they need in a
private environment. Nothing of them is changed. WordPress and MediaWiki are in sites.py. A test that fails on Frond and passes on InnoDB fails the
run, unless tests/apps/deviations lists it with a reason; so does one that was not run there.

--minutes bounds each suite on each engine. --only replaces the labels of Django and the files of SQLAlchemy.

Status: 0 good, 1 Frond fails what InnoDB passes, 2 the tests could not run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "sql"))

import sites  # pylint: disable=wrong-import-position
from server import Server, ServerFailed, run  # pylint: disable=wrong-import-position

PLACE = ROOT / "target" / "apps"
PYTHON = PLACE / "venv" / "bin" / "python"
DJANGO, SQLALCHEMY = "django-5.2.19", "sqlalchemy-2.0.58"
NEEDED = ["mysqlclient==2.3.1", "pytest==9.2.0", "pytest-xdist==3.8.0", "asgiref==3.13.0", "sqlparse==0.6.1",
          "greenlet==3.5.6", "typing_extensions==4.16.0"]
LABELS = """
    aggregation aggregation_regress annotations backends basic bulk_create constraints custom_columns datatypes
    db_functions defer delete delete_regress distinct_on_fields dates datetimes expressions expressions_case
    expressions_window fixtures fixtures_regress force_insert_update foreign_object generic_relations get_or_create
    indexes inspectdb introspection lookup many_to_many many_to_one many_to_one_null migrations
    model_fields model_inheritance one_to_one ordering prefetch_related queries raw_query
    schema select_for_update select_related serializers transaction_hooks transactions unmanaged_models update
    update_only_fields
""".split()
FILES = ["test/dialect/test_suite.py", "test/dialect/mysql", "test/orm", "test/engine", "test/sql"]
OPTIONS = ["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci", "--max-connections=200",
           "--innodb-flush-log-at-trx-commit=0", "--frond-flush-log-at-commit=0",
           "--innodb-lock-wait-timeout=20", "--frond-lock-wait-timeout=20", "--lock-wait-timeout=60"]


class Outcome:
    """What a suite said on one engine."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.skipped = 0

    def __str__(self) -> str:
        return f"{len(self.passed)} passed, {len(self.failed)} failed, {self.skipped} skipped"


class CannotRun(Exception):
    """The suite did not come to its end."""


def install(suites: list[str]) -> None:
    """The environment and the sources, unless they are there."""
    if set(suites) & set(sites.SITES) and (lacking := sites.missing()):
        raise CannotRun(lacking)
    if not {"django", "sqlalchemy"} & set(suites):
        return
    pip = [str(PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    stamp = PLACE / "installed"
    wanted = "\n".join([DJANGO, SQLALCHEMY, *NEEDED])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    PLACE.mkdir(parents=True, exist_ok=True)
    if not PYTHON.exists():
        subprocess.run(["/usr/bin/env", "python3", "-m", "venv", str(PLACE / "venv")], check=True, timeout=300)
    subprocess.run([*pip, "install", *NEEDED], check=True, timeout=900)
    for source in (DJANGO, SQLALCHEMY):
        archive = PLACE / "sdist" / f"{source}.tar.gz"
        if not archive.exists():
            name, version = source.rsplit("-", 1)
            subprocess.run([*pip, "download", "--no-deps", "--no-binary", name, "--dest", str(archive.parent),
                            f"{name}=={version}"], check=True, timeout=900)
        with tarfile.open(archive) as opened:
            opened.extractall(PLACE / "src")
    stamp.write_text(wanted, encoding="utf-8")


def bounded(command: list[str], directory: Path, environment: dict[str, str], log: Path, minutes: float) -> None:
    """Runs a suite; its output goes to `log`. Its status says only that something failed."""
    with open(log, "w", encoding="utf-8") as output:
        # `timeout` ends what the suite has started, too.
        done = subprocess.run(["timeout", "--kill-after=20", f"{minutes * 60:.0f}", *command], cwd=directory,
                              env=dict(os.environ, **environment), stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.STDOUT, check=False)
    if done.returncode in (124, 137):
        raise CannotRun(f"not ready after {minutes} minutes: {log}")


def django(server: Server, engine: str, minutes: float, only: list[str]) -> Outcome:
    log = PLACE / f"django-{engine}.log"
    tests = PLACE / "src" / DJANGO / "tests"
    environment = {"PYTHONPATH": f"{tests.parent}:{HERE}", "FROND_SOCKET": server.socket,
                   "FROND_APPS_DATABASE": f"django_{engine.lower()}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(PYTHON), "runtests.py", "--settings=settings", "--noinput", "--parallel=1", "--verbosity=2",
               *(only or LABELS)]
    bounded(command, tests, environment, log, minutes)
    return django_outcome(log.read_text(encoding="utf-8", errors="replace"), log)


def django_outcome(text: str, log: Path) -> Outcome:
    """Reads a run with --verbosity=2: a line per test, then a block per failure, then the counts."""
    outcome = Outcome()
    counted = re.search(r"^Ran (\d+) tests? in", text, re.MULTILINE)
    if not counted:
        raise CannotRun(f"Django's suite did not come to its end: {log}")
    name = r"^(?:ERROR|FAIL|UNEXPECTED SUCCESS): (\S+ \([^)]*\))"
    outcome.failed = set(re.findall(name, text, re.MULTILINE))
    outcome.passed = set(re.findall(r"^(\w+ \([\w.]+\))(?:\n[^\n]*)?? \.\.\. (?:ok|expected failure)$", text,
                                    re.MULTILINE)) - outcome.failed
    outcome.skipped = len(re.findall(r" \.\.\. skipped", text))
    return outcome


def sqlalchemy(server: Server, engine: str, minutes: float, only: list[str]) -> Outcome:
    log, results = PLACE / f"sqlalchemy-{engine}.log", PLACE / f"sqlalchemy-{engine}.xml"
    results.unlink(missing_ok=True)
    admin = server.connect()
    for database in ("test", "test_schema"):
        run(admin, f"DROP DATABASE IF EXISTS {database}")
        run(admin, f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    admin.close()
    source = PLACE / "src" / SQLALCHEMY
    address = f"mariadb+mysqldb://root@localhost/test?unix_socket={server.socket}&charset=utf8mb4"
    # FULLTEXT indexes are refused; the tables of these tests would be left behind, where others list all tables.
    command = [str(PYTHON), "-m", "pytest", "-k", "not MatchTest", "-p", "no:cacheprovider", "--maxfail=100000", "--backend-only", "-q",
               "--tb=short", f"--dburi={address}", f"--junitxml={results}", *(only or FILES)]
    bounded(command, source, {"PYTHONPATH": str(source / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}, log, minutes)
    if not results.exists():
        raise CannotRun(f"SQLAlchemy's suite did not come to its end: {log}")
    outcome = Outcome()
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        # The names of classes end with the driver and the server's version.
        group = re.sub(r"_mariadb\+mysqldb[0-9_]+$", "", case.get("classname", ""))
        name = f"{group}.{case.get('name')}"
        found = {child.tag for child in case}
        if found & {"failure", "error"}:
            outcome.failed.add(name)
        elif "skipped" in found:
            outcome.skipped += 1
        else:
            outcome.passed.add(name)
    outcome.passed -= outcome.failed
    return outcome


def site(name: str) -> Callable[[Server, str, float, list[str]], Outcome]:
    def checks(server: Server, engine: str, _minutes: float, _only: list[str]) -> Outcome:
        outcome = Outcome()
        outcome.passed, said = sites.check(name, server, engine, PLACE)
        outcome.failed = set(said)
        for test, text in said.items():
            print(f"{name} on {engine}: {test}: {text}", flush=True)
        return outcome
    return checks


SUITES = {"django": django, "sqlalchemy": sqlalchemy, **{name: site(name) for name in sites.SITES}}


def deviations() -> dict[str, str]:
    """Tests that Frond fails or does not run on purpose, with reasons: a line "SUITE TEST: REASON" each."""
    lines = (HERE / "deviations").read_text(encoding="utf-8").splitlines()
    known = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            known[name] = reason
    return known


def judge(suite: str, found: dict[str, Outcome]) -> tuple[int, int]:
    """Prints what differs. Returns how many tests passed and failed on Frond, as this run counts them."""
    frond, other = found["Frond"], found.get("InnoDB", Outcome())
    known = deviations()
    worse = {name: "" for name in sorted(frond.failed - other.failed)}
    worse.update({name: ": not run" for name in sorted(other.passed - frond.passed - frond.failed)})
    failed = 0
    for name, how in worse.items():
        if f"{suite} {name}" in known:
            print(f"known: {suite} {name}: {known[f'{suite} {name}']}")
        else:
            failed += 1
            print(f"FAILED {suite} {name}{how}")
    return len(frond.passed), failed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--engines", default="Frond,InnoDB")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    install(arguments.suites.split(","))
    passed = failed = 0
    with Server("apps", OPTIONS) as server:
        for suite in arguments.suites.split(","):
            found = {}
            for engine in arguments.engines.split(","):
                admin = server.connect()
                run(admin, f"SET GLOBAL default_storage_engine = {engine}")
                admin.close()
                found[engine] = SUITES[suite](server, engine, arguments.minutes, arguments.only)
                print(f"{suite} on {engine}: {found[engine]}", flush=True)
            if "Frond" in found:
                counts = judge(suite, found)
                passed, failed = passed + counts[0], failed + counts[1]
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CannotRun, ServerFailed, OSError, subprocess.SubprocessError) as problem:
        print(f"could not run: {problem}", file=sys.stderr)
        sys.exit(2)
