"""The text of a page: which numbers and outcomes it names by expressions, and the hidden cells that evaluate them.

A text says ``{measured}`times.columns / times.rows` `` where a number stands, asks for one by ``{predict} expression``,
and holds one paragraph for each result that a measurement can have::

    ::::{outcome} orders.compared
    :::slower
    So traverse large matrices row by row.
    :::
    :::open
    This build could not decide whether the order matters.
    :::
    ::::

A cell behind each text evaluates them in the page's namespace, that is after the cells above. Its code names the
expressions and nothing else of the text, so an edit of other words measures nothing again.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: The tag of a cell that evaluates what the text above it names, beside the one that hides it.
TAG = "text"
#: A record's key: lower-case words joined by hyphens.
KEY = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
#: A key, with its page before it if that is another.
REFERENCE = re.compile(rf"(?:[\w./-]+:)?{KEY.pattern}")
#: Roles, and code within a line, in which no role is one.
SPAN = re.compile(
    r"(?P<code>(?<!`)(`{2,})(?!`).+?(?<!`)\2(?!`))|\{(?P<role>[\w:-]+)\}`(?P<text>[^`]+)`|(?<!`)`[^`\n]+`", re.DOTALL
)
_FENCE = re.compile(r"^\s*(?P<marks>`{3,}|:{3,})\s*(?P<info>.*?)\s*$")
_DIRECTIVE = re.compile(r"\{(?P<name>[\w:-]+)\}\s*(?P<argument>.*)")
_OPTION = re.compile(r"^:(?P<name>[\w-]+):\s*(?P<value>.*?)\s*$")
#: Fences with backticks in which nothing is prose; one without a name is code.
_CODE = frozenset({"", "code-cell", "code-block", "code", "math", "literalinclude"})
_ENDS = re.compile(r"(?:above (?P<above>\S+)|below (?P<below>\S+)|(?P<low>\S+) to (?P<high>\S+))")
_OPERATIONS: dict[type[ast.operator], str] = {ast.Div: "over", ast.Mult: "times", ast.Sub: "less", ast.Add: "plus"}
#: What an expression of a number may consist of; of an outcome also one call.
_PARTS = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.expr_context, ast.UnaryOp, ast.USub, ast.Tuple)

#: The code of a last cell, for texts that name what only cells below them define.
_LAST = "page.fill(globals())"
#: Ends between which a value lies; None leaves a side open.
Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class Number:
    """A number that a text names: its line, the expression, and the words on its card, "" for the value's own."""

    line: int
    expression: str
    words: str = ""


@dataclass(frozen=True)
class Arm:
    """The text for one outcome, and of a measured value the ends between which it is that outcome."""

    outcome: str
    ends: Ends | None
    lines: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Outcome:
    """A place whose text depends on a result: its line, the expression, its name if others refer to it, its texts."""

    line: int
    expression: str
    name: str
    arms: tuple[Arm, ...]


def is_reference(text: str) -> bool:
    """Return whether a role holds the name of a record, such as ``machine:recorder-cost``, and no expression."""
    return bool(REFERENCE.fullmatch(text)) and not text.isidentifier()


def record_name(text: str) -> str:
    """Return the name of the record that a role shows: its own, or that of the expression in it.

    Raises:
        ValueError: if it is neither.
    """
    return text.strip() if is_reference(text.strip()) else key_of(split_words(text)[0])


def parts(text: str, first: int = 1) -> Iterator[Number | Outcome]:
    """Yield what a MyST text names by expressions, in its order; ``first`` is the number of its first line.

    Raises:
        ValueError: if the texts of an outcome are not written as they must be; the message begins with the line.
    """
    lines, code = text.splitlines(), ""
    inside: list[str] = []  # marks of the directives around a line
    for index, line in enumerate(lines):
        fence = _FENCE.match(line)
        if code:
            code = "" if fence and _closes(fence, code) else code
            continue
        directive = _DIRECTIVE.fullmatch(fence["info"]) if fence else None
        if fence and inside and _closes(fence, inside[-1]):
            inside.pop()
        elif fence and fence["marks"][0] == "`" and (directive["name"] if directive else "") in _CODE:
            code = fence["marks"]
            continue
        elif fence:
            inside.append(fence["marks"])
        if directive and directive["name"] == "outcome":
            yield _outcome(lines, index, first)
        if directive and directive["name"] == "predict" and not is_reference(directive["argument"].strip()):
            yield Number(first + index, *split_words(directive["argument"]))
        for span in SPAN.finditer(line):
            if span["role"] == "measured" and not is_reference(span["text"].strip()):
                yield Number(first + index, *split_words(span["text"]))


def split_words(text: str) -> tuple[str, str]:
    """Return the expression of a role, and the words behind a bar, "" if there are none."""
    expression, _, words = text.partition(" | ")
    return expression.strip(), words.strip()


def _closes(fence: re.Match[str], marks: str) -> bool:
    return fence["marks"].startswith(marks) and not fence["info"]


def _outcome(lines: Sequence[str], index: int, first: int) -> Outcome:
    opening = _FENCE.match(lines[index])
    assert opening is not None
    argument = _DIRECTIVE.fullmatch(opening["info"])
    assert argument is not None
    end = index + 1
    while end < len(lines) and not ((fence := _FENCE.match(lines[end])) and _closes(fence, opening["marks"])):
        end += 1
    body, name = list(lines[index + 1 : end]), ""
    if body and (option := _OPTION.match(body[0])) and option["name"] == "name":
        name, body[0] = option["value"], ""
        if len(body) > 1 and body[1].strip():
            raise ValueError(
                f"{first + index + 2}: an empty line must stand behind :name:, which MyST reads as an option"
            )
    line = first + index
    return Outcome(line, argument["argument"].strip(), name, tuple(arms(body, line + 1)))


