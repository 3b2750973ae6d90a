"""Cases of loads that random statements do not meet (load.py): each runs on a Frond table and on an InnoDB table, and the
answers, errors and rows have to agree, except where a case says what differs.

`source` has 14 000 rows, so each INSERT ... SELECT of all of it begins a load.
"""

from __future__ import annotations

import pymysql

from server import Server, rows, run

ROWS = 14_000
FILL = "INSERT INTO T SELECT id, a, b, c FROM source ORDER BY a, id"
TABLE = "(id INT NOT NULL, a INT, b VARCHAR(20), c CHAR(40), PRIMARY KEY (id), UNIQUE ua (a), KEY (b))"


class Wrong(Exception):
    """A failed expectation."""


class Case:
    """Two tables: T is called f (Frond) or i (InnoDB); U and V are a second and a third one."""

    def __init__(self, server: Server, name: str):
        self.server, self.name = server, name
        self.links: dict[tuple[str, str], pymysql.Connection] = {}

    def link(self, who: str, side: str) -> pymysql.Connection:
        if (who, side) not in self.links:
            self.links[who, side] = self.server.connect("loads")
        return self.links[who, side]

    def one(self, who: str, side: str, sql: str) -> object:
        engine = {"f": "Frond", "i": "InnoDB"}[side]
        words = {"T": side, "U": f"{side}2", "V": f"{side}3", "ENGINE": f"ENGINE={engine}", "XID": f"'x{side}'"}
        text = " ".join(words.get(w, w) for w in sql.split(" "))
        link = self.link(who, side)
        try:
            reads = text.startswith(("SELECT", "XA RECOVER", "CHECK"))
            return rows(link, text) if reads else (run(link, text), rows(link, "SELECT @@warning_count"))
        except pymysql.err.Error as error:
            # The table's name is in some.
            return error.args[0]

    def both(self, sql: str, who: str = "1") -> object:
        found = [self.one(who, side, sql) for side in ("f", "i")]
        if found[0] != found[1]:
            raise Wrong(f"{self.name}{sql}: Frond {str(found[0])[:300]}, InnoDB {str(found[1])[:300]}")
        return found[0]

    def make(self, *definitions: str, loads: bool = True) -> None:
        for table in ("V", "U", "T"):
            self.both(f"DROP TABLE IF EXISTS {table}")
        for definition in definitions or (f"CREATE TABLE T {TABLE} ENGINE",):
            if isinstance(self.both(definition), int):
                raise Wrong(f"{self.name}{definition}: {self.both(definition)}")
        self.before = self.loads()
        self.must_load = loads

    def loads(self) -> int:
        return int(rows(self.link("admin", "f"), "SHOW GLOBAL STATUS LIKE 'frond_loads'")[0][1])

    def end(self, *tables: str) -> None:
        """The tables are equal, by each index, and clean; Frond has loaded."""
        for table in tables or ("T",):
            self.both(f"SELECT * FROM {table} ORDER BY 1, 2", "end")
            said = self.one("end", "f", f"CHECK TABLE {table}")
            if not isinstance(said, list) or said[-1][3] != b"OK":
                raise Wrong(f"{self.name}CHECK TABLE {table}: {said}")
        if self.must_load and self.loads() == self.before:
            raise Wrong(f"{self.name}nothing was loaded")
        for link in self.links.values():
            link.close()
        self.links = {}


def its_own_rows(case: Case) -> None:
    case.make()
    case.both("BEGIN")
    case.both(FILL)
    for sql in ("SELECT COUNT(*), SUM(id), SUM(a) FROM T", "SELECT COUNT(*) FROM T FORCE INDEX (ua) WHERE a > 5000",
                "SELECT * FROM T WHERE id = 77", "SELECT MAX(id), MIN(a) FROM T",
                "SELECT * FROM T FORCE INDEX (b) WHERE b = 'b31' ORDER BY id FOR UPDATE"):
        case.both(sql)
    case.both("UPDATE T SET c = 'new' WHERE id % 7 = 0")
    case.both("DELETE FROM T WHERE id % 5 = 0")
    case.both("INSERT INTO T SELECT id, a, b, c FROM source WHERE id % 5 = 0")
    case.both("SELECT COUNT(*) FROM T", "other")
    case.both("COMMIT")
    case.end()


def deleted_and_loaded_again(case: Case) -> None:
    case.make()
    case.both("INSERT INTO T SELECT id, a, b, 'old' FROM source WHERE id <= 100")
    case.both("SELECT COUNT(*) FROM T", "old")
    case.both("BEGIN", "old")
    case.both("SELECT COUNT(*) FROM T", "old")
    case.both("BEGIN")
    case.both("DELETE FROM T")
    case.both(FILL)
    case.both("COMMIT")
    case.both("SELECT COUNT(*), MAX(c) FROM T", "old")
    case.both("DELETE FROM T")
    # Nothing is left, and an old snapshot sees rows.
    case.both(FILL)
    case.both("SELECT COUNT(*), MAX(c) FROM T", "old")
    case.both("COMMIT", "old")
    case.both("TRUNCATE TABLE T")
    case.both(FILL)
    case.end()


