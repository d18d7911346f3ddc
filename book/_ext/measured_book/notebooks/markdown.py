"""Plain Markdown of a page's MyST text, as any notebook shows it: no roles, no directives, no files beside it.

In the place of numbers, verdicts, claims and links stand the book's values, or in a notebook to run, their names.
"""

import base64
import re
from html import escape
from pathlib import Path

from sphinx.environment import BuildEnvironment

from measured_book.elements.drawings import drawing_alone
from measured_book.elements.numbering import named, page_numbers
from measured_book.sources.myst import Fence, fences, object_source
from measured_book.sources.names import split_reference
from measured_book.state import state_of
from tinytorch.prose import SPAN, Outcome, arms, outcome_key, record_name, split_words
from tinytorch.report.expressions import UNMEASURED
from tinytorch.report.kinds import NOT_MEASURED, of_kind
from tinytorch.report.numbers import number_text
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json
from tinytorch.report.verdicts import ICONS, filled_text

_TITLED = re.compile(r"(?P<title>.+?)\s*<(?P<target>[^>]+)>", re.DOTALL)
_LABEL = re.compile(r"^\([\w./-]+\)=\s*$")
_EQUATION_LABEL = re.compile(r"^(\s*\$\$)\s*\([\w-]+\)\s*$")
#: Directives that frame prose, which stays without the frame.
_FRAMES = ("container", "div", "tab-set", "grid", "grid-item", "only")
_NAMED = ("note", "tip", "hint", "important", "warning", "caution", "attention", "danger", "seealso")


class Renderer:
    """Renderer of what on a page is made of records or of other pages, for a notebook that is read as it ran."""

    def __init__(self, env: BuildEnvironment, docname: str) -> None:
        self.env, self.docname = env, docname

    def record(self, reference: str, *kinds: str) -> Json | None:
        """Return the record that the page names by ``reference``."""
        return state_of(self.env).find(reference, self.docname, *kinds)

    def drawing(self, key: str) -> str:
        """Return the page's drawing as an SVG file's text; empty for one of which something is missing."""
        known = state_of(self.env).of(self.docname).drawings
        return drawing_alone(self.env, self.docname, key) if key in known else ""

    def file(self, path: str) -> Path:
        """Return where a file is that the page includes."""
        return (Path(self.env.doc2path(self.docname)).parent / path).resolve()

    def role(self, name: str, text: str) -> str:
        """Return what stands for the role ``name`` around ``text``; of one that is not known, its text."""
        if name == "measured":
            return self.number(record_name(text), split_words(text)[0])
        if name == "quoted":
            number, _, source = (part.strip() for part in text.partition("|"))
            found = _TITLED.fullmatch(source)
            return f"{number} ([{found['title']}]({found['target']}))" if found else f"{number} ({source})"
        if name in ("numref", "eq"):
            label = f"equation-{text.strip()}" if name == "eq" else text.strip()
            page, label = split_reference(label, self.docname)
            found_number = page_numbers(self.env, page).get(label)
            return named(label, found_number) if found_number else label
        titled = _TITLED.fullmatch(text)
        if name == "math":
            return f"${text}$"
        if name == "ref":
            return f"*{titled['title'] if titled else self.title(text.strip())}*"
        return titled["title"] if titled else text

    def title(self, label: str) -> str:
        """Return the title of the section that has the label, or the label where no section has it."""
        labels: dict[str, tuple[str, str, str]] = self.env.domaindata["std"]["labels"]
        return labels[label.lower()][2] if label.lower() in labels else label

    def number(self, reference: str, written: str) -> str:
        """Return what stands for a number or a verdict, which the page has as ``written``."""
        record = self.record(reference, *NUMBER_KINDS, "verdict", ABSENT)
        return f"`{written}`" if record is None else of_kind(record).markdown()

    def outcome(self, reference: str) -> str | None:
        """Return the outcome whose text the notebook shows; None where a cell prints it."""
        record = self.record(reference, "verdict", ABSENT)
        return str(record.get("text", UNMEASURED)) if record is not None else UNMEASURED

    def claim(self, reference: str) -> str:
        """Return a claim with its verdict and evidence."""
        record = self.record(reference, "claim", ABSENT)
        if record is None:
            return f"**Claim** `{reference}`"
        if record["kind"] == ABSENT:
            return f"**Claim** `{reference}`\n\nNot tested in this build: {record['reason'].rstrip('.')}."
        evidence = filled_text(record["evidence"], lambda key: self._evidence(key, record["page"]))
        source = f"[{record['source']}]({record['source_url']})" if record["source_url"] else record["source"]
        verdict = f"**Claim: {ICONS[record['verdict']]} {record['verdict']}**"
        return f"{verdict}\n\n{record['statement']}\n\n{evidence}\n\nSource: {source}"

    def _evidence(self, reference: str, page: str) -> str:
        """Return a number that a text of ``page`` names, with its interval."""
        record = state_of(self.env).find(reference, page, *NUMBER_KINDS, ABSENT)
        if record is None:
            return reference
        return NOT_MEASURED.lower() if record["kind"] == ABSENT else number_text(record)

    def answer(self, reference: str) -> str:
        """Return the sentence that gives what a prediction asks for."""
        return f"It is {self.number(reference, reference)}."


