"""Every page that measures begins alike, and what is missing is found."""

import pytest
from page_heads import check_head, title_fault

GOOD = """(page)=
# Title

A question?

| You need | You get | Time |
|---|---|---|
| nothing | an answer | 20 minutes |

**What you will learn.**
To ask.

**What you will build.**
Something.

**What this chapter leaves out.**
The rest.

```{code-cell} python3
page = Page("page")
```

## Exercises
"""


def test_a_good_head_lacks_nothing() -> None:
    assert list(check_head(GOOD)) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# Title\n", "", "no title"),
        ("A question?\n", "", "add a sentence that asks"),
        ("| You need |", "| Needs |", "add a table"),
        ("| nothing | an answer | 20 minutes |\n", "", "add a table"),
        ("20 minutes", "a while", "must say minutes"),
        ("**What you will learn.**", "What you will learn.", "begins with a line **What you will learn.**"),
        ("To ask.\n", "", "begins with a line **What you will learn.**"),
        ("**What you will build.**", "", "begins with a line **What you will build.**"),
        ("**What this chapter leaves out.**", "", "leaves out"),
    ],
)
def test_what_is_missing_is_said(old: str, new: str, message: str) -> None:
    assert any(message in said for _, said in check_head(GOOD.replace(old, new, 1)))


@pytest.mark.parametrize(("letters", "over"), [(59, None), (60, "1 letters too long"), (80, "21 letters too long")])
def test_a_title_fits_with_the_name_of_the_site_into_what_browsers_show(letters: int, over: str | None) -> None:
    said = title_fault("x" * letters)
    assert said is None if over is None else over in str(said)


def test_a_head_behind_the_first_cell_is_none() -> None:
    cell = '```{code-cell} python3\npage = Page("page")\n```\n'
    assert [line for line, _ in check_head(GOOD.replace("A question?", cell))] == [2] * 4


def test_pages_without_records_and_without_exercises_may_do_with_less() -> None:
    assert list(check_head("# Ledger\n\nText.\n")) == []
    short = GOOD.replace("**What you will build.**", "").replace("**What this chapter leaves out.**", "")
    assert list(check_head(short.replace("## Exercises", "## End"))) == []