def statements_that_fail(case: Case) -> None:
    case.make()
    case.both("BEGIN")
    case.both("INSERT INTO T SELECT id, a, b, c FROM source WHERE id <= 12000 ORDER BY a")
    case.both("INSERT INTO T SELECT IF(id = 13999, 5, id), a, b, c FROM source WHERE id > 12000 ORDER BY id")
    case.both("INSERT INTO T SELECT id, IF(id = 13999, (SELECT a FROM source WHERE id = 5), a), b, c FROM source "
              "WHERE id > 12000 ORDER BY id")
    case.both("INSERT INTO T VALUES (20000, 1000000, 'x', 'y'), (20001, 1000001, 'x', 'y'), (20000, 1000002, 'x', 'y')")
    case.both("INSERT IGNORE INTO T SELECT id - 1000, a, b, c FROM source WHERE id > 12000 ORDER BY id")
    case.both("SELECT COUNT(*) FROM T")
    case.both("COMMIT")
    case.end()


def savepoints(case: Case) -> None:
    case.make()
    part = "INSERT INTO T SELECT id, a, b, c FROM source WHERE id > {} AND id <= {} ORDER BY a"
    case.both("BEGIN")
    case.both(part.format(0, 11000))
    case.both("SAVEPOINT s1")
    for n in range(11000, 11040, 2):
        case.both(part.format(n, n + 2))
        case.both(f"SAVEPOINT s{n}")
    case.both("RELEASE SAVEPOINT s11010")
    case.both("ROLLBACK TO s11004")
    case.both(part.format(11006, 12000))
    case.both("SAVEPOINT s2")
    case.both(part.format(12000, 13000))
    case.both("ROLLBACK TO s2")
    case.both(part.format(12000, 12500))
    case.both("ROLLBACK TO s1")
    case.both(part.format(11000, 14000))
    case.both("COMMIT")
    case.end()


def keys_that_collate(case: Case) -> None:
    case.make("CREATE TABLE T (n INT PRIMARY KEY, v VARCHAR(30) COLLATE utf8mb4_general_ci, p VARCHAR(100), "
              "UNIQUE (v), UNIQUE (p(6))) ENGINE")
    fill = "INSERT {}INTO T SELECT n, {}, {} FROM source ORDER BY a"
    case.both(fill.format("", "CONCAT('Name', n)", "CONCAT(LPAD(n, 6, '0'), REPEAT('x', 50))"))
    case.both("DELETE FROM T")
    case.both(fill.format("", "IF(n = 9000, 'NAME8000  ', CONCAT('Name', n))", "NULL"))
    case.both(fill.format("IGNORE ", "IF(n % 3, NULL, CONCAT('Name', n))", "IF(n = 8001, '008000y', LPAD(n, 6, '0'))"))
    case.end()


def numbers(case: Case) -> None:
    case.make("CREATE TABLE T (id INT AUTO_INCREMENT PRIMARY KEY, a INT, KEY (a)) ENGINE")
    case.both("INSERT INTO T (a) SELECT a FROM source ORDER BY n")
    case.both("SELECT LAST_INSERT_ID(), MIN(id), MAX(id), COUNT(*) FROM T")
    case.both("TRUNCATE TABLE T")
    case.both("BEGIN")
    case.both("INSERT INTO T SELECT id, a FROM source ORDER BY a")
    case.both("ROLLBACK")
    case.both("INSERT INTO T (a) VALUES (1)")
    case.both("SELECT * FROM T")
    case.both("DELETE FROM T")
    case.both("INSERT INTO T SELECT IF(n % 2, NULL, 100000 + n), a FROM source ORDER BY n")
    case.end()


def foreign_keys(case: Case) -> None:
    parent = "CREATE TABLE T (id INT PRIMARY KEY, a INT, b VARCHAR(20), c CHAR(40)) ENGINE"
    case.make(parent, "CREATE TABLE U (id INT PRIMARY KEY, p INT, KEY (p), FOREIGN KEY (p) REFERENCES T (id) "
              "ON DELETE CASCADE) ENGINE", "CREATE TABLE V (id INT PRIMARY KEY, p INT, KEY (p), "
              "FOREIGN KEY (p) REFERENCES V (id)) ENGINE")
    child = "INSERT {}INTO U SELECT id + 50000, {} FROM source ORDER BY a"
    case.both("BEGIN")
    case.both(FILL)
    case.both(child.format("", "id"))
    case.both("DELETE FROM T WHERE id <= 500")
    case.both("SELECT COUNT(*), MIN(p) FROM U")
    case.both("ROLLBACK")
    case.both(FILL)
    case.both(child.format("", "IF(id = 13000, 99999, id)"))
    case.both(child.format("IGNORE ", "IF(id = 13000, 99999, id)"))
    case.both("DELETE FROM T WHERE id > 13900")
    case.both("DELETE FROM U")
    case.both("SET foreign_key_checks = 0")
    case.both(child.format("", "id + 1"))
    case.both("SET foreign_key_checks = 1")
    case.both("INSERT INTO V SELECT id, IF(id = 1, NULL, id - 1) FROM source ORDER BY id")
    case.end("T", "U", "V")


