"""Linting of floats that a clock made: medians and readings of it that reach a page, or choose a word, bare.

What a page tells of two measurements carries their interval: `ratio`, `quotient` and `difference` do that, and
`verdict_between`, `word_between` and `Page.compare` choose words. Arithmetic on medians and readings of a clock, and
comparisons of them, lose it. Only what stands in one function, or on one page, is followed. A test of one median that
decides no word, such as what to draw, is nobody's business here; a comparison of two is.
"""

import ast
from collections.abc import Iterator, Sequence

#: What a measurement tells as a float, and calls that do.
_TOLD = {"median", "mean", "minimum", "maximum"}
_CLOCKS = {"perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "percentile"}
#: Functions that return a float of the kind that they are given.
_SAME = {"min", "max", "sum", "abs", "round", "float", "sorted", "median", "mean", "exp", "log", "sqrt", "append"}
#: Types that say where a number comes from.
_TYPED = {"Derived", "Modelled"}
_NUMBER = "a float of a clock reaches the page: carry its interval by ratio(), quotient() or difference()"
_WORD = "medians choose a word, whatever their intervals: use verdict_between(), word_between() or compare()"
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _name(call: ast.Call) -> str:
    """Return the last name of what is called."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _is_sink(node: ast.AST) -> bool:
    """Return whether a node calls a method of the page."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "page"
    )


def _says_words(nodes: Sequence[ast.AST]) -> bool:
    """Return whether a branch is a text or a verdict, makes a result with one, calls the page, or hands a text on."""
    for node in nodes:
        if isinstance(node, ast.Return | ast.Assign) and node.value is not None and _says_words([node.value]):
            return True
        if (isinstance(node, ast.Constant) and isinstance(node.value, str)) or isinstance(node, ast.JoinedStr):
            return True
        if isinstance(node, ast.Name) and node.id.isupper():
            return True
        if isinstance(node, ast.Expr) and _is_sink(node.value):
            return True
        if isinstance(node, ast.IfExp) and _says_words([node.body, node.orelse]):
            return True
        if isinstance(node, ast.Call) and _says_words([*node.args, *(each.value for each in node.keywords)]):
            return True
    return False


class _Scope:
    """One function, or what a module or page does outside of functions."""

    def __init__(self, body: Sequence[ast.AST]) -> None:
        self.nodes = [*_inside(body)]
        self.clocked: set[str] = set()
        while self._grown():
            pass

    def _grown(self) -> bool:
        """Add the names that are given a clocked float, and return whether there were new ones."""
        before = len(self.clocked)
        for node in self.nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and self._is_clocked(
                node.value
            ):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.clocked |= {each.id for each in targets if isinstance(each, ast.Name)}
            elif isinstance(node, ast.Call) and _name(node) == "append" and any(map(self._is_clocked, node.args)):
                self.clocked |= {each.id for each in [getattr(node.func, "value", None)] if isinstance(each, ast.Name)}
        return len(self.clocked) > before

    def _is_clocked(self, node: ast.AST | None) -> bool:
        """Return whether an expression is, or holds, a float that a clock made."""
        match node:
            case ast.Name():
                return node.id in self.clocked
            case ast.Attribute():
                return node.attr in _TOLD
            case ast.Call() if _name(node) in _TYPED:
                return False
            case ast.Call():
                return _name(node) in _CLOCKS or (
                    _name(node) in {*_SAME, "Counted"} and any(map(self._is_clocked, node.args))
                )
            case ast.BinOp():
                return self._is_clocked(node.left) or self._is_clocked(node.right)
            case ast.UnaryOp() | ast.FormattedValue() | ast.Starred():
                return self._is_clocked(node.operand if isinstance(node, ast.UnaryOp) else node.value)
            case ast.IfExp():
                return self._is_clocked(node.body) or self._is_clocked(node.orelse)
            case ast.List() | ast.Tuple() | ast.Set():
                return any(map(self._is_clocked, node.elts))
            case ast.Dict():
                return any(map(self._is_clocked, node.values))
            case ast.JoinedStr():
                return any(map(self._is_clocked, node.values))
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self._is_clocked(node.elt)
            case ast.DictComp():
                return self._is_clocked(node.value)
        return False

    def _chooses(self, node: ast.expr | ast.stmt) -> bool:
        """Return whether a clocked float is compared to choose a word."""
        if not isinstance(node, ast.If | ast.IfExp):
            return False
        branches = [*node.body, *node.orelse] if isinstance(node, ast.If) else [node.body, node.orelse]
        compared = (each for each in _inside([node.test]) if isinstance(each, ast.Compare))
        return _says_words(branches) and any(
            self._is_clocked(side) for each in compared for side in (each.left, *each.comparators)
        )

    def _is_of_two(self, node: ast.expr | ast.stmt) -> bool:
        """Return whether a comparison is of two clocked floats, or of the quotient or difference of two."""
        if not isinstance(node, ast.Compare):
            return False
        sides = [node.left, *node.comparators]
        parts = [[each.left, each.right] for each in sides if isinstance(each, ast.BinOp)]
        return any(sum(map(self._is_clocked, two)) > 1 for two in (sides, *parts))

    def faults(self) -> Iterator[tuple[int, str]]:
        """Yield line and fault of each clocked float that reaches a page or chooses a word."""
        for node in (each for each in self.nodes if isinstance(each, ast.expr | ast.stmt)):
            if isinstance(node, ast.Call) and (_is_sink(node) or _name(node) == "Counted"):
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                yield from ((each.lineno, _NUMBER) for each in given if self._is_clocked(each))
            elif self._is_of_two(node) or self._chooses(node):
                yield node.lineno, _WORD


def _inside(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes and all in them, but for what stands in functions of their own."""
    for node in nodes:
        yield node
        if not isinstance(node, _Function | ast.ClassDef):
            yield from _inside([*ast.iter_child_nodes(node)])


def faults(python: str) -> list[tuple[int, str]]:
    """Return line and fault of each clocked float in a module's text that reaches a page, or chooses a word, bare."""
    try:
        tree = ast.parse(python)
    except SyntaxError:  # which ruff tells
        return []
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef))]
    return sorted({fault for body in bodies for fault in _Scope(body).faults()})
