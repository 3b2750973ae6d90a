"""Circles of Rust files: files of one crate that name each other in a circle.

What it sees: `use` and paths in code that begin with `crate::`, `super::`, `self::`, a child module or a name that
a `use` of the same file brought in. A name is followed through re-exports and through what a parent imports, to the
file that defines it. So `pub use part::Name` in a `mod.rs` hands the name on and is no arrow; `use part::Name` is one.

What it does not see: methods (`impl Core` in many files is called without naming the file), macros, globs that hand
on. Comments, strings, what is behind `#[cfg(test)]`, `tests.rs` and binaries beside a library are left out.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

Module = tuple[str, ...]

# Where circles are looked for.
FOLDERS = ("engine/", "bindings/", "cli/", "bench/", "toolkit/")
# An allowed circle: its files, and the reason.
ALLOWED: dict[frozenset[str], str] = {}

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|b?r#*".*?"#*|b?"(?:\\.|[^"\\])*"', re.S)
TEST_ITEM = re.compile(r"^([ \t]*)#\[cfg\(test\)\]\n(?:\1#\[.*\n)*\1(?:.*;\n|(?:.*\n)*?\1\}\n)", re.M)
USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.M)
CHILD = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", re.M)
PATH = re.compile(r"(?<![\w:])(\w+(?:::\w+)+)")


def leaves(tree: str) -> list[tuple[list[str], str]]:
    """`a::{b, c::d as e}` as its paths, each with the name that it brings in."""
    tree = tree.strip()
    if "{" not in tree:
        path, _, alias = tree.partition(" as ")
        parts = path.strip().split("::")
        if parts[-1] == "self":
            parts.pop()
        return [(parts, alias.strip() or parts[-1])]
    head, inner = tree.split("{", 1)
    prefix = [part for part in head.strip().split("::") if part]
    inner = inner.rsplit("}", 1)[0]
    items, depth, start = [], 0, 0
    for at, char in enumerate(inner + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            items.append(inner[start:at])
            start = at + 1
    found = []
    for item in items:
        if item.strip() == "self":
            found.append((prefix, prefix[-1]))
        elif item.strip():
            found += [(prefix + parts, name) for parts, name in leaves(item)]
    return found


class Crate:
    def __init__(self, src: str, files: dict[str, str]):
        self.file_of: dict[Module, str] = {}
        self.code: dict[Module, str] = {}
        for name in sorted(files, reverse=True):
            path = PurePosixPath(name).relative_to(src)
            if path.name == "tests.rs" or path.parts[0] == "bin":
                continue
            module = path.parent.parts if path.name in ("mod.rs", "lib.rs", "main.rs") else path.with_suffix("").parts
            text = NOISE.sub(lambda m: '""' if '"' in m[0] else "", files[name])
            # `lib.rs` comes after `main.rs` and takes its place.
            self.file_of[module], self.code[module] = name, TEST_ITEM.sub("", text)
        self.children = {module: set(CHILD.findall(code)) for module, code in self.code.items()}
        self.imports: dict[Module, dict[str, Module]] = {}
        for module, code in self.code.items():
            names = self.imports.setdefault(module, {})
            for _, tree in USE.findall(code):
                for parts, name in leaves(tree):
                    if (target := self.absolute(module, parts)) is not None:
                        names[name] = target

    def absolute(self, module: Module, parts: list[str]) -> Module | None:
        """The path from the crate's root; `None` for another crate's, or for a name of the file itself."""
        match parts[0]:
            case "crate":
                return tuple(parts[1:])
            case "self":
                return module + tuple(parts[1:])
            case "super":
                up = next((i for i, part in enumerate(parts) if part != "super"), len(parts))
                return module[: len(module) - up] + tuple(parts[up:])
        if parts[0] in self.children[module]:
            return module + tuple(parts)
        return None

    def home(self, target: Module, depth: int = 0) -> tuple[Module, bool] | None:
        """The module that defines `target`, and whether `target` is that module itself."""
        known = target
        while known not in self.file_of:
            if not known:
                return None
            known = known[:-1]
        rest = target[len(known) :]
        if rest and rest[0] in self.imports[known] and depth < 8:
            onward = self.imports[known][rest[0]] + rest[1:]
            if onward != target:
                return self.home(onward, depth + 1)
        return known, not rest

    def arrows(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for module, code in self.code.items():
            targets: set[Module] = set()
            for public, tree in USE.findall(code):
                if public:
                    continue
                for parts, _ in leaves(tree):
                    target = self.absolute(module, parts)
                    home = self.home(target) if target is not None else None
                    # A module that is brought in is named again where it is used.
                    if home and not home[1]:
                        targets.add(home[0])
            for path in PATH.findall(USE.sub("", code)):
                parts = path.split("::")
                target = self.absolute(module, parts)
                if target is None and parts[0] in self.imports[module]:
                    target = self.imports[module][parts[0]] + tuple(parts[1:])
                if target is not None and (home := self.home(target)):
                    targets.add(home[0])
            found[self.file_of[module]] = {self.file_of[t] for t in targets} - {self.file_of[module]}
        return found


def loops(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected parts of more than one file, sorted."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(file: str) -> None:
        order[file] = low[file] = len(order)
        stack.append(file)
        for other in arrows[file]:
            if other not in order:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == order[file]:
            at = stack.index(file)
            part = stack[at:]
            del stack[at:]
            if len(part) > 1:
                found.append(sorted(part))

    for file in sorted(arrows):
        if file not in order:
            visit(file)
    return sorted(found)


def circles(files: dict[str, str]) -> list[tuple[str, str]]:
    """Circles among `files` (path from the root, text) that are not allowed: a file of each, and what is wrong. An
    allowed circle that no longer exists is reported as well."""
    crates: dict[str, dict[str, str]] = {}
    for name, text in files.items():
        folder, found, _ = name.partition("/src/")
        if found and name.startswith(FOLDERS):
            crates.setdefault(folder + "/src", {})[name] = text
    arrows: dict[str, set[str]] = {}
    for src, texts in crates.items():
        arrows |= Crate(src, texts).arrows()
    found = loops(arrows)
    said = []
    for loop in found:
        if frozenset(loop) not in ALLOWED:
            ties = [f"{file} -> {other}" for file in loop for other in sorted(arrows[file] & set(loop))]
            said.append((loop[0], "a circle of files: " + ", ".join(ties)))
    gone = [allowed for allowed in ALLOWED if sorted(allowed) not in found]
    return said + [(min(allowed), "this circle is gone: take it off the list of allowed ones") for allowed in gone]
