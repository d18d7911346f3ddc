"""Uses of the package by pages: which of its functions and classes a page's cells call, also through its chapter.

A name is followed to what it is bound to: an import to the module that defines it, so that two classes of one name are
two. The functions and classes of chapters are followed in turn; what they find elsewhere in the package is what counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from sphinx.application import Sphinx

from measured_book.execution.closure import SourcePackage

#: Folder of a package whose modules are the pages' own code.
CHAPTERS = "chapters"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass
class _Scope:
    """What names of a module stand for: by import a module, or a name in one, or else its own definitions."""

    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    defined: dict[str, list[ast.AST]] = field(default_factory=dict)

    @classmethod
    def of(cls, trees: Iterable[ast.Module], package: SourcePackage, within: str) -> _Scope:
        """Return the scope of trees that run one after the other in the package ``within``."""
        made = cls()
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        top = alias.name.partition(".")[0]
                        made.imported[alias.asname or top] = (alias.name if alias.asname else top, "")
                elif isinstance(node, ast.ImportFrom):
                    base = package.absolute(node, within)
                    made.imported |= {alias.asname or alias.name: (base, alias.name) for alias in node.names}
            for statement in tree.body:
                for name in _bound_by(statement):
                    made.defined.setdefault(name, []).append(statement)
        return made


def _bound_by(statement: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines, but for imports."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _named(node: ast.AST, local: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield each dotted name that code reads, but for annotations and names of functions' own variables."""
    if isinstance(node, _FUNCTIONS):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        own = {one.arg for one in arguments if one is not None}
        own |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        outside = [*node.args.defaults, *filter(None, node.args.kw_defaults), *getattr(node, "decorator_list", [])]
        for part in outside:
            yield from _named(part, local)
        for part in node.body if isinstance(node.body, list) else [node.body]:
            yield from _named(part, local | own)
        return
    if isinstance(node, ast.Attribute | ast.Name):
        dotted = _dotted(node)
        if dotted is not None:
            if dotted.partition(".")[0] not in local:
                yield dotted
            return
    for name, value in ast.iter_fields(node):
        if name != "annotation":
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield from _named(part, local)


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)) is not None:
        return f"{before}.{node.attr}"
    return None


@dataclass
class Uses:
    """Finder of what cells use of a ``package``, whose modules below ``through`` are followed."""

    package: SourcePackage
    through: str
    _scopes: dict[str, _Scope] = field(init=False, default_factory=dict)

    def of(self, cells: Iterable[str]) -> frozenset[str]:
        """Return the full names of the package's functions, classes and constants that the cells lead to.

        A cell that is no plain Python, as with a magic line, is passed over, and so is what is called by a name that is
        put together, or in a process of its own.
        """
        trees = []
        for cell in cells:
            with suppress(SyntaxError):
                trees.append(ast.parse(cell))
        scope = _Scope.of(trees, self.package, self.package.name)
        waiting = [found for tree in trees for found in self._read(tree, scope)]
        reached: set[tuple[str, str]] = set()
        while waiting:
            one = waiting.pop()
            if one in reached:
                continue
            reached.add(one)
            module, name = one
            if self._is_followed(module):
                inside = self._scope(module)
                waiting += [found for node in inside.defined[name] for found in self._read(node, inside, module)]
        return frozenset(f"{module}.{name}" for module, name in reached if not self._is_followed(module))

    def _is_followed(self, module: str) -> bool:
        return f"{module}.".startswith(f"{self.through}.")

    def _read(self, node: ast.AST, scope: _Scope, module: str | None = None) -> Iterator[tuple[str, str]]:
        """Yield module and name of each definition that code names; ``module`` is where it stands, None of cells."""
        for dotted in _named(node):
            first, *rest = dotted.split(".")
            if first in scope.imported:
                base, name = scope.imported[first]
                found = self._defined(base, [*filter(None, [name]), *rest])
                if found is not None:
                    yield found
            elif module is not None and first in scope.defined:
                yield module, first

    def _defined(self, module: str, parts: list[str]) -> tuple[str, str] | None:
        """Return the module that defines what names behind ``module`` lead to, and its name there; or None."""
        if module not in self.package.files or not parts:
            return None
        (name, *rest), scope = parts, self._scope(module)
        if name in scope.defined:
            return module, name
        if name in scope.imported and scope.imported[name] != (module, name):
            base, inner = scope.imported[name]
            return self._defined(base, [*filter(None, [inner]), *rest])
        return self._defined(f"{module}.{name}", rest)

    def _scope(self, module: str) -> _Scope:
        if module not in self._scopes:
            tree = ast.parse(self.package.files[module].read_bytes())
            self._scopes[module] = _Scope.of([tree], self.package, self.package.within(module))
        return self._scopes[module]


@cache
def _uses(folder: Path) -> Uses:
    """Return the finder of a package, which reads each module once for all pages: a process builds the book once."""
    package = SourcePackage(folder)
    return Uses(package, f"{package.name}.{CHAPTERS}")


def calls_of(cells: Iterable[str], app: Sphinx) -> frozenset[str]:
    """Return the full names of what a page's cells call in the packages that it runs with; see `Uses.of`."""
    code = list(cells)
    return frozenset().union(*(_uses(Path(app.srcdir, folder)).of(code) for folder in app.config.execution_packages))
