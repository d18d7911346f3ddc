"""Rules for the chapters' pages and modules: no typed number, no silent figure, no hidden logic, whole exercises.

A hidden cell calls studies and methods of ``page``, and may compute with what they return: take parts, combine them,
and list them as rows. What it must not do is choose by a result, or make words of one: a sentence that depends on a
result stands in an ``{outcome}``, where all its texts can be read, and a choice is a function that has a test.
"""

import ast
import builtins
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from measured_book.sources.myst import fences

LONGEST_CELL = 10
#: What each chapter has at least: predictions before its questions, and exercises.
FEWEST = 3
_UNITS = (
    r"(?:[nµμum]?s|[nµμum]?sec|(?:nano|micro|milli)?seconds?|min|minutes?|h|hours?|days?|weeks?"
    r"|[kKMGTP]i?B|(?:kilo|mega|giga|tera)bytes?|[kMGTP](?:FLOPs?|FLOPS|MACs?)|[kMG]?Hz|percent|per\s?cent)(?:/\w+)?"
    r"|%(?!\w)|[A-Za-z]+/s"
)
#: So many things of a kind in a time, or for a token.
_RATES = r"(?:[A-Za-z-]+\s){0,3}per\s(?:second|minute|hour|day|token)|[A-Za-z-]+s\sa\s(?:second|minute|hour|day)"
#: A factor of speed or size, such as "64 times as fast", "64 times faster"; plain "64 times" is none.
_FACTORS = (
    r"times\s(?:as\s(?:fast|slow|quick|long|short|large|big|small|high|low|cheap|expensive|accurate)"
    r"|faster|slower|quicker|longer|shorter|larger|bigger|smaller|higher|lower|cheaper|(?:more|less)\s(?:expensive|accurate))"
)
#: A number that only a measurement knows, or a source: digits, and a unit of time, rate, size or share, or a factor.
#: A ratio has no space before its sign, else it is a product: "2× faster" but "2 × 3".
TYPED_NUMBER = re.compile(
    r"(?<![\w.,/-])[~≈±]?\d(?:[\d,.\u202f\u00a0]*\d)?"
    rf"(?:\s?-?(?:{_UNITS}|{_RATES}|{_FACTORS})(?!\w)|[×x](?!\s*[\d\w]*\d)(?!\w))"
)
#: What a heading of a table says of bare numbers below it, or beside it, that only a measurement knows.
_MEASURED_HEADING = re.compile(
    rf"(?<![\w/-])(?:{_UNITS}|times?|latency|speedup|throughput|bandwidth|faster|slower)(?![\w/-])", re.IGNORECASE
)
_BARE_NUMBER = re.compile(r"[~≈±<>]?\s?[-−]?\d[\d,\u202f\u00a0]*(?P<decimals>\.\d+)?")
#: Directives of prose, which backticks may fence as well.
_PROSE_DIRECTIVES = frozenset(
    {
        *("admonition", "note", "tip", "warning", "important", "hint", "seealso", "dropdown", "epigraph", "topic"),
        *("tab-item", "tab-set", "tab", "grid", "grid-item", "grid-item-card", "card", "div", "details"),
        *("figure", "image", "margin", "sidebar", "list-table", "table", "exercise", "solution", "predict"),
    }
)
#: The directive that repeats what a source says, with its numbers.
_CLAIM = "claim"
#: Not measured: the confidence that is asked for, and in a table the time that a reader needs.
_SETTINGS = re.compile(r"\d+\s?%\s(?:confidence|interval)")
_CHOSEN = re.compile(r"\b\d+ %")
#: A share that an author chose, such as 90 % of the weights: round numbers.
_ROUND_SHARE = re.compile(r"(?<![\d.,])(?:100|[1-9]?[05]|1) %")
_READING_TIME = re.compile(r"\d+\s(?:minutes|hours?)")
#: A length in a style sheet, which a module may hold as a string.
_STYLE_LENGTH = re.compile(r"[\w-]+:\s*\d+%\s*[;}]")
_LEFT_OUT = (
    _SETTINGS,
    _ROUND_SHARE,
    re.compile(r"\{[\w:-]+\}`[^`]+`"),  # roles: measured, quoted, ref ...
    re.compile(r"(`+)(?:.+?)\1"),
    re.compile(r"\$\$.+?\$\$|\$[^$]+\$"),
    re.compile(r"\]\([^)]*\)|<https?://[^>]*>|https?://\S+"),
    re.compile(r"<!--.*?-->"),
)
_TYPED = "is typed: take it from a record with {measured}, or name its source with {quoted}"
_SOURCES_HEADING = re.compile(r"^#+\s+(?:further reading|sources|references)\b", re.IGNORECASE)
_QUESTIONS_HEADING, _EXERCISES_HEADING = "## Questions", "## Exercises"
_COURSE_HEADING = "## What the course says"
#: What ends a chapter.
_ENDS = (_QUESTIONS_HEADING, _COURSE_HEADING, _EXERCISES_HEADING, "## Further reading", "## What comes next")
_BUILDS = "**What you will build.**"
_HIDDEN = ("hide-input", "hide-cell", "remove-input", "remove-cell")
#: Arguments that repeat what a source says, which stands beside them.
_OF_A_SOURCE = {"statement", "source", "source_url", "quote"}


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


