"""Rules for what a page refers to: each key, label, term, source and file is there, or is told with what may be meant.

Cells name their records by literal keys, so a page need not run for its references to be checked. Of a page that makes
up a key as it runs, in a loop or by an f-string, nothing can be said, and any key of it is taken as right.
"""

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from measured_book.sources.bibliography import FILE, claim_words, entry_for, named_source, read_references
from measured_book.sources.myst import Fence, fences, object_source
from measured_book.sources.names import choices_fault, meant, split_reference, unknown_key

from tinytorch.prose import KEY, SPAN, is_reference, is_simple, parsed, split_words

#: Line and message.
Fault = tuple[int, str]
#: What each method of a page records under its key.
_RECORDS = {
    "number": "number",
    **dict.fromkeys(("figure", "drawing", "flames"), "figure"),
    "test": "claim",
    "table": "table",
}
#: Fences in which nothing is prose; one without a name is code.
_CODE = frozenset({"", "code-cell", "code-block", "code", "math"})
_FENCE = re.compile(r"^\s*`{3,}")
_TITLED = re.compile(r"(?:.+?\s*<)?(?P<target>[^<>]+)>?", re.DOTALL)
_LABEL = re.compile(r"^\(([\w./-]+)\)=\s*$", re.MULTILINE)
_EQUATION = re.compile(r"\$\$[ \t]*\(([\w-]+)\)[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^#+\s+(?P<title>.*?)\s*$")
_ADDRESS = re.compile(r"\]\((https?://[^)\s]+)\)|<(https?://[^>\s]+)>")
_LINK = re.compile(r"\]\((?!\w+:|#)(?P<path>[^)#\s]+\.md)(?:#[^)]*)?\)")
_READING = "Further reading"
#: What is said where a role names nothing that is there.
_LACKS = {"eq": "there is no equation with the label", "ref": "there is no label", "term": "the glossary has no"}
#: The roles and directives of this book, for which others are taken that are nearly called so.
ROLES = frozenset({"measured", "quoted", "numref", "eq", "ref", "term", "download"})
DIRECTIVES = frozenset(
    {
        *("admonition", "claim", "claim-ledger", "claim-wall", "claims", "code-cell", "container", "drawing"),
        "dropdown",
        *("outcome", "literalinclude", "note", "predict", "tab-item", "tab-set", "warning", "glossary", "include"),
    }
)


