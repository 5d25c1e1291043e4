"""Makes the one file that a site copies to its nodes out of the modules of `source/`: `make hook`.

A node may have nothing but an old Python, or none at all, so what runs there is one file: a shell part, in which Python
sees a string, and then the modules one after the other, in one name space.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from symtable import symtable

HOOK = Path(__file__).with_name("firstfault-hook")
SOURCE = Path(__file__).with_name("source")
MODULES = (
    "leaving", "words", "noting", "settings", "verdict", "jobs", "asking", "finding", "logs", "trimming", "secret_rules", "redaction", "node",
    "evidence", "service", "spool", "workers", "by_user", "command",
)  # fmt: skip
"""In the order in which they stand in the file: what a module needs while it is loaded stands above it."""

_ABOUT = """\
# Made by `make hook` of the modules in hooks/slurm/source: change those, not this file.
# The rest is Python 3.6 and newer, standard library only.
"""
_DETACHED = "# Everything below runs detached, so what it costs to import no longer matters.\n"
_WIDTH = 119


def assembled(source: Path = SOURCE) -> str:
    """Return the text of the file. Raises ValueError where two modules give one name to two things."""
    first, *others = [_Module(name, (source / f"{name}.py").read_text("utf-8")) for name in MODULES]
    _must_differ([first, *others])
    shell = (source / "without_python.sh").read_text("utf-8").removeprefix("#!/bin/sh\n")
    imports = set().union(*(module.imports for module in others)) - first.imports
    return (
        f"#!/bin/sh\n''':'\n{shell}'''\n{_ABOUT}"
        + _written(first.imports)
        + first.text()
        + f"\n\n{_DETACHED}"
        + _written(imports)
        + "".join(module.text() for module in others)
    )


class _Module:
    """One module, taken apart: what it imports from the standard library, and what follows."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        self._lines = text.splitlines()
        self._tree = ast.parse(text)
        self.imports: set[tuple[str, str]] = set()
        """(module or "", name): `from typing import Dict` and `import os` are ("typing", "Dict") and ("", "os")."""
        self._body = self._tree.body[1:]  # without its docstring
        while self._body and (isinstance(head := self._body[0], ast.Import | ast.ImportFrom) or _for_types_alone(head)):
            if isinstance(head, ast.Import | ast.ImportFrom):
                module = (head.module or "") if isinstance(head, ast.ImportFrom) else ""
                self.imports |= {(module, ast.unparse(each)) for each in head.names if not module.startswith("hooks.")}
            self._body.pop(0)
        self.imports.discard(("typing", "TYPE_CHECKING"))

    def text(self) -> str:
        """The module below a heading."""
        title = (ast.get_docstring(self._tree) or self.name).splitlines()[0].rstrip(".")
        heading = f"# --- {title} ".ljust(_WIDTH, "-")
        begins = self._tree.body[len(self._tree.body) - len(self._body) - 1].end_lineno or 0
        return f"\n\n{heading}\n\n\n" + "\n".join(self._lines[begins:]).strip() + "\n"

    def names(self) -> set[str]:
        """What it defines."""
        symbols = symtable(self._text, self.name, "exec").get_symbols()
        return {each.get_name() for each in symbols if each.is_assigned() and not each.is_imported()}


def _for_types_alone(statement: ast.stmt) -> bool:
    """Whether it is `if TYPE_CHECKING:`. What is imported there is named in quotes, so the file does without."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"


def _written(imports: Iterable[tuple[str, str]]) -> str:
    """Their lines."""
    names = defaultdict(list)
    for module, name in sorted(imports):
        names[module].append(name)
    whole = "".join(f"import {name}\n" for name in names.pop("", ()))
    return whole + "".join(f"from {module} import {', '.join(each)}\n" for module, each in names.items())


def _must_differ(modules: Sequence[_Module]) -> None:
    owner: dict[str, str] = {}
    for module in modules:
        for name in module.names():
            if other := owner.get(name):
                raise ValueError(f"{name} is defined in {other}.py and in {module.name}.py, which become one file")
            owner[name] = module.name


def main() -> None:
    """Write the file."""
    HOOK.write_text(assembled(), "utf-8")
    HOOK.chmod(0o755)


if __name__ == "__main__":
    main()