#: What an exercise has without its page: its checks.
_EVERYWHERE = {"exercises"}


class Problem(NamedTuple):
    """What is wrong, and on which line."""

    line: int
    message: str


@dataclass
class Cell:
    """A code cell: the line of its first line of code, its tags, its code."""

    line: int
    tags: str = ""
    code: list[str] = field(default_factory=list)

    @property
    def visible(self) -> bool:
        """Whether a reader sees the code without opening anything."""
        return not any(tag in self.tags for tag in _HIDDEN)

    @property
    def lines_of_code(self) -> int:
        """Number of lines that are not empty."""
        return sum(bool(line.strip()) for line in self.code)

    @property
    def python(self) -> str:
        """The code with empty lines in the place of magic commands."""
        return "\n".join("" if re.match(r"\s*[%!]", line) else line for line in self.code)


@dataclass
class Chapter:
    """A chapter's source taken apart: prose by line, cells, pictures, predictions by line.

    A draft (``draft: true`` in its head) may have fewer predictions and exercises than a chapter.
    """

    prose: dict[int, str] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    pictures: dict[int, list[str]] = field(default_factory=dict)
    predictions: dict[int, str] = field(default_factory=dict)
    is_draft: bool = False


def _parted(text: str) -> tuple[str, str]:
    """Return what stands before the text between lines of dashes, and the text with empty lines in its place."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return "", text
    end = next((i for i, line in enumerate(lines[1:], start=1) if line.strip() == "---"), 0)
    return "\n".join(lines[1:end]), "\n".join([*[""] * (end + 1), *lines[end + 1 :]])


def _read(text: str, first: int, chapter: Chapter) -> None:
    """Take a part of a chapter apart whose first line is the chapter's line ``first``."""
    prose = dict(enumerate(text.splitlines(), start=first))
    for fence in fences(text):
        line = first + fence.first
        for number in range(line, first + fence.end):
            prose.pop(number, None)
        if fence.name == "code-cell":
            chapter.cells.append(Cell(first + fence.body_first, str(fence.options), fence.body))
        elif fence.name == _CLAIM:
            continue
        elif fence.is_prose or fence.name in _PROSE_DIRECTIVES:
            said = [fence.argument] if fence.name else []
            if fence.name in ("figure", "image", "drawing"):
                said = []
                chapter.pictures[line] = [f":{name}: {value}" for name, value in fence.options.items()]
            prose[line] = " ".join([*said, *fence.options.values()])
            if fence.name == "predict":
                chapter.predictions[line] = fence.argument.strip()
            body = "\n".join(fence.body)
            # What matters, which the author chose: a share in whole per cent in the text of an outcome.
            body = _CHOSEN.sub("", body) if fence.name == "outcome" else body
            _read(body, first + fence.body_first, chapter)
    chapter.prose |= prose


def _plain(line: str) -> str:
    for pattern in _LEFT_OUT:
        line = pattern.sub(" ", line)
    return _READING_TIME.sub(" ", line) if line.lstrip().startswith("|") else line


def typed_in_prose(chapter: Chapter) -> Iterator[Problem]:
    """Yield each number with a unit that stands in the prose, outside of roles, code, formulas and sources."""
    in_sources = False
    for number, line in chapter.prose.items():
        if line.startswith("#"):
            in_sources = bool(_SOURCES_HEADING.match(line))
        if in_sources:
            continue
        for found in TYPED_NUMBER.finditer(_plain(line)):
            yield Problem(number, f"{found[0].strip()!r} {_TYPED}")