def arms(lines: Sequence[str], first: int) -> Iterator[Arm]:
    """Yield the texts of an outcome, each between ``:::outcome`` and ``:::``; ``first`` is the first line's number.

    Raises:
        ValueError: if something stands between the texts, or one is not closed; the message begins with the line.
    """
    at = 0
    while at < len(lines):
        begin, fence = at, _FENCE.match(lines[at])
        at += 1
        if not lines[begin].strip():
            continue
        if fence is None or fence["marks"][0] != ":" or not fence["info"] or fence["info"].startswith("{"):
            raise ValueError(f"{first + begin}: each text of an outcome stands between a line :::slower and a line :::")
        while at < len(lines) and not ((end := _FENCE.match(lines[at])) and _closes(end, fence["marks"])):
            at += 1
        if at == len(lines):
            raise ValueError(f"{first + begin}: the text of {fence['info']!r} has no line {fence['marks']} at its end")
        outcome, _, ends = (part.strip() for part in fence["info"].partition("="))
        yield Arm(
            outcome.replace("-", " "), _ends(ends, first + begin), tuple(lines[begin + 1 : at]), first + begin + 1
        )
        at += 1


def _ends(text: str, line: int) -> Ends | None:
    found = _ENDS.fullmatch(text)
    if not text:
        return None
    try:
        if found is None:
            raise ValueError
        low, high = found["above"] or found["low"], found["below"] or found["high"]
        return (float(low) if low else None, float(high) if high else None)
    except ValueError:
        raise ValueError(
            f"{line}: the ends of an outcome are above 1.5, below 0.8 or 0.8 to 1.5, not {text!r}"
        ) from None


def key_of(expression: str) -> str:
    """Return the name of the record that an expression makes: ``times-columns-over-times-rows``.

    Raises:
        ValueError: if it is no expression of Python.
    """
    words = re.sub(r"[^a-z0-9]+", "-", " ".join(_words(parsed(expression))).lower())
    return words.strip("-")


def outcome_key(expression: str) -> str:
    """Return the name of the record of an outcome that the page does not name.

    Raises:
        ValueError: if it is no expression of Python.
    """
    return f"{key_of(expression)}-outcome"


def _words(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=value, attr=name):
            yield from _words(value)
            yield name
        case ast.Subscript(value=value, slice=index):
            yield from _words(value)
            yield from _words(index)
        case ast.Constant(value=value):
            yield str(value)
        case ast.UnaryOp(operand=value):
            yield "minus"
            yield from _words(value)
        case ast.BinOp(left=left, op=operation, right=right):
            yield from _words(left)
            yield _OPERATIONS.get(type(operation), type(operation).__name__)
            yield from _words(right)
        case _:
            yield ast.unparse(node)


def parsed(expression: str) -> ast.expr:
    """Return an expression parsed.

    Raises:
        ValueError: if it is no expression of Python.
    """
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{expression!r} is no expression: {error.msg}") from None


def is_simple(expression: str) -> bool:
    """Return whether it is a name, an attribute, an index, or one operation on these: what a number may be."""
    tree = parsed(expression)
    sides = [tree.left, tree.right] if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATIONS else [tree]
    return all(isinstance(node, _PARTS) for side in sides for node in ast.walk(side))


def code_of(found: Sequence[Number | Outcome], texts: Mapping[Outcome, Mapping[str, str]] | None = None) -> str:
    """Return the code of the cell that evaluates what a text names; empty for nothing.

    Args:
        found: of `parts`.
        texts: for a notebook to read, the plain text of each outcome.
    """
    numbers = dict.fromkeys(
        f"{one.expression} | {one.words}" if one.words else one.expression for one in found if isinstance(one, Number)
    )
    lines = []
    if numbers:
        listed = "".join(f"    {_literal(number)},\n" for number in numbers)
        lines.append(f"page.fill(\n    globals(),\n{listed})")
    for one in found:
        if not isinstance(one, Outcome):
            continue
        named = f"    name={_literal(one.name)},\n" if one.name else ""
        told = (texts or {}).get(one, {})
        each = "".join(
            f"        {_literal(arm.outcome)}: ({arm.ends!r}, {_literal(told.get(arm.outcome, ''))}),\n"
            for arm in one.arms
        )
        lines.append(f"page.decide(\n    globals(),\n    {_literal(one.expression)},\n    {{\n{each}    }},\n{named})")
    return "\n".join(lines)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def with_cells(cells: Sequence[Any], lines: Sequence[int]) -> tuple[list[Any], list[int]]:
    """Return a notebook's cells with a hidden one behind each text that names something, and the line of each.

    Args:
        cells: of nbformat.
        lines: of the source, counted from 0, in which each begins.

    Raises:
        ValueError: as `parts` does.
    """
    from nbformat.v4 import new_code_cell

    written: list[Any] = []
    begins: list[int] = []
    for cell, line in zip(cells, lines, strict=True):
        written.append(cell)
        begins.append(line)
        code = code_of(list(parts(cell.source, line + 1))) if cell.cell_type == "markdown" else ""
        if code:
            written.append(new_code_cell(code, metadata={"tags": ["remove-cell", TAG]}))
            begins.append(line)
    if any(map(is_of_text, written)) and not is_of_text(written[-1]):
        written.append(new_code_cell(_LAST, metadata={"tags": ["remove-cell", TAG]}))
        begins.append(lines[-1])
    return written, begins


def is_of_text(cell: Any) -> bool:
    """Return whether a cell was made for the text above it."""
    return TAG in cell.metadata.get("tags", ())
