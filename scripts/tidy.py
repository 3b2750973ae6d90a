#!/usr/bin/env python3
"""Checks what a compiler does not: rules for readers. Prints each finding as PATH:LINE: what; status 1 if any.

Rules
 1. No file of code is longer than 600 lines.
 2. No note says that something is still to do.
 3. A path in backquotes, in comments and documents, exists: from the root, from the file's folder or one above
    it, or from the `src` of one above it. What tests run with other tools' trees, and what may lie beside the
    checkout, is no path of ours (`FOREIGN`). What a document links to exists, too.
 4. The id of an invariant (`//! - W1. ...`, ` * W1. ...`, `// Invariant W1: ...`) is defined once, and its prefix
    belongs to one file. A list under a line "Invariants" has ids and no plain numbers, and so have references.
 5. Invariants in the messages of assert, panic, unreachable and expect are defined; elsewhere in Rust those in texts as
    `"W1: ..."` and `"... (W1)"`.
 6. A folder of modules has its own file inside, `mod.rs`; no `x.rs` beside `x/`.
 7. What a document says is in a file is there: `Type::name` (`FILE`).
 8. Each stage of the tests has a budget, and all together are within the limits of `scripts/test.sh`: with the build
    and without.
 9. Files of a crate do not name each other in a circle (`circles.py` says what it sees, and has the exceptions).

It reads what git knows, a second for all of it. Tested by `--self-test`, which breaks each rule once.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from circles import circles

MOST_LINES = 600
CODE = {".rs", ".cc", ".h", ".c", ".py", ".sh", ".js", ".css", ".pl"}
TEXT = CODE | {".md", ".toml"}
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
QUOTED_PATH = re.compile(r"`([A-Za-z_.][\w.-]*(?:/[\w.-]+)+)`")
NAME_IN_FILE = re.compile(r"`(?:\w+::)?(\w+)`\s+\(`([\w.-]+(?:/[\w.-]+)+)`")
FOREIGN = ("../", "engines/", "frond/t/NAME", "include/", "target/", "usr/", "suite/", "percona/", "mysql-test/")
ENDINGS = CODE | {".md", ".svg", ".test", ".result", ".toml", ".sql"}
# What begins a line of a comment in Rust, C++, shell and make. In Python's texts nothing does.
COMMENT = r"^\s*(?://[/!]?|/?\*|#)?\s*"
ID = r"([A-Z]{1,4})(\d+)"
DEFINED = re.compile(COMMENT + rf"(?:{ID}\. |Invariant {ID}: )")
DEFINED_IN_RUST = re.compile(COMMENT + rf"(?:- {ID}\. |Invariant {ID}: )")
INVARIANTS = re.compile(COMMENT + r"(?:# )?Invariants(?:\b.*:)?$")
BLANK = re.compile(COMMENT + "$")
PLAIN_NUMBER = re.compile(COMMENT + r"(?:- )?\d+[.)] ")
PLAIN_REFERENCE = re.compile(r"\b[Ii]nvariants? \(?\d")
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
# Calls with a message, and the number of arguments before it.
CALL = re.compile(r"\b(?:debug_)?(assert|assert_eq|assert_ne|panic|unreachable)!\(|\.(expect)\(")
BEFORE_MESSAGE = {"assert": 1, "assert_eq": 2, "assert_ne": 2, "panic": 0, "unreachable": 0, "expect": 0}
TOKEN = re.compile(r"""r#"[\s\S]*?"#|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.[^']*)'|//[^\n]*|[()\[\]{},]""")
IN_MESSAGE = re.compile(rf"\b{ID}\b")
# What looks like an id and is none.
WORDS = {"LZ4", "MD5", "SHA1", "UTF8"}
NAMED = re.compile(r"\"(?:([A-Z]{1,4}\d{1,2}): |[^\"]*\(([A-Z]{1,4}\d{1,2})\)\")")
BUDGET = re.compile(r"^# CPU budget: (\d+) s", re.MULTILINE)
LIMIT = re.compile(r"^(BUILD|TEST)_MINUTES=(\d+)$", re.MULTILINE)

Finding = tuple[str, int, str]


def is_code(path: Path) -> bool:
    return path.suffix in CODE or path.name == "Makefile"


def is_read(path: Path) -> bool:
    return is_code(path) or path.suffix in TEXT


def tracked(root: Path) -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True).stdout
    paths = [root / name.decode() for name in names.split(b"\0") if name]
    return [path for path in paths if is_read(path) and path.is_file()]


def exists(root: Path, source: Path, text: str) -> bool:
    folder = source.parent
    while True:
        if (folder / text).exists() or (folder / "src" / text).exists():
            return True
        if folder == root:
            return False
        folder = folder.parent


