"""The rule that a page declares and a module computes: no logic in hidden cells, no page in a chapter's module.

A hidden cell imports, names what one call of a study returns or a part of it, and calls methods of ``page``. Arguments
are names, attributes, elements by a literal, literals, and at most one call. So nothing in it needs a test: building
the page is the test. What has logic is a function of the module, which returns a value and knows no page.
"""

import ast
import builtins
import re
from collections.abc import Iterator

#: Line and message.
Fault = tuple[int, str]

#: Functions that a hidden cell may call for their effect, besides methods of ``page``.
_EFFECTS = {"limit_blas_threads"}
#: Methods without arguments that count as no call.
_VIEWS = {"values", "items", "keys"}
_OF_STRINGS = {name for name in dir(str) if not name.startswith("_")}
_NAMES_OF: dict[type[ast.AST], str] = {
    ast.FunctionDef: "def",
    ast.AsyncFunctionDef: "def",
    ast.ClassDef: "class",
    ast.ListComp: "comprehension",
    ast.SetComp: "comprehension",
    ast.DictComp: "comprehension",
    ast.GeneratorExp: "comprehension",
    ast.BinOp: "arithmetic",
    ast.UnaryOp: "arithmetic",
    ast.AugAssign: "arithmetic",
    ast.BoolOp: "boolean operator",
    ast.Compare: "comparison",
    ast.IfExp: "conditional expression",
    ast.JoinedStr: "f-string",
    ast.NamedExpr: "assignment inside an expression",
    ast.AnnAssign: "annotation",
    ast.Starred: "unpacking",
}


def _fault(node: ast.AST, what: str = "") -> Fault:
    what = what or _NAMES_OF.get(type(node), type(node).__name__.lower())
    said = f"a hidden cell must be a declaration: no {what}; put it into the chapter's module, which returns a value"
    return getattr(node, "lineno", 1), said


def _is_literal(node: ast.AST) -> bool:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())) | ast.Constant():
            return True
        case ast.Tuple():
            return all(map(_is_literal, node.elts))
    return False


class _Statement:
    """One value or call of a hidden cell, whose arguments together hold at most one more call."""

    def __init__(self, imported: frozenset[str]) -> None:
        self.imported = imported
        self.calls = 0

    def value(self, node: ast.expr) -> Iterator[Fault]:
        """Yield why a value may not be given a name."""
        return self.study(node) if isinstance(node, ast.Call) else self._argument(node)

    def faults(self, call: ast.Call) -> Iterator[Fault]:
        """Yield what the arguments of a call may not be."""
        for argument in call.args:
            yield from self._argument(argument)
        for keyword in call.keywords:
            yield from self._argument(keyword.value) if keyword.arg else [_fault(keyword.value, "unpacking")]

    def study(self, call: ast.Call) -> Iterator[Fault]:
        """Yield why a call is none of a study, and what its arguments may not be."""
        root, name = call.func, getattr(call.func, "attr", "")
        while isinstance(root, ast.Attribute):
            root = root.value
        is_name = isinstance(root, ast.Name)
        if name in _OF_STRINGS and not (isinstance(root, ast.Name) and root.id in self.imported):
            yield _fault(call, f"string method such as {name}()")
        elif not is_name:
            yield _fault(call, "call of anything but a named function")
        elif isinstance(call.func, ast.Name) and call.func.id in dir(builtins):
            yield _fault(call, f"call of {call.func.id}()")
        else:
            yield from self.faults(call)

    def _argument(self, node: ast.expr) -> Iterator[Fault]:
        match node:
            case ast.Name() | ast.Constant():
                return
            case ast.UnaryOp() if _is_literal(node):
                return
            case ast.Attribute():
                yield from self._argument(node.value)
            case ast.Subscript():
                yield from self._argument(node.value)
                if not _is_literal(node.slice):
                    yield _fault(node, "subscript that is not a literal")
            case ast.List() | ast.Tuple():
                for each in node.elts:
                    yield from self._argument(each)
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    yield from self._argument(key) if key else [_fault(value, "unpacking")]
                    yield from self._argument(value)
            case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]) if name in _VIEWS:
                yield from self._argument(node.func.value)  # type: ignore[attr-defined]
            case ast.Call():
                self.calls += 1
                if self.calls > 1:
                    yield _fault(node, "second call among the arguments")
                else:
                    yield from self.study(node)
            case _:
                yield _fault(node)


def _is_for_its_effect(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="page")):
            return True
        case ast.Name(id=name):
            return name in _EFFECTS
    return False


def _is_names(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) or (
        isinstance(target, ast.Tuple) and all(isinstance(each, ast.Name) for each in target.elts)
    )


def undeclared(tree: ast.Module, imported: frozenset[str]) -> Iterator[Fault]:
    """Yield what a hidden cell holds besides declarations, on a page that imports such names."""
    for node in tree.body:
        match node:
            case ast.Import() | ast.ImportFrom():
                pass
            case ast.Assign(targets=[target], value=value) if _is_names(target):
                yield from _Statement(imported).value(value)
            case ast.Assign():
                yield _fault(node, "assignment to anything but names")
            case ast.Expr(value=ast.Call() as call) if _is_for_its_effect(call):
                yield from _Statement(imported).faults(call)
            case ast.Expr(value=ast.Call()):
                yield _fault(node, "call that drops what it returns, except of page's own methods")
            case ast.Expr(value=value):
                yield _fault(value, "" if type(value) in _NAMES_OF else "value without a name")
            case _:
                yield _fault(node)


def knows_a_page(text: str, tree: ast.AST) -> Iterator[Fault]:
    """Yield where a chapter's module knows of a page: a caption, an import of Page, a parameter for one."""
    for number, line in enumerate(text.splitlines(), start=1):
        if re.search(r"\bcaption\s*=", line):
            yield (
                number,
                "a module writes no captions: return the rows or the figure, and write the caption on the page",
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            inside = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names = {f"{inside}{each.name}" for each in node.names}
            if any(f"{name}.".startswith(("tinytorch.report.Page.", "tinytorch.report.page.")) for name in names):
                yield node.lineno, "a module must not import Page: return a value, and show it on the page"
        elif isinstance(node, ast.arg) and node.arg == "page":
            yield node.lineno, "a module's function must not take a page: return a value, and show it on the page"
