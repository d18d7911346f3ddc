"""Predictions, ``{predict} key``: the reader's guess is asked for before a result is shown, folded behind it.

The question is the body down to a line ``---``, the rest explains the answer, which is the record ``key``. With
``choices`` the record is a verdict or a claim, else a number. Without scripts the fold is all there is to open.
"""

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.transforms import DoctreeReadEvent, SphinxTransform
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.exhibits import Exhibit, Result
from measured_book.elements.nodes import Fold, LateHtml, add_nothing, load_where
from measured_book.elements.numbering import NumberReference
from measured_book.records.roles import Pending, Told, warn
from measured_book.sources.names import choices_fault, split_reference
from measured_book.state import state_of
from tinytorch.prose import record_name
from tinytorch.report.numbers import FRACTIONS, SCALES, Scale, format_record, interval_name
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json
from tinytorch.report.verdicts import DECIDED, WITHHELD, filled_text

STYLE, SCRIPT = "prediction.css", "prediction.js"
SEPARATOR = "---"
LABEL = "Predict before you look"
#: The unit that stands first where one can choose among prefixes: the answer's own would give it away.
ASKED_IN = {"s": "ms", "B": "MiB", "B/s": "GB/s", "FLOP": "MFLOP", "FLOP/s": "GFLOP/s", "OP/s": "GOP/s"}
#: Blocks from one that shows an answer to the next that is folded with it.
_APART = 2
_ANSWERS = (*NUMBER_KINDS, "verdict", "claim", ABSENT)


class Prediction(nodes.General, nodes.Element):
    """Group of question, form and answer. Attributes: ``label``, ``ident`` and ``reference``."""


def _open(self: Any, node: Prediction) -> None:
    ident = node["ident"]
    self.body.append(
        f'<div class="predict" role="group" aria-labelledby="{ident}-label">\n'
        f'<p class="predict-label" id="{ident}-label">{escape(node["label"])}</p>\n'
    )


def _close(self: Any, _: Prediction) -> None:
    self.body.append("</div>\n")


def _attributes(values: dict[str, Any]) -> str:
    return "".join(f' data-{name}="{escape(str(value))}"' for name, value in values.items() if value is not None)


def _answer_to(node: LateHtml, app: Sphinx, docname: str) -> tuple[Json | None, str | None]:
    """Return the record that answers a question, and why none does, or why the question does not fit it."""
    state, reference = state_of(app.env), node["reference"]
    record = state.find(reference, docname, *_ANSWERS)
    if record is None:
        fault = state.missing(reference, docname, "number, verdict or claim", *_ANSWERS)
        return None, fault and f"{{predict}}: {fault}"
    kind = "number" if record["kind"] in NUMBER_KINDS else record["kind"]
    fault = choices_fault(kind, reference, node["choices"])
    return (None if fault else record), fault


class PredictionForm(LateHtml):
    """Form that takes the guess; hidden until a script can judge it, and left out where nothing can.

    Attributes: ``reference``, ``choices`` and ``ident``, as `PredictionAnswer` has them.
    """

    def html(self, app: Sphinx, docname: str) -> str:
        """Return the form with all that is needed to judge a guess; warn if no record answers the question."""
        record, fault = _answer_to(self, app, docname)
        if fault:
            warn(fault, self)
        return "" if record is None or record["kind"] == ABSENT else form_html(record, self)


def form_html(record: Json, node: PredictionForm) -> str:
    """Return the form that takes a guess of the record, and the place of what is said to it."""
    form = _number_form(record, node) if record["kind"] in NUMBER_KINDS else _choice_form(record, node)
    return f'{form}\n<p class="predict-outcome" id="{node["ident"]}-outcome" role="status"></p>\n'


def _number_form(record: Json, node: PredictionForm) -> str:
    shown = format_record(record)
    interval = record["interval"]
    low, high = shown.reads
    least = record["value"] if shown.digits else low
    linear = record["unit"] in FRACTIONS or least <= 0
    values = {
        "key": node["reference"],
        # Where the two ends are shown, a guess is off from the nearer one.
        "value": json.dumps(record["value"]) if shown.digits else None,
        "low": json.dumps(low),
        "high": json.dumps(high),
        "right": "within the interval" if interval else "right",
        "scale": "linear" if linear else "log",
        "difference": "points" if record["unit"] in FRACTIONS else shown.unit,
        "factor": json.dumps(shown.scale.factor),
    }
    ident = node["ident"]
    return (
        f'<form class="predict-form" id="{ident}" hidden{_attributes(values)}>\n'
        f'<label for="{ident}-guess">Your guess</label>\n'
        f'<span class="predict-input"><input id="{ident}-guess" type="text" inputmode="decimal" autocomplete="off" '
        f'aria-describedby="{ident}-outcome"> {_unit_html(record["unit"], shown.scale)}</span>\n'
        '<button type="submit">Check</button>\n</form>'
    )


