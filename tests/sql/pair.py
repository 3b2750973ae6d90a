"""Two connections in lockstep: one statement on both engines, two outcomes, one comparison.

The statement goes out on both connections before either answer is read, so both threads of the
server work at once.

Nothing may differ: where an engine is free to choose, the generator does not ask.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import COMMAND

from server import Server
from statements import Statement

REFERENCE = "InnoDB"
SESSION = [
    "SET NAMES utf8mb4",
    "SET time_zone = '+00:00'",
    # A column that takes the time of its row (an implicit DEFAULT CURRENT_TIMESTAMP) takes the same in both.
    "SET timestamp = 1767225600.654321",
    # An in-place change of one engine and a copy of the other report other errors and counts.
    "SET alter_algorithm = 'COPY'",
    # A sort of a cut key is no total order.
    "SET max_sort_length = 16384",
    "SET sort_buffer_size = 8388608",
    "SET max_statement_time = 30",
    "SET group_concat_max_len = 1048576",
]
OUT_OF_MEMORY = 1037
LOST = (2006, 2013, 2055, 0)


@dataclass
class Outcome:
    error: int = 0
    message: str = ""
    rows: tuple[tuple[Any, ...], ...] | None = None
    affected: int = 0
    warnings: int = 0
    insert_id: int = 0

    def short(self, ordered: bool) -> str:
        if self.error:
            return f"error {self.error}: {self.message}"
        if self.rows is None:
            return (f"ok, {self.affected} affected, {self.warnings} warnings, "
                    f"insert id {self.insert_id}")
        shown = list(self.rows) if ordered else sorted(self.rows, key=repr)
        lines = [f"  {row}" for row in shown[:12]]
        return "\n".join([f"{len(shown)} rows, {self.warnings} warnings", *lines])

    def lost(self) -> bool:
        return self.error in LOST and bool(self.message)


def _send(connection: pymysql.Connection, sql: str) -> Outcome | None:
    try:
        connection._execute_command(COMMAND.COM_QUERY, sql.encode("utf-8", "surrogatepass"))
    except (pymysql.Error, OSError) as error:
        return _failed(error)
    return None


def _receive(connection: pymysql.Connection) -> Outcome:
    try:
        connection._read_query_result()
    except (pymysql.Error, OSError) as error:
        return _failed(error)
    result = connection._result
    return Outcome(rows=result.rows if result.has_next is not None and result.field_count else None,
                   affected=result.affected_rows, warnings=result.warning_count or 0,
                   insert_id=result.insert_id or 0)


def _failed(error: BaseException) -> Outcome:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    return Outcome(error=code, message=str(error.args[1] if len(error.args) > 1 else error))


def _same_rows(statement: Statement, a: Outcome, b: Outcome) -> bool:
    if a.rows is None or b.rows is None:
        return a.rows is b.rows
    if statement.verdict:
        return [r[3] for r in a.rows[-1:]] == [r[3] for r in b.rows[-1:]]
    if a.rows == b.rows:
        return True
    return not statement.ordered and Counter(a.rows) == Counter(b.rows)


def difference(statement: Statement, a: Outcome, b: Outcome) -> str | None:
    """What differs, in a word, or None."""
    if statement.may_lack_memory and OUT_OF_MEMORY in (a.error, b.error):
        return None
    if a.error != b.error:
        return None if statement.any_error and a.error and b.error else "error"
    if a.error:
        return None
    if not _same_rows(statement, a, b):
        return "rows"
    if a.rows is None and statement.affected and a.affected != b.affected:
        return "affected rows"
    if statement.warnings and a.warnings != b.warnings:
        return "warnings"
    if statement.warnings and a.insert_id != b.insert_id:
        return "LAST_INSERT_ID"
    return None


class Pair:
    """The reference engine's database and the tested one's, with tables of the same names."""

    def __init__(self, server: Server, engine: str, suffix: str = ""):
        self.server = server
        self.engines = (REFERENCE, engine)
        self.databases = (f"di{suffix}", f"df{suffix}")
        self.count = 0
        self.mode = ""
        self.connections: list[pymysql.Connection] = []

    def fresh(self) -> None:
        """Empty databases and new connections."""
        self.connect(databases=False)
        for database in self.databases:
            self._plain(0, f"DROP DATABASE IF EXISTS {database}")
            self._plain(0, f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        self.connect()

    def connect(self, databases: bool = True) -> None:
        self.close()
        for i in range(2):
            connection = self.server.connect(self.databases[i] if databases else None)
            self.connections.append(connection)
            for sql in [*SESSION, f"SET default_storage_engine = {self.engines[i]}"]:
                self._plain(i, sql)
        if self.mode:
            self.set_mode(self.mode)

    def set_mode(self, mode: str) -> None:
        self.mode = mode
        for i in range(2):
            self._plain(i, f"SET sql_mode = '{mode}'")

    def close(self) -> None:
        for connection in self.connections:
            try:
                connection.close()
            except (pymysql.Error, OSError):
                pass
        self.connections = []

    def _plain(self, side: int, sql: str) -> None:
        self.connections[side].query(sql)

    def restart(self) -> None:
        self.close()
        self.server.stop()
        self.server.start()
        self.connect()

    def run(self, statement: Statement) -> tuple[Outcome, Outcome]:
        """One statement on both sides."""
        self.count += 1
        # InnoDB answers wrongly by MRR, BKA and others where an index has virtual columns: there they are stored.
        texts = [statement.sql.replace("{engine}", e).replace("{virtual}", "STORED" if e == REFERENCE else "VIRTUAL")
                 for e in self.engines]
        early = [_send(c, text) for c, text in zip(self.connections, texts)]
        outcomes = [sent or _receive(c) for sent, c in zip(early, self.connections)]
        return outcomes[0], outcomes[1]

    def warnings(self) -> list[str]:
        """What each side warned about in its last statement."""
        shown = []
        for connection in self.connections:
            try:
                connection.query("SHOW WARNINGS")
                shown.append(str(connection._result.rows))
            except (pymysql.Error, OSError) as error:
                shown.append(str(error))
        return shown
