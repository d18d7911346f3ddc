"""What a page's text names by expressions, and the cells that evaluate it."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell

from tinytorch.prose import (
    Number,
    Outcome,
    code_of,
    is_of_text,
    is_reference,
    is_simple,
    key_of,
    parts,
    record_name,
    split_words,
    with_cells,
)

TEXT = """\
It took {measured}`waits.near`, then {measured}`waits.far / waits.near | far over near`.
No numbers: `{measured}` and ``{measured}`x` ``; a name: {measured}`machine:clock`, {measured}`far-cycles`.

::::{outcome} columns
:name: order

:::slower = above 1.5
So {measured}`square[4112].rows` is better.
:::
:::no-difference = 0.8 to 1.5
It is all the same.
:::
:::open
Nobody knows.
:::
::::

```python
{measured}`code`
```

```{claim} key
{measured}`claimed`
```

Behind a claim {measured}`behind`.
"""


def test_parts_are_found_outside_of_code_with_their_lines() -> None:
    numbers = [one for one in parts(TEXT, 10) if isinstance(one, Number)]
    assert [(one.line, one.expression, one.words) for one in numbers] == [
        (10, "waits.near", ""),
        (10, "waits.far / waits.near", "far over near"),
        (17, "square[4112].rows", ""),
        (32, "claimed", ""),
        (35, "behind", ""),
    ]


def test_an_outcome_has_its_name_and_a_text_for_each_end() -> None:
    (outcome,) = [one for one in parts(TEXT) if isinstance(one, Outcome)]
    assert (outcome.line, outcome.expression, outcome.name) == (4, "columns", "order")
    assert [(arm.outcome, arm.ends, arm.lines) for arm in outcome.arms] == [
        ("slower", (1.5, None), ("So {measured}`square[4112].rows` is better.",)),
        ("no difference", (0.8, 1.5), ("It is all the same.",)),
        ("open", None, ("Nobody knows.",)),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "::::{outcome} x\nSo what.\n::::",
            "2: each text of an outcome stands between a line :::slower and a line :::",
        ),
        ("\n::::{outcome} x\n:::slower\nSo.\n::::", "3: the text of 'slower' has no line ::: at its end"),
        ("::::{outcome} x\n:name: y\n:::slower\n:::\n::::", "3: an empty line must stand behind :name:"),
        ("::::{outcome} x\n:::slower = over 3\nSo.\n:::\n::::", "2: the ends of an outcome are above 1.5, below 0.8"),
        ("::::{outcome} x\n:::slower = above a\nSo.\n:::\n::::", "not 'above a'"),
    ],
)
def test_a_malformed_outcome_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        list(parts(text))


@pytest.mark.parametrize(
    ("expression", "key"),
    [
        ("waits.far", "waits-far"),
        ('times["columns"] / times["rows"]', "times-columns-over-times-rows"),
        ("rows[0].gain - 1", "rows-0-gain-less-1"),
        ("by_bits[8].found", "by-bits-8-found"),
    ],
)
def test_a_record_is_named_by_its_expression(expression: str, key: str) -> None:
    assert key_of(expression) == key
    assert record_name(f"{expression} | words") == key


def test_layout_of_an_expression_does_not_change_its_record() -> None:
    assert key_of("a['b']/c") == key_of('a["b"]  /  c')


@pytest.mark.parametrize("reference", ["machine:clock", "far-cycles", "reference/api:x-y"])
def test_a_name_is_no_expression(reference: str) -> None:
    assert is_reference(reference)
    assert record_name(reference) == reference


@pytest.mark.parametrize(
    ("expression", "simple"),
    [
        ("a", True),
        ("a.b[0]['c'].d", True),
        ("a / b.c", True),
        ("a - 1", True),
        ("a / b / c", False),
        ("f(a)", False),
        ("a.f()", False),
        ("[a for a in b]", False),
        ("a if b else c", False),
        ("a < b", False),
    ],
)
def test_a_number_is_a_name_or_one_operation(expression: str, simple: bool) -> None:
    assert is_simple(expression) is simple


def test_a_cell_stands_behind_each_text_that_names_something() -> None:
    cells = [new_markdown_cell("{measured}`a`"), new_code_cell("b = 1"), new_markdown_cell("plain")]
    made, lines = with_cells(cells, [0, 5, 9])
    assert [is_of_text(cell) for cell in made] == [False, True, False, False, True]
    assert lines == [0, 0, 5, 9, 9]
    assert made[-1].source == "page.fill(globals())"  # for what a text names that a cell below it defines
    assert made[1].source == 'page.fill(\n    globals(),\n    "a",\n)\n'.rstrip()


def test_other_words_leave_the_cell_alone() -> None:
    before, after = list(parts(TEXT)), list(parts(TEXT.replace("So ", "Therefore ").replace("Nobody", "No one")))
    assert code_of(before) == code_of(after)
    assert code_of(before) != code_of(list(parts(TEXT.replace("waits.near`", "waits.next`"))))


@given(st.text(alphabet="abc{}`:measured|outcome =\n", max_size=200))
def test_any_text_is_read_or_refused_and_its_cell_is_python(text: str) -> None:
    try:
        found = list(parts(text))
    except ValueError:
        return
    ast.parse(code_of(found))


def test_words_stand_behind_a_bar() -> None:
    assert split_words("a / b | speedup | here") == ("a / b", "speedup | here")