def _unit_html(unit: str, shown: Scale) -> str:
    """Return the guess's unit, or a choice of it where a prefix would tell the answer's size."""
    scales = SCALES.get(unit, ())
    if len(scales) < 2:
        return f'<span class="unit" data-factor="{json.dumps(shown.factor)}">{escape(shown.symbol)}</span>'
    options = "".join(
        f'<option value="{json.dumps(scale.factor)}"{" selected" if scale.symbol == ASKED_IN.get(unit) else ""}>'
        f"{escape(scale.symbol)}</option>"
        for scale in scales
    )
    return f'<select aria-label="Unit of your guess">{options}</select>'


def _choice_form(record: Json, node: PredictionForm) -> str:
    ident = node["ident"]
    word = _word(record)
    choices = "\n".join(
        f'<label><input type="radio" name="{ident}-guess" value="{escape(choice)}"> {escape(choice)}</label>'
        for choice in node["choices"]
    )
    return (
        f'<form class="predict-form predict-choice" id="{ident}" hidden'
        f"{_attributes({'key': node['reference'], 'word': word})}>\n"
        f'<fieldset><legend>Your guess</legend>\n{choices}\n</fieldset>\n<button type="submit">Check</button>\n</form>'
    )


def _word(record: Json) -> str:
    return str(record["word"] if record["kind"] == "verdict" else record["verdict"])


class Answer(nodes.General, nodes.Inline, nodes.TextElement):
    """Words that give an answer. Attribute: ``reference``."""


def _open_answer(self: Any, node: Answer) -> None:
    self.body.append(f'<span class="predict-result" data-key="{escape(node["reference"])}">')


def _close_answer(self: Any, _: Answer) -> None:
    self.body.append("</span>")


class PredictionAnswer(LateHtml):
    """Words that follow "It is": the reason of a verdict, the evidence of a claim, the interval of a number."""

    def made(self, app: Sphinx, docname: str) -> nodes.Node:
        """Return the words; none for what was not measured."""
        record, _ = _answer_to(self, app, docname)
        words = [] if record is None else self._words(app, record)
        return Answer("", "", *words, reference=self["reference"]) if words else nodes.Text("")

    def _words(self, app: Sphinx, record: Json) -> list[nodes.Node]:
        if record["kind"] == ABSENT:
            # A number's place says so itself, with the reason behind it.
            return [nodes.Text(f"This build did not measure it. {record['reason']}")] if self["choices"] else []
        if record["kind"] in NUMBER_KINDS:
            return _interval(record)
        page = record["page"]
        told = (
            str(record.get("because"))
            if record["kind"] == "verdict"
            else filled_text(record["evidence"], lambda key: _plain_number(app, key, page))
        )
        word = _word(record)
        if record["kind"] == "verdict" and record["outcome"] == WITHHELD:
            return [nodes.Text(f"{told[0].upper()}{told[1:].rstrip('.')}.")]
        if record["kind"] == "verdict":
            is_it = "It is " if record["outcome"] == DECIDED else "Found: "
            return [nodes.Text(is_it), _strong(word), nodes.Text(f". {told[0].upper()}{told[1:].rstrip('.')}.")]
        return [_strong(f"{word.capitalize()}."), nodes.Text(f" {told}")]


def _strong(word: str) -> nodes.strong:
    return nodes.strong("", word, classes=["predict-word"])


def _interval(record: Json) -> list[nodes.Node]:
    interval, shown = record["interval"], format_record(record)
    if not interval:
        return []
    ends = f" {shown.interval}" if shown.digits else ""
    return [nodes.Text(f" ({interval_name(interval['confidence'])}{ends})")]


def _plain_number(app: Sphinx, reference: str, page: str) -> str:
    record = state_of(app.env).find(reference, page, *NUMBER_KINDS)
    return format_record(record).text if record is not None else "what this build did not measure"


def _choices(text: str) -> list[str]:
    choices = [part.strip() for part in directives.unchanged_required(text).split("|")]
    if len(choices) < 2 or not all(choices) or len(set(choices)) < len(choices):
        raise ValueError(f"choices must be two or more different answers with | between them, not {text!r}")
    return choices


