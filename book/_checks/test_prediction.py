"""A browser judges guesses: numbers with and without intervals, units, choices; with storage and without."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_page import made_page, opened_page
from measured_book.records.predictions import PredictionForm, form_html
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from tests.report.made_measurements import bounded
from tinytorch.perf.measuring import Counted
from tinytorch.report.numbers import number_body

NOT_APP: Any = SimpleNamespace(env=SimpleNamespace())


def _number(value: Any, unit: str | None = None) -> dict[str, Any]:
    return number_body("key", value, unit=unit, what=unit and "a count")


RECORDS: list[dict[str, Any]] = [
    _number(bounded(1.91, 1.8, 2.05)),
    _number(bounded(1.12e-3, 1.0e-3, 1.3e-3, "s")),
    _number(Counted(0.4, "%", "a share")),
    _number(12345, "parameters"),
    {"kind": "verdict", "word": "slower"},
    _number(bounded(1.05, 0.905, 9.0)),
    _number(bounded(0.0, -0.006, 0.012, "points")),
]


def _question(number: int, record: dict[str, Any]) -> str:
    choices = ["faster", "slower", "the same"] if record["kind"] == "verdict" else None
    form = PredictionForm("", reference="key", choices=choices, ident=f"predict-{number}")
    answer = '<details class="fold predict-answer"><summary>The answer</summary><p>So.</p></details>'
    return f'<div class="predict">{form_html(record, form)}{answer}</div>'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page of questions, one of each kind."""
    questions = "\n".join(_question(number, record) for number, record in enumerate(RECORDS))
    questions += '<details class="fold predict-later"><summary>Show</summary><p>A figure.</p></details>'
    questions += (
        '<div class="page-tools"></div><details class="fold exercise-solution"><summary>A solution</summary></details>'
    )
    return made_page(tmp_path_factory.mktemp("predictions"), [], ["prediction.js"], questions)


@pytest.fixture(scope="module")
def tab(browser: Browser, site: Path) -> Iterator[Tab]:
    """Return the page of questions, opened as a file."""
    opened = browser.new_page()
    opened.goto(site.as_uri())
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("number", "guess", "said"),
    [
        (1, "4×", "You said 4×: too high, by a factor of 2.1."),
        (1, "1.9", "within the interval"),
        (1, "0.5", "too low, by a factor of 3.8"),
        (1, "2.1", "too high, by 9.9 %"),
        (1, "-1", "too low, because the answer is above zero"),
        (2, "1.12", "within the interval"),
        (2, "11.2", "too high, by a factor of 10"),
        (3, "52", "too high, by 12 points"),
        (3, "40%", ": right"),
        (4, "12,345", ": right"),
        (4, "12345", ": right"),
        (4, "1e6", "too high, by a factor of 81"),
        (6, "0.9", "You said 0.9×: within the interval."),
        (6, "9", "within the interval"),
        (6, "18", "too high, by a factor of 2."),
        (6, "0.45", "too low, by a factor of 2."),
        (7, "0", ": within the interval"),
        (7, "-2", "too low, by 1.4 points"),
        (7, "1.2", "within the interval"),
    ],
)
def test_a_guess_is_judged(tab: Tab, number: int, guess: str, said: str) -> None:
    question = tab.locator("div.predict").nth(number - 1)
    question.locator("input").fill(guess)
    question.locator("input").press("Enter")
    assert said in question.get_by_role("status").inner_text()
    assert question.locator("details").get_attribute("open") is not None


def test_the_unit_chosen_counts(tab: Tab) -> None:
    question = tab.locator("div.predict").nth(1)
    question.locator("input").fill("1120")
    question.locator("select").select_option(label="µs")
    question.get_by_role("button", name="Check").click()
    assert "within the interval" in question.get_by_role("status").inner_text()
    question.locator("select").select_option(label="ms")


@pytest.mark.parametrize("guess", ["", "fast", "1.2.3", "Infinity"])
def test_what_is_no_number_is_asked_for_again(tab: Tab, guess: str) -> None:
    question = tab.locator("div.predict").nth(3)
    question.locator("input").fill(guess)
    question.locator("input").press("Enter")
    assert question.get_by_role("status").inner_text() == "Type a number, such as 2.5."
    assert question.locator("input").get_attribute("aria-invalid") == "true"


def test_a_choice_is_judged_and_a_reload_keeps_it(tab: Tab) -> None:
    question = tab.locator("div.predict").nth(4)
    said, check = question.get_by_role("status"), question.get_by_role("button", name="Check")
    check.click()
    assert said.inner_text() == "Choose one of the answers."
    question.get_by_label("faster").check()
    check.click()
    assert said.inner_text() == "You said “faster”, but this build found a different answer."
    question.get_by_label("slower").check()
    check.click()
    tab.reload()
    assert said.inner_text() == "You said “slower”: right."
    assert question.get_by_label("slower").is_checked()


def test_without_storage_all_but_the_memory_works(browser: Browser, site: Path) -> None:
    other = browser.new_page()
    errors: list[str] = []
    other.on("pageerror", lambda error: errors.append(str(error)))
    other.add_init_script("Object.defineProperty(window, 'sessionStorage', {get() { throw new Error('blocked'); }});")
    other.goto(site.as_uri())
    other.locator("div.predict input").first.fill("1.9")
    other.locator("div.predict input").first.press("Enter")
    assert "within" in other.locator("div.predict").first.get_by_role("status").inner_text()
    assert errors == []
    other.close()


def test_paper_shows_question_and_answer(tab: Tab) -> None:
    tab.evaluate("document.querySelector('details.fold').open = false")
    closed = tab.locator("details.fold:not([open])").count()
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details.fold:not([open])").count() == 0
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details.fold:not([open])").count() == closed


def test_without_scripts_the_answer_can_be_opened_and_no_form_is_seen(browser: Browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(site.as_uri())
    assert not plain.locator("form").first.is_visible()
    assert not plain.get_by_text("So.").first.is_visible()
    plain.locator("summary").first.click()
    assert plain.get_by_text("So.").first.is_visible()
    context.close()


def test_all_answers_stand_open_on_each_page_for_who_chose_so_and_solutions_stay_closed(
    browser: Browser, site: Path
) -> None:
    with opened_page(browser, site) as page:
        answers, figure = page.locator("details.predict-answer"), page.get_by_text("A figure.")
        page.get_by_label("Just show me").check()
        assert all(answer.get_attribute("open") is not None for answer in answers.all())
        assert figure.is_visible()
        page.reload()
        assert page.get_by_label("Just show me").is_checked()
        assert figure.is_visible()
        assert page.locator("details.exercise-solution[open]").count() == 0
        page.locator("div.predict input").first.fill("1.9")
        page.locator("div.predict input").first.press("Enter")
        page.get_by_label("Just show me").press("ArrowLeft")
        assert page.get_by_label("Guess first").is_checked()
        assert page.locator("details.predict-answer[open]").count() == 1, "the one that was guessed"
        page.reload()
        assert not figure.is_visible()
