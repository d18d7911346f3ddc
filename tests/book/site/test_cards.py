"""What is on the card of a page: its first question that fits, with the value that was measured."""

import io

import numpy as np
from docutils import nodes
from measured_book.records.predictions import Prediction
from measured_book.site.cards import Finding, claims_of, draw, finding_of
from measured_book.state import BookState, PageRecords
from PIL import Image

from tinytorch.perf.measuring import Counted
from tinytorch.report.numbers import NO_BREAK, number_body


def question(key: str, *words: nodes.Node) -> Prediction:
    return Prediction("", nodes.paragraph("", "", *words), label="", ident="", reference=key)


def book(**values: int) -> BookState:
    state = BookState()
    records = {key: {"key": key} | number_body(key, Counted(value, "B", key)) for key, value in values.items()}
    state.of("page").records = PageRecords("page", records)
    return state


def page(*questions: Prediction) -> nodes.document:
    document = nodes.document(None, None)  # type: ignore[arg-type]
    document.extend(questions)
    return document


def test_the_first_question_of_words_that_fit_is_asked_without_its_aside() -> None:
    unknown, long = question("none", nodes.Text("Which?")), question("b", nodes.Text("word " * 40))
    formula = question("b", nodes.Text("How large is "), nodes.math("", "x"))
    fits = question("b", nodes.Text("How large is it? (2 means twice)"))
    found = finding_of(book(b=3, c=4), "page", page(unknown, long, formula, fits, question("c", nodes.Text("Later?"))))
    assert found == Finding(f"3{NO_BREAK}B", "How large is it?")
    assert finding_of(book(b=3), "page", page(formula)) is None


def test_the_front_page_counts_claims_that_did_not_hold() -> None:
    state = book()
    assert claims_of(state) is None
    verdicts = ("refuted", "supported", "refuted")
    records = {str(at): {"kind": "claim", "verdict": verdict} for at, verdict in enumerate(verdicts)}
    state.of("page").records = PageRecords("page", records)
    found = claims_of(state)
    assert found is not None
    assert found.value == "2 of 3"


def test_all_that_is_on_a_card_is_within_its_edges() -> None:
    drawn = draw(
        "Book", "A title that is so long that it takes two lines of the card", Finding("64×", "How much? " * 15)
    )
    with Image.open(io.BytesIO(drawn)) as picture:
        pixels = np.asarray(picture.convert("L"))
    assert pixels.shape == (630, 1200)
    assert pixels[-20:, 40:].min() == pixels[:, -20:].min() == 255
