"""Every condition in the code of the judgement as a switch, to see what an answer is without it.

`install` has the modules of `logdiag/judge/` compiled anew with each condition behind `asked`, which notes what it was
and can answer the contrary. What a switched condition changes is the same as a change of the code: dropping one part of
an `and` or `or`, taking one branch always, letting a filter pass all.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import NamedTuple

_JUDGE = "logdiag.judge"
# What others measure: fitted tables, and the words that they are fitted on.
_FITTED = (f"{_JUDGE}.suspects", f"{_JUDGE}.ranks")
_MEASURED_ALL_THE_SAME = f"{_JUDGE}.suspects.stand_in"
_ASKED = "_asked_"
_LONGEST = 120


class Condition(NamedTuple):
    """A condition: `judge.root:57`, its text, and the values that it can be held at, each a change of the code."""

    place: str
    text: str
    values: tuple[bool, ...]


class Switch(NamedTuple):
    """A condition by its number in `CONDITIONS`, held at a value."""

    number: int
    value: bool


CONDITIONS: list[Condition] = []
"""All conditions of the modules that were loaded since `install`."""
seen: set[Switch] = set()
"""What conditions were, since this was cleared last."""
held: list[Switch] = []
"""The conditions that are held now."""


def asked(number: int, value: object) -> object:
    """The value of a condition, or the one at which it is held."""
    if held:
        return next((switch.value for switch in held if switch.number == number), value)
    seen.add(Switch(number, bool(value)))
    return value


def install() -> None:
    """From here on the judgement's modules have switches; those that were loaded are loaded anew when they are next
    imported."""
    for name in [name for name in sys.modules if name == _JUDGE or name.startswith(f"{_JUDGE}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the modules that get switches."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        switched = fullname == _MEASURED_ALL_THE_SAME or not fullname.startswith(_FITTED)
        if not fullname.startswith(f"{_JUDGE}.") or not switched:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    """Compiles a module with its switches; nothing is kept on disk."""

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        source = self.get_data(self.path).decode()
        tree = _Switches(fullname.removeprefix("logdiag."), source).visit(ast.parse(source))
        return compile(ast.fix_missing_locations(tree), self.path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[_ASKED] = asked
        super().exec_module(module)


class _Switches(ast.NodeTransformer):
    """Puts each condition behind a call of `asked`."""

    def __init__(self, module: str, source: str) -> None:
        self._module, self._source = module, source

    def visit_If(self, node: ast.If) -> ast.If:
        node.test = self._tested(node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        node.test = self._tested(node)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        told = [self._text(part) for part in node.ifs]
        self.generic_visit(node)
        node.ifs = [self._switch(part, text, (True, False)) for part, text in zip(node.ifs, told, strict=True)]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.BoolOp:
        told = [self._text(part) for part in node.values]
        self.generic_visit(node)
        dropped = (isinstance(node.op, ast.And),)
        node.values = [self._switch(part, text, dropped) for part, text in zip(node.values, told, strict=True)]
        return node

    def _tested(self, node: ast.If | ast.IfExp) -> ast.expr:
        text = self._text(node.test)
        self.generic_visit(node)
        return self._switch(node.test, text, (True, False))

    def _switch(self, node: ast.expr, text: str, values: tuple[bool, ...]) -> ast.expr:
        CONDITIONS.append(Condition(f"{self._module}:{node.lineno}", text, values))
        call = ast.Call(ast.Name(_ASKED, ast.Load()), [ast.Constant(len(CONDITIONS) - 1), node], [])
        return ast.copy_location(call, node)

    def _text(self, node: ast.expr) -> str:
        return " ".join((ast.get_source_segment(self._source, node) or "").split())[:_LONGEST]
