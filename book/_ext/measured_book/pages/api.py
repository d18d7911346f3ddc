"""Reference of the package: entries that autodoc makes of docstrings, and links to them from code in pages' text.

``{api} tinytorch.perf.profiling`` lists names of a module, a line each, with the members that readers type behind a
colon. A page that holds one measures nothing: what it shows are signatures, docstrings and their examples.
"""

import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.nodes import load_where
from measured_book.elements.numbering import chapter_number
from measured_book.state import BookState, reading_order, short_titles, state_of

STYLE = "api.css"
#: From how many characters on a signature has a line for each parameter: on a phone, and on a desk as well.
LENGTHS = {"broken": 30, "long": 72}
#: Class of code that names no entry: a signature, or a parameter that is called as an entry is.
NO_NAME = "no-name"
#: What begins code that names nothing of this package, although a member may be called the same.
_FOREIGN = frozenset({"F", "jax", "jnp", "math", "nn", "np", "numpy", "os", "scipy", "self", "sys", "time", "torch"})
#: A name as readers type it: bare, called, entered, as a decorator, or as a member of what a call returns.
_SPELLED = re.compile(
    r"(?:with |@|from )?(?P<name>\.?[A-Za-z_][\w.]*)(?:\([^()]*\)\.(?P<member>\w+))?(?P<call>\(.*)?(?: as \w+)?:?",
    re.DOTALL,
)
_NOT_A_NUMBER = re.compile(r"(?<![\w-])(NaNs?|nan|inf)(?![\w-])")


def is_listed(line: str) -> tuple[str, list[str]]:
    """Return the name and the members of a line of the directive."""
    name, _, members = line.partition(":")
    return name.strip(), members.replace(",", " ").split()


