"""Import closure: the modules of our package that code may import, found without running it; never too few."""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tinytorch.sources import package_files


class SourcePackage:
    """Modules of the package in ``folder`` by name, in ``files``, and what each may import.

    A module may import what its import statements name, also inside of functions, and start as a program, in a process
    of its own, the module that a string in it is the name of. Each module brings the packages that it lies in, as
    importing it runs them. A name that is put together would be missed; whoever executes code can therefore compare
    `may_import` with what was loaded.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.name = self.folder.name
        self.files = {self._name_of(path): path for path in package_files(self.folder) if path.suffix == ".py"}
        self._imports: dict[str, set[str]] = {}
        if self.name not in self.files:
            raise ValueError(f"folder must be a package with an __init__.py, but {self.folder} is none")

    def _name_of(self, path: Path) -> str:
        parts = path.relative_to(self.folder.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def may_import(self, code: Iterable[str]) -> set[str]:
        """Return the names of all modules of the package that pieces of ``code`` may import.

        Raises:
            SyntaxError: if a module of the package is no Python.
        """
        waiting = [name for piece in code for name in self._of_text(piece)]
        reached: set[str] = set()
        while waiting:
            module = waiting.pop()
            if module not in reached:
                reached.add(module)
                waiting += self._of_module(module)
        return reached

    def digests(self, modules: Iterable[str]) -> dict[str, str]:
        """Return the SHA-256 of each module's source, by name."""
        return {name: hashlib.sha256(self.files[name].read_bytes()).hexdigest() for name in sorted(modules)}

    def within(self, module: str) -> str:
        """Return the package that the relative imports of a module begin in."""
        return module if self.files[module].name == "__init__.py" else module.rpartition(".")[0]

    def _of_module(self, module: str) -> set[str]:
        if module not in self._imports:
            path = self.files[module]
            self._imports[module] = set(self._of_tree(ast.parse(path.read_bytes(), str(path)), self.within(module)))
        return self._imports[module]

    def _of_text(self, code: str) -> set[str]:
        """Return what a cell names; one that is no plain Python, as with a magic line, by the words in it alone."""
        try:
            return set(self._of_tree(ast.parse(code), self.name))
        except SyntaxError:
            return set(self.files) if self.name in code else set()

    def _of_tree(self, tree: ast.Module, within: str) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._leading_to(alias.name)
            elif isinstance(node, ast.ImportFrom):
                base = self.absolute(node, within)
                yield from self._leading_to(base)
                for alias in node.names:
                    yield from self._leading_to(f"{base}.{alias.name}")
            elif isinstance(node, ast.Constant) and node.value in self.files:
                yield from self._leading_to(str(node.value))

    def absolute(self, node: ast.ImportFrom, within: str) -> str:
        """Return the full name of what a statement in the package ``within`` imports from."""
        parents = within.split(".")
        start = parents[: len(parents) - node.level + 1] if node.level else []
        return ".".join([*start, *([node.module] if node.module else [])])

    def _leading_to(self, name: str) -> Iterator[str]:
        """Yield the module ``name``, or the one that has it as an attribute, and the packages that it lies in."""
        while name:
            if name in self.files:
                yield name
            name = name.rpartition(".")[0]