class ReaderRenderer(Renderer):
    """Renderer of where a reader who runs the notebook finds its numbers; another page's are the book's."""

    def _is_here(self, reference: str) -> bool:
        return split_reference(reference, self.docname)[0] == self.docname

    def number(self, reference: str, written: str) -> str:
        """Return a number's name, or the book's value of another page's."""
        return f"`{written}`" if self._is_here(reference) else f"{super().number(reference, written)} in the book"

    def claim(self, reference: str) -> str:
        """Return what is claimed; the verdict is the reader's machine's."""
        record = self.record(reference, "claim")
        if record is None:
            return f"**Claim** `{reference}`"
        return f"**Claim**\n\n{record['statement']}\n\nThe cell that records `{reference}` gives its verdict here."

    def outcome(self, reference: str) -> str | None:
        """Return the book's outcome of another page, and None of this one."""
        return None if self._is_here(reference) else super().outcome(reference)

    def answer(self, reference: str) -> str:
        """Return where the answer of a prediction is."""
        return f"Run the cells below: they give `{reference}`."


class ExerciseRenderer(ReaderRenderer):
    """Renderer of a notebook that measures nothing: the page's own numbers are the book's, too."""

    def _is_here(self, reference: str) -> bool:  # noqa: ARG002 - the same for every reference
        return False


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _folded(summary: str, text: str) -> str:
    """Return a part that opens; the empty lines make notebooks read its inside as Markdown."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text.strip()}\n\n</details>"


def _included(directive: Fence, renderer: Renderer) -> str:
    path = renderer.file(directive.argument)
    name = directive.options.get("pyobject")
    text = object_source(path, name) if name else path.read_text("utf-8-sig").rstrip()
    return f"```{directive.options.get('language', 'python')}\n{text}\n```"


def _drawn(directive: Fence, renderer: Renderer) -> str:
    """Return a drawing as a picture that the notebook holds itself, with its caption below."""
    data = base64.b64encode(renderer.drawing(directive.argument).encode()).decode()
    caption = plain_markdown("\n".join(directive.body), renderer).strip()
    picture = f'<img alt="{escape(directive.options.get("alt", ""))}" src="data:image/svg+xml;base64,{data}">'
    return f"{picture}\n\n{caption}"


def _prediction(directive: Fence, renderer: Renderer) -> str:
    body = directive.body
    place = next((i for i, line in enumerate(body) if line.strip() == "---"), len(body))
    question = plain_markdown("\n".join(body[:place]), renderer).strip()
    choices = directive.options.get("choices", "")
    offered = f"\n\nYour guess: {', '.join(part.strip() for part in choices.split('|'))}?" if choices else ""
    behind = plain_markdown("\n".join(body[place + 1 :]), renderer).strip()
    answer = f"{renderer.answer(record_name(directive.argument))}\n\n{behind}".strip()
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
    if name == "drawing":
        return _drawn(directive, renderer)
    if name == "math":
        return f"$$\n{inner.strip()}\n$$"
    if name in ("code-block", "code"):
        return f"```{directive.argument}\n{inner}\n```"
    if name == "outcome":
        return _chosen(directive, renderer)
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


def _chosen(directive: Fence, renderer: Renderer) -> str:
    """Return the text of the outcome that was found; where a reader's machine finds it, that a cell prints it."""
    found = renderer.outcome(directive.options.get("name") or outcome_key(directive.argument))
    if found is None:
        return "*The cell below prints what your machine finds.*"
    texts = {arm.outcome: arm.lines for arm in arms(directive.body, 0)}
    return plain_markdown("\n".join(texts.get(found, ())), renderer)


def texts_of(outcome: Outcome, renderer: Renderer) -> dict[str, str]:
    """Return the plain text of each outcome, for a cell to print."""
    return {arm.outcome: plain_markdown("\n".join(arm.lines), renderer).strip() for arm in outcome.arms}


def _prose(lines: list[str], renderer: Renderer) -> list[str]:
    """Return lines of prose without labels, with what the renderer has for their roles."""

    def rendered(found: re.Match[str]) -> str:
        return renderer.role(found["role"], found["text"]) if found["role"] else found[0]

    return [SPAN.sub(rendered, _EQUATION_LABEL.sub(r"\1", line)) for line in lines if not _LABEL.match(line)]


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