def entries_in(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield module, name and members of each entry that a page's Markdown lists."""
    for block in re.finditer(r"^```\{api\} (\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in filter(str.strip, block[2].splitlines()):
            yield block[1], *is_listed(line)


def _kind(what: Any) -> str:
    if inspect.isclass(what):
        return "exception" if issubclass(what, BaseException) else "class"
    return "function"


def _shown_type(annotation: Any) -> str:
    """Return an annotation as the source has it, which is shorter than what it evaluates to; empty if there is none."""
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _shown_default(value: Any) -> str:
    """Return a default as a reader would type it."""
    if inspect.isclass(value) or inspect.isfunction(value):
        return str(value.__name__)
    return "…" if repr(value).startswith("<") else repr(value)


def parameters_of(what: Any, *, member: bool = False) -> tuple[list[tuple[str, str]], str] | None:
    """Return the parameters, each its name and what stands behind it, and what is returned; None of no function."""
    if isinstance(what, property):
        return [], _shown_type(inspect.signature(what.fget).return_annotation)  # type: ignore[arg-type]
    try:
        signature = inspect.signature(what)
    except (TypeError, ValueError):
        return None
    shown: list[tuple[str, str]] = []
    kinds = inspect.Parameter
    listed = list(signature.parameters.values())[1 if member else 0 :]
    for place, one in enumerate(listed):
        first_keyword = one.kind is kinds.KEYWORD_ONLY and not any(
            before.kind in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL) for before in listed[:place]
        )
        if first_keyword:
            shown.append(("*", ""))
        if place and listed[place - 1].kind is kinds.POSITIONAL_ONLY and one.kind is not kinds.POSITIONAL_ONLY:
            shown.append(("/", ""))
        stars = "*" * ((one.kind is kinds.VAR_POSITIONAL) + 2 * (one.kind is kinds.VAR_KEYWORD))
        shown_type = _shown_type(one.annotation)
        typed = f": {shown_type}" if shown_type else ""
        given = "" if one.default is one.empty else f" = {_shown_default(one.default)}"
        shown.append((stars + one.name, typed + (given if typed else given.replace(" ", ""))))
    return shown, "" if inspect.isclass(what) else _shown_type(signature.return_annotation)


def _sign(line: addnodes.desc_signature, what: Any, name: str, words: str, *, member: bool) -> None:
    """Write a signature anew, as code: a part for each parameter, in types as the source has them."""
    code = nodes.literal("", "", classes=[NO_NAME])
    line.clear()
    line += code
    if words:
        code += nodes.inline("", f"{words} ", classes=["type"])
    code += addnodes.desc_name("", name)
    found = parameters_of(what, member=member)
    if found is None:
        return
    parameters, returned = found
    if isinstance(what, property):
        code += nodes.inline("", f": {returned}", classes=["type"])
        return
    length = len(name) + sum(len(each) + len(behind) + 2 for each, behind in parameters)
    line["classes"] += [size for size, least in LENGTHS.items() if length > least]
    code += nodes.Text("(")
    for place, (each, behind) in enumerate(parameters, start=1):
        part = nodes.inline("", "", nodes.strong("", each), classes=["parameter"])
        part += nodes.inline("", behind + ("" if place == len(parameters) else ", "), classes=["type"])
        code += part
    code += nodes.Text(")")
    if returned and returned != "None":
        code += nodes.inline("", f" → {returned}", classes=["type"])


class UsedIn(nodes.General, nodes.Element):
    """Place of links to the chapters that use an entry. Attribute: ``anchor``."""


class ApiDirective(SphinxDirective):
    """``{api} module``: entries for the names of the module that the body lists, each a section."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        module = importlib.import_module(self.arguments[0])
        return [self._entry(module, *is_listed(line)) for line in self.content if line.strip()]

    def _entry(self, module: Any, name: str, members: list[str]) -> nodes.section:
        full, what = f"{module.__name__}.{name}", getattr(module, name)
        lines = ["```{eval-rst}", f".. auto{_kind(what)}:: {full}"]
        if members:
            lines += [f"   :members: {', '.join(members)}", "   :member-order: bysource"]
        made = nodes.container()
        body = type(self.content)([*lines, "```"], source=self.get_source_info()[0])
        self.state.nested_parse(body, self.content_offset, made)
        here = state_of(self.env).of(self.env.docname).entries
        defined = f"{what.__module__}.{what.__qualname__}"
        here[full] = (full, defined)
        section = nodes.section("", nodes.title("", "", nodes.literal("", name)), ids=[full], names=[full])
        for index in list(made.findall(addnodes.index)):
            index.parent.remove(index)
        for strong in list(made.findall(lambda node: isinstance(node, nodes.strong | addnodes.literal_strong))):
            strong.parent.replace(strong, nodes.literal("", strong.astext(), classes=[NO_NAME]))
        for described in made.findall(addnodes.desc):
            line = next(iter(described.findall(addnodes.desc_signature)))
            of = str(line["fullname"])
            if of == name:
                words = "class" if inspect.isclass(what) else ""
                _sign(line, what, name, words, member=False)
                line["ids"] = []
            else:
                own = of.rpartition(".")[2]
                member = inspect.getattr_static(what, own)
                bound = getattr(what, own) if isinstance(member, classmethod) else member
                bound = bound.__func__ if isinstance(bound, staticmethod) else bound
                _sign(line, bound, own, "", member=not isinstance(member, staticmethod | classmethod))
                here[f"{full}.{own}"] = (f"{full}.{own}", f"{defined}.{own}")
        parameters = {strong.astext() for strong in made.findall(nodes.strong)}  # all others are code by now
        for literal in made.findall(nodes.literal):
            literal["classes"] += [NO_NAME] * (literal.astext() in parameters)
        for text in list(made.findall(nodes.Text)):
            _keep_as_code(text)
        section += made.children
        section += UsedIn(anchor=full)
        return section


def _keep_as_code(text: nodes.Text) -> None:
    """Put NaN between the marks of code, as the pages' own text has it: it is a value there, and no number of ours."""
    parts = _NOT_A_NUMBER.split(text)
    if len(parts) > 1 and not isinstance(text.parent, nodes.literal | nodes.FixedTextElement):
        changed = [nodes.literal("", p) if place % 2 else nodes.Text(p) for place, p in enumerate(parts)]
        text.parent.replace(text, changed)


@dataclass(frozen=True)
class Target:
    """Place of an entry or of a member of one: its page, and its anchor there."""

    docname: str
    anchor: str


@dataclass(frozen=True)
class Names:
    """Names that lead to entries, as readers spell them."""

    state: BookState

    @cached_property
    def spellings(self) -> Mapping[str, list[Target]]:
        """Every way to spell an entry: each end of a dotted name that has all of the entry's own."""
        found: dict[str, list[Target]] = defaultdict(list)
        for docname, page in self.state.pages.items():
            for anchor, full_names in page.entries.items():
                for spelling in _ends(full_names, own=self._own(page.entries, anchor)):
                    found[spelling].append(Target(docname, anchor))
        return found

    @cached_property
    def members(self) -> Mapping[str, list[Target]]:
        """Members of entries by their bare names."""
        found: dict[str, list[Target]] = defaultdict(list)
        for docname, page in self.state.pages.items():
            for anchor in page.entries:
                if self._own(page.entries, anchor) == 2:
                    found[anchor.rpartition(".")[2]].append(Target(docname, anchor))
        return found

    @staticmethod
    def _own(entries: Mapping[str, Any], anchor: str) -> int:
        """Return how many parts of a full name are the entry's: 2 of a member, whose class is an entry."""
        return 2 if anchor.rpartition(".")[0] in entries else 1

    def find(self, code: str, docname: str, beside: Target | None = None) -> Target | None:
        """Return what ``code`` on the page ``docname`` names: of several the one whose room is this chapter's.

        ``beside`` is an entry whose members may stand there by their bare names.
        """
        found = _SPELLED.fullmatch(code.strip())
        if found is None:
            return None
        name = found["name"] + (f".{found['member']}" if found["member"] else "")
        own = None if beside is None else Target(beside.docname, f"{beside.anchor}.{name}")
        if own in self.members.get(name, []):
            return own
        head, _, last = name.rpartition(".")
        targets = self.spellings.get(name, [])
        # A variable's attribute, or a bare name that is no word of prose.
        is_member = head == head.lower() and head not in _FOREIGN if "." in name else "_" in name
        if not targets and is_member:
            targets = self.members.get(last, [])
        if len(targets) > 1:
            targets = [one for one in targets if one.docname.rpartition("/")[2] == docname]
        return targets[0] if len(targets) == 1 else None

    def users(self) -> Mapping[str, set[str]]:
        """Return, for each entry by its anchor, the pages without entries that call it, or name it or a member of it.

        What a page calls is known by what its code imports; what its text names, by how that is spelled.
        """
        found: dict[str, set[str]] = defaultdict(set)
        anchors = {
            name: anchor
            for page in self.state.pages.values()
            for anchor in page.entries
            for name in page.entries[anchor]
        }
        for docname, page in self.state.pages.items():
            if page.entries:
                continue
            for name in page.calls & anchors.keys():
                found[anchors[name]].add(docname)
            for code in page.codes:
                if (target := self.find(code, docname)) is not None:
                    member = self._own(self.state.of(target.docname).entries, target.anchor) == 2
                    found[target.anchor.rpartition(".")[0] if member else target.anchor].add(docname)
        return found


def _ends(full_names: tuple[str, ...], own: int) -> set[str]:
    """Return the ends of dotted names that have at least ``own`` parts."""
    parts = [name.split(".") for name in full_names]
    return {".".join(each[begin:]) for each in parts for begin in range(len(each) - own + 1)}


def codes_in(doctree: nodes.document) -> frozenset[str]:
    """Return the code that a page's text holds."""
    return frozenset(literal.astext() for literal in doctree.findall(nodes.literal))


class LinkCode(SphinxPostTransform):
    """Links from inline code to the entries that it names, the first in each section and all in tables; and back."""

    default_priority = 25  # behind the resolution of references, and the glossary's

    def run(self, **_: Any) -> None:
        """Change the code of the page, and say below its entries who uses them."""
        names = Names(state_of(self.env))
        if names.spellings:
            self._link(names)
        places = list(self.document.findall(UsedIn))
        users = names.users() if places else {}
        for place in places:
            place.replace_self(self._used_in(users.get(place["anchor"], set())))

    def _used_in(self, pages: set[str]) -> list[nodes.Node]:
        """Return a line of links to those of the pages that are chapters, in the order of the book."""
        order = reading_order(self.env)
        chapters = sorted((one for one in pages if chapter_number(self.env, one) is not None), key=order.__getitem__)
        line = nodes.paragraph("", "Used on the pages of: ", classes=["used-in"])
        for place, (name, title) in enumerate(zip(chapters, short_titles(self.env, chapters), strict=True)):
            address = self.app.builder.get_relative_uri(self.env.docname, name)
            line += [nodes.Text(", " if place else ""), nodes.reference("", title, internal=True, refuri=address)]
        line += nodes.Text(".")
        return [line] if chapters else []

    def _link(self, names: Names) -> None:
        docname = self.env.docname
        seen: set[tuple[int, Target]] = set()
        rows: dict[int, Target] = {}  # what the first code of a table's row names, whose members follow it there
        for literal in list(self.document.findall(nodes.literal)):
            if NO_NAME in literal["classes"]:
                continue
            above = list(_above(literal))
            row = next((id(one) for one in above if isinstance(one, nodes.row)), None)
            target = names.find(literal.astext(), docname, rows.get(row) if row is not None else None)
            if target is None or any(isinstance(one, nodes.title | nodes.reference | nodes.term) for one in above):
                continue
            section = next((one for one in above if isinstance(one, nodes.section)), self.document)
            in_table = any(isinstance(one, nodes.table) for one in above)
            within = {ident for one in above if isinstance(one, nodes.section) for ident in one["ids"]}
            own = target.docname == docname and any(f"{target.anchor}.".startswith(f"{one}.") for one in within)
            if own or ((id(section), target) in seen and not in_table):
                continue
            seen.add((id(section), target))
            if row is not None:
                rows.setdefault(row, target)
            page = "" if target.docname == docname else self.app.builder.get_relative_uri(docname, target.docname)
            link = nodes.reference("", "", literal.deepcopy(), internal=True, refuri=f"{page}#{target.anchor}")
            literal.replace_self(link)


def _above(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def leave_as_text(_: Sphinx, __: BuildEnvironment, node: addnodes.pending_xref, inside: nodes.Element) -> Any:
    """Return the name alone of a Python object that the reference does not list, such as an error."""
    return inside if node.get("refdomain") == "py" else None


def take_no_type(_: Sphinx, what: str, __: str, ___: Any, ____: Any, lines: list[str]) -> None:
    """Keep napoleon from taking what stands before a colon in a property's first line for its type.

    It looks at the first line alone, so that a comment is put there.
    """
    if what == "property":
        lines[:0] = ["..", ""]


def choose_settings(_: Sphinx, config: Config) -> None:
    """Have docstrings read as this package writes them: `code` between single backticks, sections as fields."""
    config.default_role = "literal"
    config.toc_object_entries = False
    config.autodoc_typehints = "none"
    config.napoleon_numpy_docstring = False
    config.napoleon_custom_sections = [("Attributes", "params_style")]


def setup(app: Sphinx) -> None:
    """Register autodoc, the directive and the transform."""
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("config-inited", choose_settings)
    app.connect("autodoc-process-docstring", take_no_type, priority=400)
    app.add_directive("api", ApiDirective)
    app.add_post_transform(LinkCode)
    app.connect("missing-reference", leave_as_text)
    load_where(app, ('<dl class="py ',), (STYLE,))
