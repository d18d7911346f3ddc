"""What a reader is asked, on built pages: predictions with their answers, exercises with their solutions."""

import shutil
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from tests.book.small_book import HEADER, Book, Build, one
from tests.book.sphinx_process import SphinxProcess

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
CELL = """
```{code-cell} ipython3
:tags: [remove-cell]
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.measuring.statistics import Stated
from tinytorch.report import Page
page = Page("index")
told = Conditions(statistic="median")
page.number("gain", Measurement("speedup", (1.91,) * 8, "", told, law=Stated(1.91, 1.8, 2.05)))
page.number("latency", Measurement("a run", (1.12e-3,) * 7, "s", told, law=Stated(1.12e-3, 1e-3, 1.3e-3)))
page.number("share", Counted(0.4, "%", "a share"))
page.number("parameters", 12345, unit="parameters", what="weights and biases")
gain = Measurement("its gain", (1.91,) * 8, "", told, law=Stated(1.91, 1.8, 2.05))
withheld = Judgement(Verdict.WITHHELD)
page.test("quick", gain, above=3)
other = Unmeasured("The other engine is not here.")
```
"""

QUESTIONS = """
:::{predict} gain
How many times faster?
---
Because of {measured}`latency`.
:::

:::{predict} latency
:label: Question 1
How long does *a run* take?
:::

:::{predict} share
Which share?
:::

:::{predict} parameters
How many parameters?
:::

:::{predict} bottle-neck
:choices: faster | slower | the same
Faster or slower?
---
So it is.
:::

:::{predict} quick
:choices: supported | refuted
Does the claim hold?
:::

:::{predict} other
And the other?
:::

:::{predict} other-verdict
:choices: faster | slower
And the other's verdict?
:::

:::{predict} with-held
:choices: supported | refuted
And what could not be told?
:::

::::{outcome} gain
:name: bottle-neck

:::slower = above 1.5
It is slower.
:::
:::faster = below 0.7
It is faster.
:::
:::the same = 0.7 to 1.5
It is the same.
:::
:::open
Nobody knows.
:::
::::

::::{outcome} withheld
:name: with-held

:::supported
It is.
:::
:::refuted
It is not.
:::
:::open
Nobody knows.
:::
::::

::::{outcome} other
:name: other-verdict

:::faster
It is faster.
:::
::::

```{claim} quick
:source: Lore of old

> So.

Quick.

It took {measured}`latency`.
```
"""

EXERCISE = """
## Exercises

**1. Add.** Write `add(a, b)`.

```{code-cell} ipython3
:tags: [solution]
def add(a, b):
    return a + b
```

```{code-cell} ipython3
:tags: [check]
"add: passed" if add(2, 3) == 5 else 1 / 0
```

Behind it.
"""

#: The tags the wrong way round. The cells are those of before, so that nothing runs again.
UNPAIRED = EXERCISE.replace("[check]", "[later]").replace("[solution]", "[check]").replace("[later]", "[solution]")
UNPAIRED_WHY = ["needs one tagged check right behind it", "needs one tagged solution right before it"]

#: Each of these is wrong, and the build says why.
WRONG = {
    ":::{predict} gone\nHow many?\n:::\n": "page 'index' has no number, verdict or claim 'gone'",
    ":::{predict} gain\n:choices: a | b\nWhich?\n:::\n": "{predict} gain asks for a number, so it takes no :choices:",
    ":::{predict} bottle-neck\nWhich?\n:::\n": "{predict} bottle-neck asks for a verdict, so it needs :choices:",
    ":::{predict} gain\n---\nBecause.\n:::\n": "has no question",
    ":::{predict} bottle-neck\n:choices: one\nWhich?\n:::\n": "two or more different answers",
}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> tuple[Build, Build]:
    """Return what was built of a page that is right, and then of one that is wrong in every way."""
    book = Book(tmp_path_factory.mktemp("questions"), sphinx)
    with (book.source / "conf.py").open("a", encoding="utf-8") as conf:
        conf.write('html_static_path = ["_static"]\n')
    (book.source / "_static").mkdir()
    for name in ("prediction.css", "prediction.js", "exercise.css"):
        shutil.copy(STATIC / name, book.source / "_static" / name)
    book.write("index", HEADER + "\n# Page\n" + CELL + QUESTIONS + EXERCISE)
    right = book.build()
    outcomes = QUESTIONS[QUESTIONS.index("::::{outcome} gain") : QUESTIONS.index("```{claim} quick")]
    book.write("index", HEADER + "\n# Page\n" + CELL + "\n".join(WRONG) + outcomes + UNPAIRED)
    return right, book.build()