@dataclass
class Facts:
    """What a page has that pages refer to.

    Attributes:
        kinds: what may be recorded under each key: number, verdict, claim, table or figure.
        lines: of the call that records a key.
        is_open: whether a key is made up as the page runs.
        drawings: keys of the drawings in its text.
        claims: the claims that its text names, with their lines.
    """

    kinds: dict[str, frozenset[str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    is_open: bool = False
    drawings: set[str] = field(default_factory=set)
    claims: dict[str, int] = field(default_factory=dict)

    def of(self, *wanted: str) -> set[str]:
        """Return the keys under which one of these may be recorded."""
        return {key for key, kinds in self.kinds.items() if kinds.intersection(wanted)}

    def numbered(self) -> set[str]:
        """Return what ``{numref}`` may name."""
        figures = self.of("figure") | self.drawings
        return {f"figure-{key}" for key in figures} | {f"table-{key}" for key in self.of("table")}


@dataclass(frozen=True)
class Source:
    """A page's text taken apart: its directives by line, its cells parsed by line, and its prose, one text."""

    name: str
    text: str
    directives: tuple[tuple[int, Fence], ...]
    cells: tuple[tuple[int, ast.Module], ...]
    prose: str


def read(name: str, text: str) -> Source:
    """Return a page's text taken apart; code has empty lines in the prose."""
    lines = text.splitlines()
    found = list(_directives(text, 1))
    cells = []
    for line, fence in found:
        if fence.name not in _CODE or (fence.is_prose and not fence.name):
            continue
        for number in range(line - 1, line - 1 + fence.end - fence.first):
            lines[number] = ""
        if fence.name == "code-cell":
            code = "\n".join("" if re.match(r"\s*[%!]", each) else each for each in fence.body)
            try:
                cells.append((line + fence.body_first - fence.first, ast.parse(code)))
            except SyntaxError:  # which another rule tells
                continue
    return Source(name, text, tuple(found), tuple(cells), "\n".join(_FENCE.sub("", line) for line in lines))


def _directives(text: str, first: int) -> Iterator[tuple[int, Fence]]:
    """Yield the fences of a text whose first line is the page's line ``first``, each with its line, nested ones too."""
    for fence in fences(text):
        yield first + fence.first, fence
        if fence.name not in _CODE or (fence.is_prose and not fence.name):
            yield from _directives("\n".join(fence.body), first + fence.body_first)


def _calls(source: Source) -> Iterator[tuple[int, str, ast.Call]]:
    """Yield each call of a method of ``page`` with its line and the method's name, in their order."""
    for first, tree in source.cells:
        found = [
            (first + node.lineno - 1, node.func.attr, node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "page"
        ]
        yield from sorted(found, key=lambda call: call[0])


def _recorded(source: Source) -> Iterator[tuple[int, str | None, frozenset[str]]]:
    """Yield line, key and kinds of each record of a page in their order; no key where it is made up."""
    for line, method, call in _calls(source):
        if method not in _RECORDS:
            continue
        named = [keyword.value for keyword in call.keywords if keyword.arg == "key"]
        for node in call.args[:1] or named:
            key = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
            yield line, key, frozenset({_RECORDS[method]})


def facts_of(source: Source) -> Facts:
    """Return what a page has that pages refer to."""
    facts = Facts()
    for line, key, kinds in _recorded(source):
        facts.is_open |= key is None
        if key is not None:
            facts.kinds.setdefault(key, kinds)
            facts.lines.setdefault(key, line)
    for line, fence in source.directives:
        if fence.name == "drawing":
            facts.drawings.add(fence.argument.strip())
        elif fence.name == "outcome" and (key := fence.options.get("name")):
            facts.kinds[key] = frozenset({"verdict"})
        elif fence.name == "claim":
            facts.claims[fence.argument.strip()] = line
    return facts


class Pages:
    """The pages of the book, each taken apart when it is asked for, and what the whole book shares.

    Attributes:
        texts: of the pages, by name.
        targets: what the roles for labels, formulas and words of the glossary may name.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        glossaries = [fence for text in texts.values() if "{glossary}" in text for fence in fences(text)]
        lines = [line for fence in glossaries if fence.name == "glossary" for line in fence.body]
        self.targets = {
            "ref": {label for text in texts.values() for label in _LABEL.findall(text)},
            "eq": {label for text in texts.values() for label in _EQUATION.findall(text)},
            "term": {line.strip() for line in lines if line[:1].strip() and not line.startswith(":")},
        }
        self._known: dict[str, tuple[Source, Facts]] = {}

    def read(self, name: str) -> tuple[Source, Facts]:
        """Return a page's text taken apart, and what it has that pages refer to."""
        if name not in self._known:
            source = read(name, self.texts[name])
            self._known[name] = source, facts_of(source)
        return self._known[name]


class References:
    """The references of one page, each held against what all pages have; ``book`` is the folder of the pages."""

    def __init__(self, name: str, pages: Pages, book: Path) -> None:
        self.source, self.own = pages.read(name)
        self.name, self.pages, self.book = name, pages, book
        self.path = book / f"{name}.md"

    def faults(self) -> Iterator[Fault]:
        """Yield each fault."""
        yield from self._cells()
        yield from self._roles()
        yield from self._directives()
        yield from self._untold()
        yield from self._links()

    def _key(self, reference: str, role: str, *wanted: str) -> str | None:
        """Return why a reference to a record is wrong; None if it is not."""
        name, key = split_reference(reference.strip(), self.name)
        if name not in self.pages.texts:
            return f"there is no page {name!r}{meant(name, self.pages.texts)}"
        page, what = self.pages.read(name)[1], _either(wanted)
        if page.is_open or page.kinds.get(key, frozenset()).intersection(wanted):
            return None
        if key in page.kinds:
            return f"{{{role}}} needs a {what}, and {key!r} of page {name!r} is a {_either(sorted(page.kinds[key]))}"
        return unknown_key(name, what, key, page.of(*wanted))

    def _cells(self) -> Iterator[Fault]:
        """Yield wrong names of pages, keys that are none or taken, and braces that name no number that is there."""
        for first, tree in self.source.cells:
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Page":
                    given = [each.value for each in node.args if isinstance(each, ast.Constant)]
                    if given and given[0] != self.name:
                        yield (
                            first + node.lineno - 1,
                            f"a page names itself: write Page({self.name!r}), not {given[0]!r}",
                        )
        taken: dict[str, int] = {}
        for line, key, _ in _recorded(self.source):
            if key is None:
                continue
            if not KEY.fullmatch(key):
                yield line, f"a key is lower-case words joined by hyphens, such as 'mlp-latency', not {key!r}"
            if key in taken:
                yield line, f"the key {key!r} is taken, in line {taken[key]}: each record of a page needs another"
            taken.setdefault(key, line)

    def _roles(self) -> Iterator[Fault]:
        prose = self.source.prose
        for span in SPAN.finditer(prose):
            if span["role"] and (said := self._role(span["role"], span["text"])):
                yield prose.count("\n", 0, span.start()) + 1, said

    def _role(self, role: str, text: str) -> str | None:
        """Return what is wrong with a role; None if nothing is."""
        match role:
            case "measured":
                return self._measured(text.strip())
            case "numref":
                return self._numbered(text.strip())
            case "quoted":
                return self._quoted(text)
            case "download":
                return self._file(_target(text))
            case "ref" | "eq" | "term":
                target, known = _target(text), self.pages.targets[role]
                if target in known or (role == "term" and target.lower() in map(str.lower, known)):
                    return None
                return f"{_LACKS[role]} {target!r}{meant(target, known)}"
        return _near(role, ROLES, "role")

    def _measured(self, text: str) -> str | None:
        """Return why a number of the text is wrong; what an expression names is for mypy."""
        if is_reference(text) or text in self.own.of("number"):
            return self._key(text, "measured", "number")
        return self._expression(text)

    def _expression(self, text: str, *, is_number: bool = True) -> str | None:
        """Return why an expression is wrong: no expression, more than one operation, or of a name that no cell has."""
        expression = split_words(text)[0]
        try:
            tree = parsed(expression)
        except ValueError as error:
            return str(error)
        if is_number and not is_simple(expression):
            return f"{expression!r} must be a name, an attribute, an index, or one operation on these"
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id not in self.names | {*dir(builtins)}:
                return f"{expression!r}: there is no {node.id!r} on this page{meant(node.id, self.names)}"
        return None

    @cached_property
    def names(self) -> set[str]:
        """The names that the page's cells define, and those of its records."""
        found = {*self.own.kinds}
        for _, tree in self.source.cells:
            for node in ast.walk(tree):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found.add(node.id)
                elif isinstance(node, ast.Import | ast.ImportFrom):
                    found |= {(each.asname or each.name).partition(".")[0] for each in node.names}
                elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                    found.add(node.name)
        return found

    def _numbered(self, reference: str) -> str | None:
        name, label = split_reference(reference, self.name)
        if name not in self.pages.texts:
            return f"there is no page {name!r}{meant(name, self.pages.texts)}"
        page, kind = self.pages.read(name)[1], label.partition("-")[0]
        known = page.numbered()
        if page.is_open or label in known or kind == "equation":
            return None
        alike = [each for each in known if each.startswith(f"{kind}-")]
        return unknown_key(name, kind if alike else "figure or table", label, alike or known)

    def _quoted(self, text: str) -> str | None:
        number, bar, source = (part.strip() for part in text.replace("\\|", "|").partition("|"))
        if not (number and bar and source):
            return f"a quoted number needs its source, as in {{quoted}}`73 %|who says so`, not {text!r}"
        address = named_source(" ".join(source.split()))[1]
        return self._cited(address) if address else None

    def _cited(self, address: str) -> str | None:
        """Return that no entry of the references has an address; None if one has."""
        if entry_for(address, read_references(self.book / FILE)):
            return None
        return f"{address} is a source of this page, but {FILE} has no entry with this doi, eprint or url: add one"

    def _file(self, name: str) -> str | None:
        return (
            None
            if (self.path.parent / name).is_file()
            else f"there is no file {name}, seen from {self.path.parent.name}/"
        )

    def _directives(self) -> Iterator[Fault]:
        for line, fence in self.source.directives:
            yield from ((line, said) for said in self._directive(fence) if said)

    def _directive(self, fence: Fence) -> Iterator[str | None]:
        argument = fence.argument.strip()
        match fence.name:
            case "claim":
                yield self._key(argument, "claim", "claim")
                if fence.body:
                    yield self._words(fence, argument)
            case "predict":
                wanted = ("number", "verdict", "claim")
                if not is_reference(argument) and argument not in self.own.kinds:
                    yield self._expression(argument)
                    return
                yield (said := self._key(argument, "predict", *wanted))
                page, key = split_reference(argument, self.name)
                if said is None and len(kinds := self.pages.read(page)[1].kinds.get(key, frozenset())) == 1:
                    yield choices_fault(next(iter(kinds)), argument, fence.options.get("choices"))
            case "outcome":
                yield self._expression(argument, is_number=False)
            case "drawing":
                drawing = self.book / "_static" / "drawings" / self.name / f"{argument}.svg"
                if not drawing.is_file():
                    there = [path.stem for path in drawing.parent.glob("*.svg")]
                    near = meant(argument, there) if there else ""
                    yield f"there is no drawing {drawing.relative_to(self.book.parent)}{near}"
            case "literalinclude" | "include":
                yield (said := self._file(argument))
                if said is None and (name := fence.options.get("pyobject")):
                    try:
                        object_source(self.path.parent / argument, name)
                    except ValueError as error:
                        yield str(error)
            case "":
                return
            case name:
                yield _near(name, DIRECTIVES, "directive")

    def _words(self, fence: Fence, key: str) -> str | None:
        """Return what the words of a claim lack; None if nothing."""
        try:
            words = claim_words(fence.body, fence.options.get("source", ""), self.book / FILE)
        except ValueError as error:
            return f"claim {key!r}: {error}"
        return self._cited(words["source_url"]) if words["source_url"] else None

    def _untold(self) -> Iterator[Fault]:
        """Yield each test of a claim that the text does not state, unless a claim of the text has a wrong key."""
        told = {
            key for name, key in (split_reference(each, self.name) for each in self.own.claims) if name == self.name
        }
        if told - self.own.of("claim"):
            return
        for line, method, call in _calls(self.source):
            for node in call.args[:1] if method == "test" else ():
                key = node.value if isinstance(node, ast.Constant) else None
                if isinstance(key, str) and key not in told:
                    said = f"page.test({key!r}, ...) tests a claim that the page does not state"
                    yield line, f"{said}: write ```{{claim}} {key} with its words"

    def _links(self) -> Iterator[Fault]:
        """Yield each recommended source that is not among the references, and each link to a page that is not there."""
        title = ""
        for number, line in enumerate(self.source.prose.splitlines(), start=1):
            if heading := _HEADING.match(line):
                title = heading["title"]
            for found in _LINK.finditer(line):
                if not (self.path.parent / found["path"]).is_file():
                    yield number, f"there is no page {found['path']}"
            for found in _ADDRESS.finditer(SPAN.sub(" ", line)) if title == _READING else ():
                if said := self._cited(found[1] or found[2]):
                    yield number, said


def _target(text: str) -> str:
    """Return what a role names, behind its words if it has any."""
    titled = _TITLED.fullmatch(text.strip())
    return " ".join(titled["target"].split()) if titled else text


def _either(words: Sequence[str]) -> str:
    """Return words as one says them: "number, verdict or claim"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _near(name: str, known: frozenset[str], what: str) -> str | None:
    """Return that there is no role or directive of a name that is nearly one of the book's; None if there may be."""
    said = meant(name, known) if name not in known else ""
    return f"there is no {what} {name!r}{said}" if "did you mean" in said else None
