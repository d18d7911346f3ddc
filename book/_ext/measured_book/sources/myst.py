"""Fenced parts of a MyST text, code and directives, as markdown-it finds them, and the code that one includes."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from mdit_py_plugins.colon_fence import colon_fence_plugin

_DIRECTIVE = re.compile(r"\{(?P<name>[\w:-]+)\}\s*(?P<argument>.*)")
_OPTION = re.compile(r"\s*:(?P<name>[\w-]+):\s*(?P<value>.*?)\s*")
#: Finds blocks alone: what stands within a line is not looked at.
_PARSER = MarkdownIt("commonmark").use(colon_fence_plugin)
_PARSER.core.ruler.disable("inline")


@dataclass(frozen=True)
class Fence:
    """Fenced part of a text: a directive taken apart, or code.

    Attributes:
        first: the index of the line that opens it.
        end: the index of the line behind it.
        is_prose: whether colons fence it, so that its body is no code even without a directive.
        name: of the directive; empty for code.
        argument: what follows the name; for code its language.
        options: of the directive by name; a block of YAML as it is, under ``yaml``.
        body: its lines, behind the options.
        body_first: the index of the first of them.
    """

    first: int
    end: int
    is_prose: bool
    name: str
    argument: str
    options: dict[str, str]
    body: list[str]
    body_first: int


@cache
def fences(text: str) -> tuple[Fence, ...]:
    """Return the fenced parts of a text in their order; those within a directive are part of its body."""
    return tuple(_fences(text))


def _fences(text: str) -> Iterator[Fence]:
    for token in _PARSER.parse(text):
        if token.type not in ("fence", "colon_fence") or token.map is None:
            continue
        first, end = token.map
        info = token.info.strip()
        found = _DIRECTIVE.fullmatch(info)
        name, argument = (found["name"], found["argument"]) if found else ("", info)
        lines = token.content.splitlines()
        skipped, options = _options(lines) if name else (0, {})
        is_prose = token.type == "colon_fence"
        yield Fence(first, end, is_prose, name, argument, options, lines[skipped:], first + 1 + skipped)


def _options(lines: list[str]) -> tuple[int, dict[str, str]]:
    """Return how many lines at the beginning of a directive are its options, and these by name."""
    start = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    if lines[start : start + 1] == ["---"]:  # a block of YAML, which only code cells use
        end = next((number for number, line in enumerate(lines) if number > start and line.strip() == "---"), start)
        return end + 1, {"yaml": "\n".join(lines[start + 1 : end])}
    options: dict[str, str] = {}
    number = start
    while number < len(lines) and (option := _OPTION.fullmatch(lines[number])):
        options[option["name"]] = option["value"]
        number += 1
    return (number if options else 0), options


def object_source(path: Path, name: str) -> str:
    """Return the lines of the file's function, class or method ``name``, such as ``KVCache.remember``.

    Raises:
        ValueError: if the file holds no such object.
    """
    text = path.read_text("utf-8-sig")
    body: list[ast.stmt] = ast.parse(text).body
    found: ast.stmt | None = None
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = next((node for node in body if isinstance(node, kinds) and node.name == part), None)
        if found is None:
            raise ValueError(f"{path.name} holds no object {name!r}")
        body = found.body
    decorators = getattr(found, "decorator_list", [])
    first = min([found.lineno, *(one.lineno for one in decorators)]) if found else 1
    lines = text.splitlines()[first - 1 : found.end_lineno if found else None]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)