@pytest.fixture(scope="module")
def page(builds: tuple[Build, Build]) -> BeautifulSoup:
    """Return the page that is right."""
    assert builds[0].code == 0, builds[0].output
    return builds[0].page("index.html")


def _answer(page: BeautifulSoup, number: int) -> str:
    return " ".join(page.select("div.predict")[number - 1].select("details p")[0].get_text().split())


def test_the_question_is_seen_and_the_answer_folded(page: BeautifulSoup) -> None:
    first = page.select("div.predict")[0]
    assert "How many times faster?" in first.get_text()
    (fold,) = first.select("details.predict-answer")
    assert not fold.has_attr("open")
    assert "interval 1.80 to 2.05" in _answer(page, 1)
    assert "Because of" in fold.get_text()
    assert [form.has_attr("hidden") and not form.has_attr("action") for form in first.select("form")] == [True]
    assert page.select(".predict-label")[1].get_text() == "Question 1"


@pytest.mark.parametrize(
    ("number", "begins"),
    [
        (1, "It is 1.91×"),
        (5, "It is slower. Its gain is 1.9"),
        (6, "Refuted. It took 1.1"),
        (9, "Other programs were using the machine during this measurement, so this build does not decide it."),
    ],
)
def test_an_answer_gives_the_number_or_the_verdict_with_its_reason(
    page: BeautifulSoup, number: int, begins: str
) -> None:
    assert _answer(page, number).startswith(begins)


def test_what_was_not_measured_says_so_and_asks_for_no_guess(page: BeautifulSoup) -> None:
    for question in page.select("div.predict")[6:8]:
        assert not question.select("form")
        assert "The other engine is not here" in question.get_text()
        assert "not measure" in one(question, "details").get_text()


def test_the_units_order_does_not_give_the_answer_away(page: BeautifulSoup) -> None:
    options = page.select("div.predict")[1].select("option")
    assert [option.get_text() for option in options] == ["ns", "µs", "ms", "s", "min"]
    assert [option.get_text() for option in options if option.has_attr("selected")] == ["ms"]


def test_the_page_shows_the_empty_function_and_its_check_and_folds_the_solution(page: BeautifulSoup) -> None:
    exercise = one(page, "div.exercise")
    code = [block.get_text().strip() for block in exercise.select("div.highlight")]
    assert code[0] == 'def add(a, b):\n    raise NotImplementedError("write add")'
    assert code[1].startswith('"add: passed" if add(2, 3)')
    fold = one(page, "div.exercise details.exercise-solution")
    assert fold.select("div.highlight")[0].get_text().strip() == "def add(a, b):\n    return a + b"
    assert "add: passed" in fold.select(".cell_output")[0].get_text()
    assert len(exercise.select(".cell_output")) == 1
    assert not fold.has_attr("open")


def test_what_follows_stays_behind_and_the_style_is_loaded(page: BeautifulSoup) -> None:
    assert one(page, "div.exercise + *").get_text() == "Behind it."
    assert page.select("link[rel=stylesheet][href*='exercise.css']")


def test_what_is_wrong_fails_the_build_and_is_told(builds: tuple[Build, Build]) -> None:
    assert builds[1].code != 0
    assert [why for why in [*WRONG.values(), *UNPAIRED_WHY] if why not in builds[1].output] == []