def typed_in_tables(chapter: Chapter) -> Iterator[Problem]:
    """Yield each bare number in a table of Markdown with decimals, or in a row or column of what is measured."""
    headings: list[str] = []
    for number, line in chapter.prose.items():
        if not line.lstrip().startswith("|"):
            headings = []
            continue
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        headings = headings or row
        for at, (cell, heading) in enumerate(zip(row, headings, strict=False)):
            found = _BARE_NUMBER.fullmatch(cell)
            of_measured = _MEASURED_HEADING.search(f"{heading} {row[0] if at else ''}")
            if found and (found["decimals"] or of_measured):
                yield Problem(number, f"{cell!r} {_TYPED}")


def _parsed(cell: Cell) -> ast.Module | None:
    try:
        return ast.parse(cell.python)
    except SyntaxError:
        return None


def _strings(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings in the code, but for those that repeat a source."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword) and child.arg in _OF_A_SOURCE:
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child
        yield from _strings(child)


def _without_choices(text: str) -> str:
    for pattern in (_SETTINGS, _ROUND_SHARE, _STYLE_LENGTH):
        text = pattern.sub(" ", text)
    return text


def _typed_in_code(tree: ast.AST, first: int) -> Iterator[Problem]:
    """Yield each number with a unit in a string of code whose first line is the source's line ``first``."""
    for string in _strings(tree):
        for found in TYPED_NUMBER.finditer(_without_choices(str(string.value))):
            line = first + string.lineno - 1
            yield Problem(line, f"{found[0].strip()!r} is typed in a string: show what was measured instead")


def typed_in_cells(chapter: Chapter) -> Iterator[Problem]:
    """Yield each number with a unit in a string of a cell: a caption, a label, a piece of evidence."""
    for cell in chapter.cells:
        tree = _parsed(cell)
        if tree is None:
            yield Problem(cell.line, "the cell is not Python")
        else:
            yield from _typed_in_code(tree, cell.line)


def _silent_in_code(tree: ast.AST, first: int) -> Iterator[Problem]:
    """Yield each call of ``page.figure`` without alt text in code whose first line is the source's line ``first``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "page.figure":
            continue
        if not any(keyword.arg == "alt" for keyword in node.keywords):
            yield Problem(first + node.lineno - 1, "a figure has no alt text: give page.figure alt=")


def silent_figures(chapter: Chapter) -> Iterator[Problem]:
    """Yield each figure without alt text."""
    for number, line in chapter.prose.items():
        if re.search(r"!\[\s*\]\(", line):
            yield Problem(number, "an image has no alt text: write ![what it shows](file)")
    for number, options in chapter.pictures.items():
        if not any(re.match(r":alt:\s*\S", option) for option in options):
            yield Problem(number, "an image has no alt text: add :alt: what it shows")
    for cell in chapter.cells:
        if (tree := _parsed(cell)) is not None:
            yield from _silent_in_code(tree, cell.line)


def long_cells(chapter: Chapter) -> Iterator[Problem]:
    """Yield each cell that shows more lines of code than a reader takes in at once."""
    for cell in chapter.cells:
        if cell.visible and cell.lines_of_code > LONGEST_CELL:
            yield Problem(
                cell.line,
                f"the cell shows {cell.lines_of_code} lines of code: split it into cells of at most {LONGEST_CELL}",
            )


def _imported(tree: ast.AST) -> set[str]:
    """Return the names that code imports, anywhere in it."""
    aliases = (node for node in ast.walk(tree) if isinstance(node, ast.alias))
    return {(alias.asname or alias.name).partition(".")[0] for alias in aliases}


def _undeclared(tree: ast.Module, imported: frozenset[str]) -> Iterator[tuple[int, str]]:
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


def _knows_a_page(text: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
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


def hidden_logic(chapter: Chapter) -> Iterator[Problem]:
    """Yield what hidden cells hold besides declarations."""
    trees = {cell.line: tree for cell in chapter.cells if (tree := _parsed(cell))}
    imported = frozenset().union(*map(_imported, trees.values()))
    for cell in chapter.cells:
        if cell.line in trees and not cell.visible and not any(tag in cell.tags for tag in ("solution", "check")):
            yield from (Problem(cell.line + line - 1, said) for line, said in _undeclared(trees[cell.line], imported))


def _defined(cell: Cell) -> set[str]:
    tree = _parsed(cell)
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} if tree else set()


def _checked(cell: Cell) -> set[str]:
    """Return the names that a check cell hands to functions whose name begins with check."""
    tree = _parsed(cell)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
    checks = [call for call in calls if ast.unparse(call.func).rpartition(".")[2].startswith("check_")]
    return {argument.id for call in checks for argument in call.args if isinstance(argument, ast.Name)}


def exercises_of(chapter: Chapter) -> list[tuple[Cell, Cell | None]]:
    """Return each cell tagged solution with the cell behind it if that is tagged check."""
    return [
        (cell, behind if behind is not None and "check" in behind.tags else None)
        for cell, behind in zip(chapter.cells, [*chapter.cells[1:], None], strict=False)
        if "solution" in cell.tags
    ]


def unpaired_exercises(chapter: Chapter) -> Iterator[Problem]:
    """Yield each solution without its check, and each check without its solution."""
    pairs = exercises_of(chapter)
    for solution, check in pairs:
        if not _defined(solution):
            yield Problem(solution.line, "a solution must define a function: its body is what a reader writes")
        elif check is None:
            yield Problem(solution.line, "a solution needs a cell tagged check right behind it")
        elif not _checked(check) & _defined(solution):
            yield Problem(check.line, "a check must call exercises.check_...(the function of the solution before it)")
    used = {check.line for _, check in pairs if check is not None}
    for cell in chapter.cells:
        if "check" in cell.tags and cell.line not in used:
            yield Problem(cell.line, "a check needs a cell tagged solution right before it")


def _bound(tree: ast.AST) -> set[str]:
    """Return the names that code imports, defines, takes as arguments or assigns, anywhere in it."""
    names = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def far_exercises(chapter: Chapter) -> Iterator[Problem]:
    """Yield each exercise that needs more of the page than its first cell: readers are told to run that one alone."""
    first = _parsed(chapter.cells[0]) if chapter.cells else None
    known = {*_EVERYWHERE, *dir(builtins)} | (_bound(first) if first else set())
    for solution, check in exercises_of(chapter):
        trees = [tree for cell in (solution, check) if cell and (tree := _parsed(cell))]
        own = known.union(*map(_bound, trees))
        used = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if far := sorted(used - own):
            yield Problem(
                solution.line, f"an exercise may use only what the page's first cell defines, not {', '.join(far)}"
            )


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' * (number != 1)}"


def too_few_questions(chapter: Chapter) -> Iterator[Problem]:
    """Yield what a chapter lacks: a page that says what its reader will build, or has one of the two sections."""
    headings = {text.strip(): line for line, text in chapter.prose.items() if text.startswith("## ")}
    found = [headings[name] for name in (_QUESTIONS_HEADING, _EXERCISES_HEADING) if name in headings]
    found += [line for line, text in chapter.prose.items() if text.startswith(_BUILDS)][:1]
    if not found:
        return
    for name in (_QUESTIONS_HEADING, _EXERCISES_HEADING):
        if name not in headings:
            yield Problem(found[0], f"a chapter needs a section {name!r}")
    if chapter.is_draft:
        return
    questions = headings.get(_QUESTIONS_HEADING, math.inf)
    within = sum(line < questions for line in chapter.predictions)
    needed = f"it needs {FEWEST}, unless its head says draft: true"
    if within < FEWEST:
        yield Problem(found[0], f"the chapter asks for {_count(within, 'prediction')} before its questions; {needed}")
    exercises = len(exercises_of(chapter))
    if exercises < FEWEST:
        yield Problem(found[-1], f"the chapter sets {_count(exercises, 'exercise')}; {needed}")


def long_title(chapter: Chapter) -> Iterator[Problem]:
    """Yield that the page's title is too long."""
    for line, text in chapter.prose.items():
        if text.startswith("# "):
            if said := title_fault(text[2:].strip()):
                yield Problem(line, said)
            return


def ends_in_another_order(chapter: Chapter) -> Iterator[Problem]:
    """Yield headings of a chapter's end that stand elsewhere than on other pages, or are worded in another way."""
    last = -1
    for line, text in chapter.prose.items():
        if text.startswith(_COURSE_HEADING) and text.strip() != _COURSE_HEADING:
            yield Problem(line, f"the heading must be {_COURSE_HEADING!r}, as on every page")
        if text.strip() in _ENDS:
            place = _ENDS.index(text.strip())
            if place < last:
                yield Problem(line, f"a chapter ends with {', '.join(_ENDS)}, in this order")
            last = max(last, place)


RULES = (
    long_title,
    ends_in_another_order,
    typed_in_prose,
    typed_in_tables,
    typed_in_cells,
    hidden_logic,
    silent_figures,
    long_cells,
    unpaired_exercises,
    far_exercises,
    too_few_questions,
)


def is_draft(text: str) -> bool:
    """Return whether a page's head says ``draft: true``."""
    return bool(re.search(r"^draft:\s*true\s*$", _parted(text)[0], re.MULTILINE))


@cache
def read_source(text: str) -> Chapter:
    """Return a chapter's source taken apart, the same for each of its readers: it is not to be changed."""
    _, rest = _parted(text)
    chapter = Chapter(is_draft=is_draft(text))
    _read(rest, 1, chapter)
    chapter.prose = dict(sorted(chapter.prose.items()))
    return chapter


def check_source(text: str) -> list[Problem]:
    """Return all problems of a chapter's source, sorted by line."""
    chapter = read_source(text)
    head = (Problem(*fault) for fault in check_head(text))
    return sorted([*head, *(problem for rule in RULES for problem in rule(chapter))])


class _WithoutDocstrings(ast.NodeTransformer):
    """Removal of docstrings, which no page shows."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        """Return the statement, or nothing where it is a string alone."""
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def check_module(text: str) -> list[Problem]:
    """Return the problems of a chapter's module, sorted by line: typed numbers, figures without alt text, and pages."""
    tree = _WithoutDocstrings().visit(ast.parse(text))
    pages = (Problem(*fault) for fault in _knows_a_page(text, tree))
    return sorted([*_typed_in_code(tree, 1), *_silent_in_code(tree, 1), *pages])


#: A page that has records is one that teaches; others are lists and explanations of the book itself.
_MEASURES = re.compile(r"^page\b.* = ", re.MULTILINE)
_SECTION = re.compile(r"^## ", re.MULTILINE)
#: What is no question: the first cell, the result, and the beginning of what stands around the table.
_FENCED = re.compile(r"^(```|:::)\{(?:code-cell|result)\}.*?^\1$|^:::\{about\}$", re.MULTILINE | re.DOTALL)
_RESULT = re.compile(r"^:::\{result\} \S", re.MULTILINE)
_NEEDS = re.compile(
    r"^\| You need \| You get \| Time \|\n\|---\|---\|---\|\n\| (?P<need>.+) \| (?P<get>.+) \| (?P<time>.+) \|$",
    re.MULTILINE,
)
_TIME = re.compile(r"\d+ minutes")
_LEARN = "**What you will learn.**"
_TEACHES = re.compile(r"^## Exercises$", re.MULTILINE)
#: What a chapter with exercises says besides.
_ALSO = ("**What you will build.**", "**What this chapter leaves out.**")

#: The letters that a browser and a list of results show of a title, and what the site puts behind a page's own.
LONGEST_TITLE, SITE = 70, " – Measured"


def title_fault(title: str) -> str | None:
    """Return what is wrong with a page's title; None if nothing is."""
    over = len(title) + len(SITE) - LONGEST_TITLE
    if over <= 0:
        return None
    return (
        f"the title {title!r} is {over} letters too long: with {SITE!r} behind it, browsers and lists of results show "
        f"{LONGEST_TITLE}"
    )


def _head(text: str) -> str:
    """Return what stands before the first section."""
    return _SECTION.split(text, maxsplit=1)[0]


def read_head(text: str) -> re.Match[str] | None:
    """Return what a page's head says that a reader needs (``need``), gets (``get``), and its ``time``."""
    return _NEEDS.search(_head(text))


def check_head(text: str) -> Iterator[tuple[int, str]]:
    """Yield what the beginning of a page lacks, with the title's line; nothing for a page that measures nothing."""
    if not _MEASURES.search(text):
        return
    head = _head(text)
    title = re.search(r"^# .+$", head, re.MULTILINE)
    if title is None:
        yield 1, "the page has no title: begin with '# Title'"
        return
    line = text.count("\n", 0, title.start()) + 1
    needs = read_head(text)
    if needs is None:
        yield line, "add a table '| You need | You get | Time |' with one row before the first section"
    else:
        if not _FENCED.sub("", head[title.end() : needs.start()]).strip():
            yield line, "add a sentence that asks what the page answers between the title and the table"
        if not _TIME.search(needs["time"]):
            yield line, f"the table's time must say minutes, such as '45 minutes to read', not {needs['time']!r}"
    wanted = (_LEARN, *_ALSO) if _TEACHES.search(text) else (_LEARN,)
    for words in wanted:
        found = re.search(rf"^{re.escape(words)}\n\S", head, re.MULTILINE)
        if found is None:
            yield line, f"add a paragraph that begins with a line {words} before the first section"
    if _TEACHES.search(text) and not _RESULT.search(head):
        yield line, "add what the chapter found below the title: :::{result} with the key of a figure"
