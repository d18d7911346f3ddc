"""What is folded behind a prediction: the first output and what tells the number, and nothing that leads there."""

from docutils import nodes
from docutils.utils import new_document
from measured_book.elements.exhibits import Exhibit, Result
from measured_book.elements.nodes import Fold
from measured_book.elements.numbering import NumberReference
from measured_book.records.predictions import FoldAnswers, Prediction
from measured_book.records.roles import Pending, Told


def said(text: str, *numbers: str) -> nodes.paragraph:
    return nodes.paragraph("", text, *(Pending(role="measured", reference=number) for number in numbers))


def folded(*behind: nodes.Node, result: str = "other") -> list[str]:
    """Return what stands behind a prediction of `gain` in a chapter with a result, what is folded in brackets."""
    document = new_document("page")
    section = nodes.section("", Prediction("", reference="gain"), *behind)
    document += [Result("", figure=result), section]
    FoldAnswers(document).apply()
    shown = []
    for node in section.children[1:]:
        inside = node.children if isinstance(node, Fold) else []
        shown.append(f"[{' '.join(one.astext()[:1] for one in inside)}]" if inside else node.astext()[:1])
    return shown


def told(text: str, reference: str, *numbers: str) -> Told:
    return Told("", said(text, *numbers), reference=reference, expression=reference, outcome=text)


def figure() -> nodes.container:
    return nodes.container("", Exhibit("", nodes.Text("F"), kind="figure", key="a"))


def test_what_leads_to_the_answer_stays() -> None:
    assert folded(said("a"), said("b"), figure(), said("c", "gain"), said("d")) == ["a", "b", "[F c]", "d"]


def test_a_second_output_and_another_number_stay() -> None:
    assert folded(figure(), said("a", "other"), figure()) == ["[F]", "a", "F"]


def test_another_section_ends_it_and_another_prediction_has_its_own() -> None:
    assert folded(nodes.section("", said("a", "gain"))) == ["a"]
    assert folded(said("a"), Prediction("", said("b", "gain"), reference="gain"), figure()) == ["a", "b", "[F]"]


def test_where_nothing_tells_nothing_is_folded() -> None:
    assert folded(said("a"), said("b", "other")) == ["a", "b"]


def test_all_texts_of_an_outcome_that_is_asked_for_or_tells_the_number_are_folded() -> None:
    assert folded(said("a"), told("b", "gain"), told("c", "gain"), told("d", "other")) == ["a", "[b c]", "d"]
    assert folded(told("a", "block"), told("b", "block", "gain"), told("c", "other")) == ["[a b]", "c"]


def of_figure(text: str) -> nodes.paragraph:
    return nodes.paragraph("", text, NumberReference(page="page", label="figure-a"))


def test_no_sentence_beside_a_folded_figure_speaks_of_it() -> None:
    assert folded(figure(), *map(said, "abc"), of_figure("d"), said("e")) == ["[F a b c d]", "e"]
    assert folded(said("a"), of_figure("b"), *map(said, "cde"), figure(), said("f")) == ["a", "[b c d e F]", "f"]


def test_the_figure_of_the_result_and_what_speaks_of_it_stay_in_sight() -> None:
    shown = folded(figure(), said("a", "gain"), of_figure("b"), result="a")
    assert shown == ["F", "[a]", "b"]
