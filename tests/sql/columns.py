"""Random columns and the values that are worth putting into them.

Values come from small pools of edges, so that equal keys, ties and near misses are frequent.

A column is `exact` when two values that compare equal are the same bytes. For others ('a' and 'A' in
a case-insensitive collation, 0.0 and -0.0) a result may show any of the equal values, and only
what is independent of that choice may be compared: see `ordered`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

LATIN = ["", " ", "  ", "a", "a ", "A", "a\t", "a\x00", "ab", "aB", "b", "\xe4", "\xe9", "\xdf", "ss",
         "z", "%", "_", "a_c", "\\", "abc", "abd", "'", "\"", "zz", "Zz", "0", "-1"]
WIDE = LATIN + ["\U0001f600", "\U0001f601", "e\u0301", "\u00e6", "ae", "\x00", "\u4e2d", "\uffff",
                "I", "\u0131", "\u0130", "\u03c3", "\u03c2", "a\u200b"]
PATTERNS = ["a%", "%a", "a_", "ab%", "_", "%", "A%", "\\\\_%", "z%", "a\\\\_c", "", "%b%", "s%"]
COLLATIONS = ["latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin",
              "utf8mb4_nopad_bin", "utf8mb4_unicode_nopad_ci", "latin1_bin", "latin1_nopad_bin",
              "ascii_general_ci", "utf8mb3_general_ci", "latin1_german2_ci", "utf8mb4_czech_ci"]
# A part of a string can sort after the whole of another that the whole sorts before where characters are
# ignored, expanded or contracted: an index on prefixes then loses rows, with every engine.
PREFIX_COLLATIONS = ["latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_nopad_bin",
                     "latin1_bin", "latin1_nopad_bin", "ascii_general_ci", "utf8mb3_general_ci"]
UNICODE_COLLATIONS = {"utf8mb4_unicode_ci", "utf8mb4_unicode_nopad_ci", "utf8mb4_czech_ci"}
# In an index a CHAR is compared with its padding, in an expression without: where spaces count (NO PAD), what is
# found depends on the plan, with every engine.
CHAR_COLLATIONS = [c for c in COLLATIONS if "nopad" not in c]
EXACT_COLLATIONS = {"utf8mb4_nopad_bin", "latin1_nopad_bin"}
MEMBERS = ["", "a", "b", "B2", "x y", "\xe9"]


def quote(text: str) -> str:
    """A string literal of SQL, without relying on the connection's charset for control bytes."""
    escapes = {"\\": "\\\\", "'": "\\'", "\x00": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"}
    return "'" + "".join(escapes.get(c, c) for c in text) + "'"


@dataclass
class Column:
    name: str
    kind: str
    type: str
    nullable: bool
    exact: bool
    collation: str | None = None
    # Longest value in characters, for strings; display digits, for others.
    size: int = 0
    scale: int = 0
    unsigned: bool = False
    generated: str | None = None
    auto: bool = False

    def definition(self) -> str:
        text = f"{self.name} {self.type}"
        if self.collation:
            text += f" CHARACTER SET {self.collation.split('_')[0]} COLLATE {self.collation}"
        if self.generated:
            return f"{text} GENERATED ALWAYS AS ({self.generated}) STORED"
        text += " NULL" if self.nullable else " NOT NULL"
        if self.kind == "timestamp":
            text += " DEFAULT NULL" if self.nullable else " DEFAULT '2001-02-03 04:05:06'"
        if self.auto:
            text += " AUTO_INCREMENT"
        return text

    def is_text(self) -> bool:
        return self.kind in ("char", "varchar", "text", "binary", "varbinary", "blob")

    def is_long(self) -> bool:
        return self.kind in ("text", "blob")

    def may_be_cut(self) -> bool:
        """Whether an index on a prefix finds all rows."""
        return self.is_text() and (not self.collation or self.collation in PREFIX_COLLATIONS)

    def like_is_sound(self) -> bool:
        """The server's index range for LIKE 'a%' leaves rows out, with every engine: in PAD SPACE collations that
        compare bytes it begins after 'a' and a tab, in those of the Unicode algorithm it ends before 'a' and a
        character beyond U+FFFF. So what is found depends on the plan."""
        if not self.is_text() or not self.collation or self.collation in UNICODE_COLLATIONS:
            return False
        return not self.collation.endswith("_bin") or self.collation.endswith("nopad_bin")

    def ordered(self) -> str:
        """An expression that is equal for values that compare equal, in the column's order."""
        if self.kind in ("float", "double"):
            return f"{self.name}+0.0e0"
        if self.exact:
            return self.name
        # A reversible tie: what compares equal has one weight string.
        shown = f"HEX(WEIGHT_STRING(RTRIM({self.name})))"
        if self.collation in UNICODE_COLLATIONS and "nopad" not in self.collation:
            # RTRIM keeps a space before an ignored character (' \\0' equals ''); 0209 is a space.
            return f"TRIM(TRAILING '0209' FROM {shown})"
        return shown

    def total(self) -> str:
        """An expression whose order separates all values that differ in any byte."""
        if self.is_text():
            return f"MD5({self.name})"
        if self.kind in ("float", "double"):
            return f"MD5(CAST({self.name} AS CHAR))"
        return self.name

    def value(self, r: random.Random) -> str:
        """A literal to store; now and then one that does not fit."""
        if self.nullable and r.random() < 0.12:
            return "NULL"
        return self.constant(r)

    def constant(self, r: random.Random, fits: bool = False) -> str:
        """A literal that is not NULL; with `fits`, one of the column's own type and range."""
        return getattr(self, "_" + self.kind)(r, fits)

    # ---- one pool for each kind

    def _int(self, r: random.Random, fits: bool) -> str:
        bits = self.size * 8
        low, high = (0, 2**bits - 1) if self.unsigned else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
        if self.auto:
            # Which number comes after a statement that gives a negative one is an engine's own.
            low = 0
        if r.random() < 0.75:
            return str(max(low, min(high, r.randint(-3, 40))))
        if not fits and r.random() < 0.1:
            return str(r.choice([low - (not self.auto), high + 1]))
        return str(r.choice([low, low + 1, high, high - 1, 0, r.randint(low, high)]))

    def _decimal(self, r: random.Random, fits: bool) -> str:
        whole = "9" * (self.size - self.scale) or "0"
        fraction = "." + "9" * self.scale if self.scale else ""
        if r.random() < 0.6:
            text = str(r.randint(-5, 5))
            return text + "." + str(r.randint(0, 99))[: self.scale] if self.scale else text
        pool = ["0", "-0.0", whole + fraction, "-" + whole + fraction]
        if not fits:
            pool += ["1.005", "0.4999999999999", whole + "9", "1e3"]
        return r.choice(pool)

    def _double(self, r: random.Random, fits: bool) -> str:
        pool = ["0e0", "-0e0", "1e0", "-1e0", "0.5e0", "1.5e0", "-2.25e0", "1024e0", "1e100",
                "-1e100", "2.5e-300"]
        return r.choice(pool if fits else pool + ["0.1e0", "1.7976931348623157e308", "3"])

    def _float(self, r: random.Random, fits: bool) -> str:
        pool = ["0e0", "-0e0", "1e0", "-1e0", "0.5e0", "1.5e0", "-2.25e0", "1024e0", "65536e0"]
        return r.choice(pool if fits else pool + ["0.1e0", "3.4e38", "-3.4e38", "1e39", "1e-40"])

    def _bit(self, r: random.Random, fits: bool) -> str:
        pool = [0, 1, 2, 2**self.size - 1, 2 ** (self.size - 1), r.getrandbits(self.size)]
        value = r.choice(pool if fits else pool + [2**self.size])
        return f"b'{min(value, 2**64 - 1):b}'"

    def _enum(self, r: random.Random, fits: bool) -> str:
        if not fits and r.random() < 0.1:
            return r.choice(["'no such'", "0", "2", "7"])
        return quote(r.choice(MEMBERS[1:]))

    def _set(self, r: random.Random, fits: bool) -> str:
        if not fits and r.random() < 0.1:
            return r.choice(["'no such'", "3", "0"])
        return quote(",".join(m for m in MEMBERS[1:5] if r.random() < 0.4))

    def _fraction(self, r: random.Random, fits: bool) -> str:
        # More digits than the column has are rounded or cut when stored, never in a comparison.
        digits = self.scale if fits else r.choice([0, self.scale, 6])
        return "." + "".join(r.choice("0059") for _ in range(digits)) if digits else ""

    def _date(self, r: random.Random, fits: bool) -> str:
        pool = ["2024-02-29", "1000-01-01", "9999-12-31", "1970-01-01", f"2020-01-{r.randint(1, 28):02}"]
        return quote(r.choice(pool if fits else pool + ["0000-00-00", "2024-00-00", "2023-02-30"]))

    def _time(self, r: random.Random, fits: bool) -> str:
        pool = ["00:00:00", "-00:00:01", "838:59:58", "-838:59:58", "12:34:56", "23:59:59",
                f"{r.randint(0, 30):02}:00:01"]
        if not fits and r.random() < 0.05:
            return "'900:00:00'"
        return quote(r.choice(pool) + self._fraction(r, fits))

    def _datetime(self, r: random.Random, fits: bool) -> str:
        pool = ["1000-01-01 00:00:00", "9999-12-31 23:59:58", "2024-02-29 12:00:00",
                f"2020-01-01 00:00:{r.randint(0, 59):02}"]
        if not fits and r.random() < 0.1:
            return quote(r.choice(["0000-00-00 00:00:00", "2024-13-01 00:00:00", "2024-00-10 01:02:03"]))
        return quote(r.choice(pool) + self._fraction(r, fits))

    def _timestamp(self, r: random.Random, fits: bool) -> str:
        pool = ["1970-01-01 00:00:01", "2038-01-19 03:14:06", "2024-02-29 12:00:00",
                f"2020-01-01 00:00:{r.randint(0, 59):02}"]
        if not fits and r.random() < 0.1:
            return quote(r.choice(["0000-00-00 00:00:00", "2039-01-01 00:00:00"]))
        return quote(r.choice(pool) + self._fraction(r, fits))

    def _year(self, r: random.Random, fits: bool) -> str:
        pool = ["1901", "2155", "2000", "1970", str(r.randint(2010, 2030))]
        return r.choice(pool if fits else pool + ["0000", "99", "1900"])

    def _char(self, r: random.Random, fits: bool) -> str:
        pool = WIDE if (self.collation or "").startswith("utf8mb4") else LATIN
        roll = r.random()
        if roll < 0.10:
            length = max(self.size - r.choice([0, 0, 1]), 0)
            return quote((r.choice("xX\xe4") * length)[:-1] + r.choice(["y", "z"]) if length else "")
        if roll < 0.13 and not fits:
            return quote("w" * (self.size + 1))
        text = r.choice(pool)
        if roll < 0.35:
            text += r.choice(pool)
        if (self.collation or "").endswith("nopad_bin"):
            # A sort of the server takes a zero byte at the end for its own padding, an index does not.
            text = text.replace("\0", "")
        return quote(text[: self.size] if fits or r.random() < 0.9 else text)

    _varchar = _char
    _text = _char

    def _binary(self, r: random.Random, fits: bool) -> str:
        pool = [b"", b"\0", b"\0\0", b"a", b"a ", b"a\0", b"A", b"\xff", b"\xff\xff", b"ab", b" "]
        roll = r.random()
        if roll < 0.08:
            value = b"\xfe" * (self.size - 1) + bytes([r.randint(0, 3)])
        elif roll < 0.10 and not fits:
            value = b"w" * (self.size + 1)
        else:
            value = r.choice(pool) + (r.choice(pool) if roll > 0.7 else b"")
        return "X'" + (value[: self.size] if fits else value).hex() + "'"

    _varbinary = _binary
    _blob = _binary


def _integer(r: random.Random, name: str, nullable: bool) -> Column:
    word, size = r.choice([("TINYINT", 1), ("SMALLINT", 2), ("MEDIUMINT", 3), ("INT", 4),
                           ("INT", 4), ("BIGINT", 8)])
    unsigned = r.random() < 0.3
    return Column(name, "int", word + (" UNSIGNED" if unsigned else ""), nullable, True,
                  size=size, unsigned=unsigned)


def _string(r: random.Random, name: str, nullable: bool) -> Column:
    kind = r.choice(["char", "varchar", "varchar", "varchar", "text"])
    collations = {"text": PREFIX_COLLATIONS, "char": CHAR_COLLATIONS}
    collation = r.choice(collations.get(kind, COLLATIONS))
    if kind == "text":
        return Column(name, kind, r.choice(["TINYTEXT", "TEXT", "MEDIUMTEXT"]), nullable,
                      collation in EXACT_COLLATIONS, collation, size=r.choice([60, 60, 63]))
    size = r.choice([1, 5, 10, 32, 60]) if kind == "char" else r.choice([3, 10, 40, 100, 255, 300, 700])
    return Column(name, kind, f"{kind.upper()}({size})", nullable, collation in EXACT_COLLATIONS,
                  collation, size=size)


def _bytes(r: random.Random, name: str, nullable: bool) -> Column:
    kind = r.choice(["binary", "varbinary", "blob"])
    if kind == "blob":
        return Column(name, kind, r.choice(["TINYBLOB", "BLOB", "LONGBLOB"]), nullable, True, size=200)
    size = r.choice([1, 4, 16, 200]) if kind == "binary" else r.choice([4, 40, 300])
    return Column(name, kind, f"{kind.upper()}({size})", nullable, True, size=size)


def _temporal(r: random.Random, name: str, nullable: bool) -> Column:
    kind = r.choice(["date", "time", "datetime", "timestamp", "year"])
    if kind in ("date", "year"):
        return Column(name, kind, kind.upper(), nullable, True)
    scale = r.choice([0, 0, 1, 3, 6])
    return Column(name, kind, f"{kind.upper()}({scale})" if scale else kind.upper(), nullable, True,
                  scale=scale)


def _number(r: random.Random, name: str, nullable: bool) -> Column:
    kind = r.choice(["decimal", "decimal", "double", "float", "bit"])
    if kind == "decimal":
        precision, scale = r.choice([(5, 2), (10, 0), (18, 9), (38, 10), (65, 30), (4, 4)])
        return Column(name, kind, f"DECIMAL({precision},{scale})", nullable, True, size=precision,
                      scale=scale)
    if kind == "bit":
        size = r.choice([1, 7, 8, 17, 64])
        return Column(name, kind, f"BIT({size})", nullable, True, size=size)
    return Column(name, kind, kind.upper(), nullable, False)


def _choice(r: random.Random, name: str, nullable: bool) -> Column:
    if r.random() < 0.5:
        members = ",".join(quote(m) for m in MEMBERS[1:])
        return Column(name, "enum", f"ENUM({members})", nullable, True, "utf8mb4_general_ci")
    members = ",".join(quote(m) for m in MEMBERS[1:5])
    return Column(name, "set", f"SET({members})", nullable, True, "utf8mb4_general_ci")


def random_column(r: random.Random, name: str, nullable: bool | None = None) -> Column:
    if nullable is None:
        nullable = r.random() < 0.6
    make = r.choice([_integer, _integer, _string, _string, _string, _bytes, _temporal, _number, _choice])
    return make(r, name, nullable)


def key_column(r: random.Random, name: str) -> Column:
    """A column fit for a primary key without a prefix."""
    while True:
        column = random_column(r, name, nullable=False)
        if not column.is_long() and not (column.is_text() and column.size > 255):
            return column


def integer_column(r: random.Random, name: str) -> Column:
    return _integer(r, name, False)
