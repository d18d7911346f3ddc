"""The rule that a hidden cell decides nothing and writes no text, and that a chapter's module knows no page.

A hidden cell calls studies and methods of ``page``, and may compute with what they return: take parts, combine them,
and list them as rows. What it must not do is choose by a result, or make words of one: a sentence that depends on a
result stands in an ``{outcome}``, where all its texts can be read, and a choice is a function that has a test.
"""

import ast
import re
from collections.abc import Iterator

#: Line and message.
Fault = tuple[int, str]

_OF_STRINGS = {name for name in dir(str) if not name.startswith("_")} - {"count", "index"}
_CHOICES: dict[type[ast.AST], str] = {
    ast.If: "if",
    ast.IfExp: "conditional expression",
    ast.Match: "match",
    ast.Compare: "comparison",
    ast.BoolOp: "boolean operator",
    ast.While: "while",
    ast.Try: "try",
}
_TEXTS: dict[type[ast.AST], str] = {ast.JoinedStr: "f-string"}
_FUNCTIONS: dict[type[ast.AST], str] = {ast.FunctionDef: "def", ast.AsyncFunctionDef: "def", ast.ClassDef: "class"}
_CHOOSES = "choose by a function of the chapter's module, or by an {outcome} in the text"
_WRITES = "write each text into an {outcome}"
_DEFINES = "put it into the chapter's module"


def undeclared(tree: ast.Module, imported: frozenset[str]) -> Iterator[Fault]:
    """Yield where a hidden cell chooses, makes text, or defines what has a place of its own, on a page that imports so.

    A method of an imported module may have the name of one of strings.
    """
    for node in ast.walk(tree):
        for kinds, remedy in ((_CHOICES, _CHOOSES), (_TEXTS, _WRITES), (_FUNCTIONS, _DEFINES)):
            if what := kinds.get(type(node)):
                yield getattr(node, "lineno", 1), f"a hidden cell must not hold a {what}: {remedy}"
        match node:
            case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _OF_STRINGS:
                if not (isinstance(owner, ast.Name) and owner.id in imported):
                    yield node.lineno, f"a hidden cell must not make text, as {name}() does: {_WRITES}"


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