def is_ours(root: Path, text: str) -> bool:
    if text.startswith(FOREIGN):
        return False
    return Path(text).suffix in ENDINGS or (root / text.split("/")[0]).is_dir() and text.count("/") > 1


def plain_numbers(lines: list[str]) -> list[int]:
    """Lines that begin with a plain number in lists under "Invariants". A list ends at a blank line."""
    found: list[int] = []
    under = listed = False
    for number, line in enumerate(lines, 1):
        if INVARIANTS.match(line):
            under, listed = True, False
        elif BLANK.match(line):
            under = under and not listed
        elif under:
            listed = True
            if PLAIN_NUMBER.match(line):
                found.append(number)
    return found


def misplaced_names(root: Path, text: str) -> list[tuple[int, str]]:
    """Names in a document that the file behind them does not declare, with their lines."""
    found: list[tuple[int, str]] = []
    for match in NAME_IN_FILE.finditer(text):
        name, file = match[1], root / match[2]
        declared = rf"(?:fn|struct|enum|trait|const|static|type|mod|#define) {name}\b|\b{name}[(:]"
        if file.is_file() and not re.search(declared, file.read_text(errors="replace")):
            found.append((text.count("\n", 0, match.start()) + 1, f"`{match[2]}` has no `{name}`"))
    return found


def budgets(root: Path) -> list[Finding]:
    """Stages without a budget, and sums above the limits."""
    found: list[Finding] = []
    sums = {"BUILD": 0, "TEST": 0}
    for stage in sorted((root / "scripts/stages").glob("*.sh")):
        budget = BUDGET.search(stage.read_text())
        if not budget:
            found.append((str(stage.relative_to(root)), 1, "states no CPU budget"))
            continue
        sums["BUILD"] += int(budget[1])
        # Stages before 10 build.
        sums["TEST"] += int(budget[1]) if not stage.name.startswith("0") else 0
    runner = root / "scripts/test.sh"
    limits = {name: 60 * int(minutes) for name, minutes in LIMIT.findall(runner.read_text())} if runner.exists() else {}
    if runner.exists() and limits.keys() != sums.keys():
        found.append(("scripts/test.sh", 1, "a limit of the stages is not stated"))
    for name, limit in limits.items():
        if sums[name] > limit:
            found.append(("scripts/test.sh", 1, f"budgets sum to {sums[name]} s, {name}_MINUTES is {limit} s"))
    return found


def ids_in_messages(text: str) -> list[tuple[int, str]]:
    """Ids in the messages of asserts and the like, with the lines on which the messages begin."""
    found: list[tuple[int, str]] = []
    for call in CALL.finditer(text):
        depth, commas, at = 1, 0, call.end()
        while depth and (token := TOKEN.search(text, at)):
            at = token.end()
            first = token[0][0]
            depth += (first in "([{") - (first in ")]}")
            commas += first == "," and depth == 1
            if first == '"' and commas >= BEFORE_MESSAGE[call[1] or call[2]]:
                line = text.count("\n", 0, token.start()) + 1
                ids = (id_[0] for id_ in IN_MESSAGE.finditer(token[0]))
                found += [(line, id_) for id_ in ids if id_ not in WORDS]
    return found


def findings(root: Path) -> list[Finding]:
    found: list[Finding] = []
    homes: dict[str, set[str]] = defaultdict(set)
    ids: dict[str, list[tuple[str, int]]] = defaultdict(list)
    named: list[tuple[str, str, int]] = []
    rust: dict[str, str] = {}
    for path in tracked(root):
        name = str(path.relative_to(root))
        text = path.read_text(errors="replace")
        if path.suffix == ".rs":
            rust[name] = text
            named += [(id_, name, number) for number, id_ in ids_in_messages(text)]
        lines = text.splitlines()
        if path.suffix == ".md":
            found += [(name, number, what) for number, what in misplaced_names(root, text)]
            for link in LINK.finditer(text):
                if not (path.parent / link[1]).exists():
                    found.append((name, text.count("\n", 0, link.start()) + 1, f"links to {link[1]}, which does not exist"))
        if path.suffix in CODE and len(lines) > MOST_LINES:
            found.append((name, len(lines), f"longer than {MOST_LINES} lines"))
        if is_code(path):
            found += [(name, number, "an invariant without an id") for number in plain_numbers(lines)]
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line) and "mktemp" not in line:
                found.append((name, number, "a note of what is still to do"))
            for quoted in QUOTED_PATH.findall(line):
                if is_ours(root, quoted) and not exists(root, path, quoted):
                    found.append((name, number, f"`{quoted}` does not exist"))
            if not is_code(path):
                continue
            if PLAIN_REFERENCE.search(line):
                found.append((name, number, "an invariant is named by a plain number"))
            if definition := (DEFINED_IN_RUST if path.suffix == ".rs" else DEFINED).match(line):
                prefix, digits = definition[1] or definition[3], definition[2] or definition[4]
                homes[prefix].add(name)
                ids[prefix + digits].append((name, number))
            if path.suffix != ".rs":
                continue
            if number == 1 and path.with_suffix("").is_dir() and path.parent.name != "tests":
                found.append((name, 1, f"belongs into {path.stem}/ as mod.rs"))
            named += [(use[1] or use[2], name, number) for use in NAMED.finditer(line)]
    for id_, places in ids.items():
        found += [(*place, f"invariant {id_} is defined twice") for place in places[1:]]
    for prefix, files in homes.items():
        if len(files) > 1:
            first, *rest = sorted(files)
            found += [(file, 1, f"invariants {prefix} belong to {first}") for file in rest]
    found += [(name, number, f"no header defines {id_}") for id_, name, number in named if id_ not in ids]
    found += [(name, 1, what) for name, what in circles(rust)]
    found += budgets(root)
    return sorted(set(found))