def triggers_and_partitions(case: Case) -> None:
    case.make(f"CREATE TABLE T {TABLE} ENGINE", f"CREATE TABLE U {TABLE} ENGINE",
              "CREATE TABLE V (id INT, a INT, b VARCHAR(20), c CHAR(40), PRIMARY KEY (id), KEY (a)) ENGINE "
              "PARTITION BY HASH (id) PARTITIONS 2")
    case.both("INSERT INTO V SELECT * FROM ( SELECT id, a, b, c FROM source UNION ALL SELECT id + 20000, a, b, c FROM source ) s")
    for side in ("f", "i"):
        run(case.link("1", side), f"CREATE TRIGGER tr_{side} AFTER INSERT ON {side} FOR EACH ROW INSERT INTO {side}2 "
                                  "VALUES (-NEW.id, NEW.a, NEW.b, IF(NEW.id = 13990, NULL, NEW.c))")
    case.both("BEGIN")
    case.both(FILL)
    case.both("COMMIT")
    case.end("T", "U", "V")


def others(case: Case) -> None:
    """Reads without locks never wait; older snapshots see nothing. A write to a table that was empty waits."""
    case.make()
    case.both("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "old")
    case.both("START TRANSACTION WITH CONSISTENT SNAPSHOT", "old")
    case.both("BEGIN")
    case.both(FILL)
    case.both("SELECT COUNT(*) FROM T", "old")
    case.both("SELECT COUNT(*) FROM T", "new")
    case.both("INSERT INTO T VALUES (5, -1, 'x', 'y')", "new")
    case.both("SELECT * FROM T WHERE id = 5 LOCK IN SHARE MODE", "new")
    # InnoDB lets others insert beside the transaction; a load does not (docs/mariadb.md).
    if case.one("new", "f", "INSERT INTO T VALUES (-5, -1, 'x', 'y')") != 1205:
        raise Wrong(f"{case.name}an INSERT did not wait for the load")
    for sql in ("TRUNCATE TABLE T", "DROP TABLE T", "ALTER TABLE T ADD KEY (c)"):
        case.both("SET SESSION lock_wait_timeout = 1", "new")
        case.both(sql, "new")
    case.both("COMMIT")
    case.both("SELECT COUNT(*) FROM T", "old")
    case.both("COMMIT", "old")
    case.both("SELECT COUNT(*) FROM T", "old")
    # A table that has rows is not locked by many rows.
    case.both("BEGIN")
    case.both("INSERT INTO T SELECT id + 20000, a + 1000000, b, c FROM source")
    case.both("INSERT INTO T VALUES (-5, -1, 'x', 'y')", "new")
    case.both("COMMIT")
    case.end()


def serializable(case: Case) -> None:
    case.make()
    case.both("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "old")
    case.both("BEGIN", "old")
    case.both("SELECT COUNT(*) FROM T", "old")
    case.both(FILL)
    case.both("SELECT COUNT(*) FROM T", "old")
    case.both("COMMIT", "old")
    case.both(FILL)
    case.end()


def prepared(case: Case) -> None:
    case.make()
    for end in ("ROLLBACK", "COMMIT"):
        case.both("XA START XID")
        case.both(FILL)
        case.both("XA END XID")
        case.both("XA PREPARE XID")
        case.both("SELECT COUNT(*) FROM T", "new")
        case.both("INSERT INTO T VALUES (5, -1, 'x', 'y')", "new")
        case.both(f"XA {end} XID")
    case.both("DELETE FROM T")
    case.both("XA START XID")
    case.both(FILL)
    case.both("XA END XID")
    # The other tests need nothing durable of InnoDB.
    run(case.link("admin", "i"), "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    case.both("XA PREPARE XID")
    case.server.kill()
    case.server.start()
    case.links = {}
    case.both("SELECT COUNT(*) FROM T", "new")
    case.both("XA COMMIT XID", "new")
    case.must_load = False
    case.end()


CASES = [its_own_rows, deleted_and_loaded_again, statements_that_fail, savepoints, keys_that_collate, numbers, foreign_keys,
         triggers_and_partitions, others, serializable, prepared]