class PredictDirective(SphinxDirective):
    """``{predict} key``: a question, and behind a line ``---`` what explains its answer."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "choices": _choices,
        "label": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Return the question with its form and its folded answer."""
        try:
            reference = record_name(self.arguments[0])
        except ValueError as error:
            warn(f"{{predict}}: {error}", self.get_location())
            return []
        place = next((i for i, line in enumerate(self.content) if line.strip() == SEPARATOR), len(self.content))
        if not any(line.strip() for line in self.content[:place]):
            warn(f"{{predict}} {reference} has no question: write it above the line {SEPARATOR}", self.get_location())
            return []
        state_of(self.env).of(self.env.docname).uses.add(split_reference(reference, self.env.docname)[0])
        ident = f"predict-{self.env.new_serialno('predict') + 1}"
        about = {"reference": reference, "choices": self.options.get("choices"), "ident": ident}
        prediction = Prediction("", label=self.options.get("label", LABEL), ident=ident, reference=reference)
        self._parse(0, place, prediction)
        form = PredictionForm("", **about)
        answer = PredictionAnswer("", **about)
        for node in (form, answer):
            self.set_source_info(node)
        fold = Fold("", self._answered(reference, answer), summary="The answer", classes=["predict-answer"])
        self._parse(place + 1, len(self.content), fold)
        prediction += [form, fold]
        return [prediction]

    def _parse(self, start: int, stop: int, into: nodes.Element) -> None:
        self.state.nested_parse(self.content[start:stop], self.content_offset + start, into)

    def _answered(self, reference: str, answer: PredictionAnswer) -> nodes.paragraph:
        if self.options.get("choices"):
            return nodes.paragraph("", "", answer)
        number = Pending(role="measured", reference=reference, is_answer=True)
        self.set_source_info(number)
        return nodes.paragraph("", "It is ", number, answer, nodes.Text("."))


class FoldAnswers(SphinxTransform):
    """Folding of what shows the answer of a prediction behind it, until the reader guesses or asks for it.

    That is the first claim, figure or table with the claims right behind it, the paragraphs and outcomes that tell the
    number, and all from the first to the last one that speaks of the figure or table; what leads there stays in sight,
    and so does the figure of the chapter's result.
    """

    # As the exercises, which are arranged before the collectors look at the page.
    default_priority = DoctreeReadEvent.default_priority - 1

    def apply(self, **_: Any) -> None:
        """Fold behind every prediction of the page."""
        opened = {f"figure-{result['figure']}" for result in self.document.findall(Result)}
        for prediction in list(self.document.findall(Prediction)):
            siblings = prediction.parent.children
            first = siblings.index(prediction) + 1
            behind = siblings[first:]
            ends = (place for place, node in enumerate(behind) if isinstance(node, nodes.section | Prediction))
            behind = behind[: next(ends, len(behind))]
            outputs = [place for place, node in enumerate(behind) if _is_output(node)][:1]
            shown = {label for place in outputs for label in _labels(behind[place])}
            outputs = [] if shown & opened else outputs
            told = [place for place, node in enumerate(behind) if _tells(node, prediction["reference"])]
            # All texts of an outcome go together: any of them may be the one that is shown.
            outcomes = {node["reference"] for node in map(behind.__getitem__, told) if isinstance(node, Told)}
            told += [
                place for place, node in enumerate(behind) if isinstance(node, Told) and node["reference"] in outcomes
            ]
            # Claims that the cell of the first output tests stand right behind it.
            tested = [place for first in outputs for place in _claims_behind(behind, first)]
            spoken = [place for place, node in enumerate(behind) if _speaks_of(node, shown - opened)]
            answering = sorted({*outputs, *told, *tested, *spoken})
            if not answering:
                continue
            last = answering[0]
            for place in answering:
                last = place if place - last <= _APART else last
            last = max(last, *outputs, *spoken) if spoken else last
            inside = behind[answering[0] : last + 1]
            for node in inside:
                prediction.parent.remove(node)
            fold = Fold("", *inside, summary="Show what was measured", classes=["predict-later"])
            prediction.parent.insert(first + answering[0], fold)


def _claims_behind(blocks: Sequence[nodes.Node], place: int) -> Iterator[int]:
    """Yield the places of the claims that follow a block without another between them."""
    while place + 1 < len(blocks) and isinstance(blocks[place + 1], Pending):
        place += 1
        yield place


def _is_output(node: nodes.Node) -> bool:
    """Return whether the block is a claim, or shows a figure or table that its cell made."""
    if isinstance(node, Pending):
        return bool(node["role"] == "claim")
    return bool(_labels(node))


def _labels(node: nodes.Node) -> set[str]:
    """Return the labels of the figures and tables in a block."""
    return {each.label for each in node.findall(Exhibit)} if isinstance(node, nodes.Element) else set()


def _speaks_of(node: nodes.Node, labels: set[str]) -> bool:
    """Return whether the block refers to a figure or table of these labels."""
    return isinstance(node, nodes.Element) and any(each["label"] in labels for each in node.findall(NumberReference))


def _tells(node: nodes.Node, reference: str) -> bool:
    """Return whether the block holds the number or word that was asked for."""
    return isinstance(node, nodes.Element) and any(
        one["reference"] == reference for one in node.findall() if isinstance(one, Pending | Told)
    )


def setup(app: Sphinx) -> None:
    """Register the directive, its nodes and its files."""
    nothing = (add_nothing, add_nothing)
    app.add_node(Prediction, html=(_open, _close), text=nothing, latex=nothing)
    app.add_node(Answer, html=(_open_answer, _close_answer), text=nothing, latex=nothing)
    app.add_directive("predict", PredictDirective)
    app.add_transform(FoldAnswers)
    load_where(app, ('class="predict"',), (STYLE,), (SCRIPT,))
