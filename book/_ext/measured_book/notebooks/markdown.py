"""Plain Markdown of a page's MyST text, as any notebook shows it: no roles, no directives, no files beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Protocol

from measured_book.notebooks.myst import Fence, fences

_LABEL = re.compile(r"^\([\w./-]+\)=\s*$")
_EQUATION_LABEL = re.compile(r"^(\s*\$\$)\s*\([\w-]+\)\s*$")
#: Code between two backticks or more stays; between single ones, what a role's name stands before is the role's.
_SPANS = re.compile(r"(?P<code>(?<!`)(`{2,})(?!`).+?(?<!`)\2(?!`))|\{(?P<role>[\w:-]+)\}`(?P<text>[^`]+)`")
#: Directives that frame prose, which stays without the frame.
_FRAMES = ("container", "div", "tab-set", "grid", "grid-item", "only")
_NAMED = ("note", "tip", "hint", "important", "warning", "caution", "attention", "danger", "seealso")


class Renderer(Protocol):
    """Renderer of the parts of a page that are made of records or of other pages."""

    def role(self, name: str, text: str) -> str:
        """Return what stands for the role ``name`` around ``text``."""

    def claim(self, reference: str) -> str:
        """Return what stands for the box of a claim, as Markdown."""

    def is_measured(self, reference: str) -> bool:
        """Return whether the notebook's reader has the record."""

    def answer(self, reference: str) -> str:
        """Return the sentence that gives what a prediction asks for."""

    def file(self, path: str) -> Path:
        """Return where the file is that the page includes as ``path``."""


def object_source(path: Path, name: str) -> str:
    """Return the lines of the file's function, class or method ``name``, such as ``KVCache.remember``.

    Raises:
        ValueError: if the file holds no such object.
    """
    text = path.read_text("utf-8")
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


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _folded(summary: str, text: str) -> str:
    """Return a part that opens; the empty lines make notebooks read its inside as Markdown."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text.strip()}\n\n</details>"


def _included(directive: Fence, renderer: Renderer) -> str:
    path = renderer.file(directive.argument)
    name = directive.options.get("pyobject")
    text = object_source(path, name) if name else path.read_text("utf-8").rstrip()
    return f"```python\n{text}\n```"


def _prediction(directive: Fence, renderer: Renderer) -> str:
    body = directive.body
    place = next((i for i, line in enumerate(body) if line.strip() == "---"), len(body))
    question = plain_markdown("\n".join(body[:place]), renderer).strip()
    choices = directive.options.get("choices", "")
    offered = f"\n\nYour guess: {', '.join(part.strip() for part in choices.split('|'))}?" if choices else ""
    behind = plain_markdown("\n".join(body[place + 1 :]), renderer).strip()
    answer = f"{renderer.answer(directive.argument)}\n\n{behind}".strip()
    return f"**Before you look.** {question}{offered}\n\n{_folded('The answer', answer)}"


def _converted(directive: Fence, renderer: Renderer) -> str:
    """Return a directive as Markdown; of one that has no like, its prose."""
    name, inner = directive.name, "\n".join(directive.body)
    if name == "claim":
        return _quoted(renderer.claim(directive.argument))
    if name == "literalinclude":
        return _included(directive, renderer)
    if name == "predict":
        return _prediction(directive, renderer)
    if name == "math":
        return f"$$\n{inner.strip()}\n$$"
    if name in ("code-block", "code"):
        return f"```{directive.argument}\n{inner}\n```"
    if name in ("if-measured", "if-absent"):
        measured = all(renderer.is_measured(reference) for reference in directive.argument.split())
        return plain_markdown(inner, renderer) if measured == (name == "if-measured") else ""
    text = plain_markdown(inner, renderer).strip()
    title = plain_markdown(directive.argument, renderer).strip()
    if name == "dropdown":
        return _folded(title, text)
    if name == "admonition" or name in _NAMED:
        return _quoted(f"**{title or name.capitalize()}**\n\n{text}")
    if name in ("tab-item", "tab"):
        return f"**{title}**\n\n{text}"
    if name in _FRAMES or text:
        return text
    return "*The book's page shows more here.*"


def _prose(lines: list[str], renderer: Renderer) -> list[str]:
    """Return lines of prose without labels, with what the renderer has for their roles."""

    def rendered(found: re.Match[str]) -> str:
        return found["code"] or renderer.role(found["role"], found["text"])

    return [_SPANS.sub(rendered, _EQUATION_LABEL.sub(r"\1", line)) for line in lines if not _LABEL.match(line)]


def plain_markdown(text: str, renderer: Renderer) -> str:
    """Return MyST ``text`` as Markdown without roles, directives and labels; ``renderer`` says what stands for them.

    Raises:
        OSError, ValueError: if a file that the text includes is not there or lacks the object.
    """
    lines = text.splitlines()
    written: list[str] = []
    done = 0
    for fence in fences(text):
        written += _prose(lines[done : fence.first], renderer)
        if fence.name or fence.is_prose:
            written += ["", _converted(fence, renderer), ""]
        else:
            written += lines[fence.first : fence.end]
        done = fence.end
    written += _prose(lines[done:], renderer)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(written)).strip("\n")