def self_test() -> None:
    broken = {
        "long.py": "pass\n" * 601,
        "later.rs": "// TO" + "DO: more\n",
        "path.md": "See `docs/" + "nowhere.md`, or `../beside" + "/the/checkout`.\n",
        "link.md": "[here](path.md#part), [there](else" + "where.md), [web](https://a.b/c.md).\n",
        "name.md": "`B::f` (`engine/" + "x/src/line/mod.rs`), `Base`\n(`engine/" + "x/src/line/mod.rs`, once).\n",
        "a.rs": "//! - W1. Once.\n//! - W1. Twice.\n/// W1. Named.\n",
        "c.h": "/* Invariants\n *  1. No id. */\n\n/* Steps\n *  1. One. */\n// Invariant V1: once, "
        "(invariant" + " 1).\n",
        "d.rs": "//! Invariants (of d):\n//!\n//! - V1. Elsewhere.\n//! - 2. No id.\n//!\n//! 1. A step.\n",
        "e.py": "'''Text.\n\nInvariants\n 1. No id.\n\n 1. A step.\n'''\n",
        "b.rs": '//! - W2. Elsewhere.\nfn f() {\n    assert!(true, "Q7: no such");\n}\n',
        # The first argument of assert is no message, and LZ4 no invariant.
        "g.rs": 'fn g() {\n    assert!(is("Q1"), "(W1), Q8 {}",\n        "of LZ4 and Q9");\n    x().expect("W1, Q10");\n}\n',
        "scripts/test.sh": "BUILD_MINUTES=4\nTEST_MINUTES=2\n",
        "scripts/stages/05-build.sh": "# CPU budget: 119 s\n",
        "scripts/stages/20-test.sh": "# CPU budget: 121 s, of them 10 s at most for one\n",
        "scripts/stages/30-more.sh": "# Budget: none.\n",
        # The circle runs through a re-export. No circles: what tests, comments and strings name, and what a folder
        # hands on.
        "engine/x/src/lib.rs": "mod ring;\nmod line;\npub use ring::{first::First, Second};\n",
        "engine/x/src/ring/mod.rs": "mod first;\nmod second;\npub(crate) use second::Second;\n",
        "engine/x/src/ring/first.rs": "use crate::ring::{Second};\npub struct First(Second);\n",
        "engine/x/src/ring/second.rs": "pub struct Second(Option<Box<super::first::First>>);\n",
        "engine/x/src/line/mod.rs": "mod low;\nmod high;\npub struct Base;\npub use high::High;\n",
        "engine/x/src/line/low.rs": "use super::Base; // crate::line::high::High\npub struct Low(Base);\n"
        '#[cfg(test)]\nmod tests {\n    use crate::line::High;\n}\npub const S: &str = "crate::line::high::High";\n',
        "engine/x/src/line/high.rs": "use crate::line::low::Low;\npub struct High(Low);\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        (root / "a").mkdir()
        for name, text in broken.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        subprocess.run(["git", "add", "-A"], cwd=root, check=True)
        said = [what for _, _, what in findings(root)]
    wanted = ["longer", "still to do", "nowhere", "has no `f`"]
    wanted += ["W1 is defined twice", "W belong", "V1 is defined twice", "V belong"]
    wanted += ["without an id"] * 3 + ["by a plain number", "as mod.rs", "elsewhere.md"]
    wanted += ["Q7", "Q8", "Q9", "Q10"]
    wanted += ["states no CPU", "sum to 121 s, TEST_"]
    wanted.append("engine/x/src/ring/first.rs -> engine/x/src/ring/second.rs, engine/x/src/ring/second.rs -> ")
    missed = [word for word in wanted if not any(word in what for what in said)]
    assert not missed and len(said) == len(wanted), (missed, said)


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root = Path(__file__).resolve().parent.parent
    found = findings(root)
    for name, number, what in found:
        print(f"{name}:{number}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
