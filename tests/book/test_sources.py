"""What the rules of the chapters' sources find: typed numbers, hidden logic, half an exercise, heads without parts."""

import pytest
from sources import check_head, check_module, check_source, hidden_logic, read_source, title_fault

CELL = "```{code-cell} ipython3\n%s\n```\n"


def messages(text: str) -> list[str]:
    return [problem.message for problem in check_source(text)]


@pytest.mark.parametrize(
    "prose",
    [
        "It takes 1.2 ms here.",
        "It is 3.5× faster.",
        "It took 12 minutes.",
        "About 73 % of the time.",
        "About 7.5 % of the time.",
        "It reaches 12 GFLOP/s.",
        "It serves 600,000 images per second.",
        "It writes 60 tokens a second.",
        "It reads 12 bytes per token.",
        "A 2-second pause.",
        "It is 64 times as fast.",
        "It costs 1.5 times as long a call.",
        "It made 12 GFLOPs.",
        "| op | 12 ms |",
        "| op | ns |\n|---|---|\n| half | 7.7 |",
        "| op | time (ns) |\n|---|---|\n| half | 7 |",
        "| op | half |\n|---|---|\n| latency | 7 |",
        "| op | speedup |\n|---|---|\n| half | ~2 |",
        ":::{dropdown} Answer\nIt takes 12 ms.\n:::",
        "````{admonition} Outer\n```{note}\n```\nIt takes 12 ms.\n````",
        "```{figure} a.svg\n:alt: A plot.\n\nThe run takes 12 ms.\n```",
        "```{dropdown} Answer: 12 ms\n```",
        ":::{predict} gain\nIs it 12 ms?\n:::",
    ],
)
def test_a_typed_number_is_found(prose: str) -> None:
    assert any("is typed" in message for message in messages(f"# Title\n\n{prose}\n"))


@pytest.mark.parametrize(
    "prose",
    [
        "It takes {measured}`latency`.",
        "They say {quoted}`73 %|Someone 2009`.",
        "In code, `sleep(12 ms)` is one thing.",
        "A matrix of 28 × 28 pixels, 3 layers, in 2017.",
        "```python\n# takes 12 ms\n```",
        "```{claim} six\n:source: a\n\n> It takes 12 ms.\n\nIt takes 12 ms.\n```",
        ":::{claim} six\n:source: a\n\nIt takes 12 ms.\n:::",
        "See [the paper](https://example.org/12 ms).",
        "## Further reading\n\nSomeone, who found 12 ms.",
        "| core | lanes |\n|---|---|\n| Haswell | 8 |\n| Zen 3, 64 rows | 3/2 |",
        "| time | {measured}`time` |\n|---|---|\n| `7.7` | $7.7$ |",
        "The interval holds it with 95 % confidence.",
        "We remove 90 % of the weights, then another 5 %.",
        "| what you need | 30 minutes to read |",
        "A formula in words: 2 × parameters.",
        "A picture 8 times as wide and as high has 64 times the pixels, which are 64 times the work.",
        "A timer calls a short function 1,000 times in a row.",
        "Trained in 32 bits, four bytes a weight, it is multiplied in 8 bits and stored in 1 byte.",
        "One test in twenty, a hundred a day, rings five times a day.",
        "**4. Tokens per second.** Write a function.",
        "It was interrupted {quoted}`466 times as fast|Grattafiori et al. 2024`.",
        "How many times as fast as one are 1,024 ranks at most?",
    ],
)
def test_what_is_no_typed_number_is_not(prose: str) -> None:
    assert messages(f"# Title\n\n{prose}\n") == []


@pytest.mark.parametrize(
    "code",
    [
        'page.table("ops", rows, columns, caption="It takes 12 ms")',
        'page.word("w", "slow", because="it takes 12 ms")',
        'page.word("w", "slow", because=f"{name} takes 12 ms")',
        'rows = [{"note": "3.5x faster"}]',
    ],
)
def test_a_number_typed_in_code_is_found(code: str) -> None:
    assert any("typed in a string" in message for message in messages(CELL % code))
    assert any("typed in a string" in problem.message for problem in check_module(code))


@pytest.mark.parametrize(
    "code",
    [
        'page.claim("c", statement="Takes 73 %.", source="S., 12 ms", quote="So.", verdict=v, evidence="It took {a}.")',
        'page.claim("c", statement="Much.", source="S.", quote="takes 73 %", verdict=v, evidence="It took {a}.")',
        'label = f"{value:.1f} ms"',
        "repeats = 12",
        'style = "svg { width: 100%; height: auto; } table { width: 90% }"',
    ],
)
def test_code_without_typed_numbers_is_not(code: str) -> None:
    assert messages(CELL % code) == []
    assert check_module(code) == []


def test_docstrings_and_comments_of_a_module_may_name_numbers() -> None:
    docstring = '"""It takes 12 ms."""'
    module = f"{docstring}\nclass A:\n    {docstring}\n    x: int\n    {docstring}\n\n"
    module += f"    def f(self):\n        {docstring}\n"
    assert check_module(module + "# It takes 12 ms.\n") == []
    found = check_module(module + "        return '12 ms'\n")
    assert [(problem.line, problem.message[:7]) for problem in found] == [(9, "'12 ms'")]


def test_the_line_of_a_problem_is_the_sources() -> None:
    text = "---\nname: x\n---\n# Title\n\n```{code-cell} ipython3\n:tags: [hide-output]\nx = 1\ny = '12 ms'\n```\n"
    assert [problem.line for problem in check_source(text)] == [9]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("![](a.svg)", 1),
        ("![A plot of it](a.svg)", 0),
        ("```{image} a.svg\n```", 1),
        ("```{image} a.svg\n:alt: A plot of it.\n```", 0),
        ("```{figure} a.svg\n:width: 3\n:alt: A plot of it.\n\nThe caption.\n```", 0),
        (CELL % 'page.figure("f", figure, caption="c")', 1),
        (CELL % 'page.figure("f", figure, caption="c", alt=words)', 0),
    ],
)
def test_figures_without_alt_text_are_found(text: str, count: int) -> None:
    assert len([message for message in messages(text) if "alt" in message]) == count
    in_module = check_module("page.figure('f', figure, caption='c')\npage.figure('g', figure, alt=words)\n")
    assert [problem.line for problem in in_module if "alt" in problem.message] == [1]


def test_long_cells_are_found_unless_hidden() -> None:
    code = "\n\n".join(f"x{i} = {i}" for i in range(11))
    assert messages(CELL % code) == ["the cell shows 11 lines of code: split it into cells of at most 10"]
    assert not any("shows" in message for message in messages(CELL % f":tags: [hide-input]\n{code}"))


def test_a_cell_that_is_not_python_is_found_and_its_options_in_yaml_are_none() -> None:
    assert messages(CELL % "def") == ["the cell is not Python"]
    assert messages(CELL % "%matplotlib inline\nx = 1") == []
    assert (
        messages(CELL % ("---\ntags: [hide-cell]\nmystnb:\n  code_prompt_show: Show\n---\n" + "import x\n" * 12)) == []
    )


EXERCISE = (
    "```{code-cell} python3\n:tags: [solution]\ndef add(a, b):\n    return a + b\n```\n\n"
    "```{code-cell} python3\n:tags: [check]\nexercises.check_add(add)\n```\n"
)
NO_SECTIONS = ["a chapter needs a section '## Exercises'", "a chapter needs a section '## Questions'"]
RECORDS = CELL % 'page.number("gain", run)'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (EXERCISE.replace(":tags: [check]\n", ""), "a solution needs a cell tagged check right behind it"),
        (EXERCISE.replace("```\n\n```", "```\n\n" + CELL % "x = 1" + "\n```"), "a solution needs a cell tagged check"),
        (EXERCISE.replace(":tags: [solution]\n", ""), "a check needs a cell tagged solution right before it"),
        (EXERCISE.replace("check_add(add)", "check_add(other)"), "a check must call"),
        (EXERCISE.replace("exercises.check_add(add)", "add(1, 2)"), "a check must call"),
        (EXERCISE.replace("def add(a, b):\n    return a + b", "total = 3"), "a solution must define a function"),
    ],
)
def test_half_an_exercise_is_found(text: str, why: str) -> None:
    assert any(message.startswith(why) for message in messages(text))
    assert messages(EXERCISE) == []


def test_an_exercise_that_needs_a_later_cell_is_found() -> None:
    first = CELL % "import numpy as np\nfrom tinytorch.chapters import exercises" + "\n"
    for used, found in (("rows", True), ("b", False)):
        said = messages(first + EXERCISE.replace("return a + b", f"return np.add(a, {used})"))
        assert any(one.endswith("what the page's first cell defines, not rows") for one in said) is found


def _chapter(predictions: int, exercises: int, *, late: bool = False) -> str:
    asked = ":::{predict} gain\nHow many?\n:::\n\n" * predictions
    questions = "## Questions\n\n"
    ask = questions + asked if late else asked + questions
    return f"# Title\n\n**What you will build.** A thing.\n\n{RECORDS}\n{ask}## Exercises\n\n{EXERCISE * exercises}"


def test_a_chapter_asks_three_times_before_its_questions_and_sets_three_exercises() -> None:
    assert messages(_chapter(3, 3)) == []
    for chapter, lacks in (
        (_chapter(2, 3), "asks for 2 predictions before its questions"),
        (_chapter(3, 3, late=True), "asks for no predictions before its questions"),
        (_chapter(3, 1), "sets 1 exercise"),
    ):
        assert messages(chapter) == [f"the chapter {lacks}; it needs 3, unless its head says draft: true"]
    assert messages(_chapter(3, 3).replace("## Questions\n", "").replace("## Exercises\n", "")) == NO_SECTIONS


def test_a_draft_is_excused_from_counts_alone() -> None:
    draft = "---\ndraft: true\n---\n" + _chapter(0, 0)
    assert messages(draft) == []
    assert len(messages(draft.replace("true", "false"))) == 2
    assert messages(draft.replace("## Questions\n", "").replace("## Exercises\n", "")) == NO_SECTIONS
    assert any("is typed" in message for message in messages(draft + "It takes 12 ms.\n"))


def test_what_ends_a_chapter_has_one_order_and_one_wording() -> None:
    ends = ["## Questions", "## What the course says", "## Exercises", "## Further reading"]
    order, wording = "in this order", "as on every page"
    for headings, expected in (
        (ends, []),
        (["## A section", *ends[::2]], []),
        ([ends[1], ends[0], *ends[2:]], [order]),
        ([ends[0], "## What the course says of it", *ends[2:]], [wording]),
    ):
        found = messages("# Title\n\n" + "\n\n".join(headings) + "\n")
        assert [said for said in (order, wording) for one in found if one.endswith(said)] == expected


HIDDEN = "# Title\n\n```{code-cell} python3\n:tags: [%s]\n%s\n```\n"
DECLARATIONS = [
    "import numpy as np\nfrom tinytorch.chapters import quantization as study",
    "page = Page('quantization')\nlimit_blas_threads(1)",
    "signal = study.signal_by_bits(even, (2, 4, -8), draws={'a': [1.5, None]})",
    "at_once, later = study.scores(versions, loss=study.mean(rows))",
    "square, narrow = gains['a'].speedup, study.gains(x)['b', 1]",
    "page.table('s', signal.values(), {'bits': 'Bits', 'found': 'after rounding'}, caption='Two ' 'words.')",
    "page.number('eight', signal[8].found, what='signal')\npage.test('six', by['a', -1].found, at_least=47)",
    "page.number('rows', study.rows(machine.one, signal['a'].items()).count)",
    "page.printed('in-pytorch', printed_by(in_pytorch.quantize_mlp))",
    "%matplotlib inline",
    "from tinytorch.chapters import quantization as study\nparts = study.split(model)",  # no method of a string
    "page.table('t', [{'a': each.bytes / 2, 'b': rows[name]} for name, each in found.items()])",
    "page.test('six', max(by.values(), key=lambda row: row.found).found, at_least=47)",
]
REFUSED = [
    ("if wide:\n    page.number('a', a)", "a if:"),
    ("while True:\n    pass", "a while:"),
    ("try:\n    pass\nfinally:\n    pass", "a try:"),
    ("def f():\n    return 1", "a def:"),
    ("class A:\n    pass", "a class:"),
    ("page.table('t', [each for each in rows if each.low > 1])", "a comparison:"),
    ("page.number('a', a and b)", "a boolean operator:"),
    ("page.number('a', 'yes' if a else 'no')", "a conditional expression:"),
    ("page.number('a', f'{name} bits')", "a f-string:"),
    ("page.number('a', ', '.join(names))", "as join() does:"),
    ("page.number('a', name.upper())", "as upper() does:"),
]


@pytest.mark.parametrize("code", DECLARATIONS)
def test_declarations_are_let_be(code: str) -> None:
    assert list(hidden_logic(read_source(HIDDEN % ("remove-input", code)))) == []


@pytest.mark.parametrize(("code", "what"), REFUSED)
def test_a_choice_or_a_text_in_a_hidden_cell_is_found_with_its_line_and_the_remedy(code: str, what: str) -> None:
    first, *_ = hidden_logic(read_source(HIDDEN % ("remove-input", f"import a\n{code}")))
    assert first.line == 6
    assert what in first.message


@pytest.mark.parametrize("tag", ["hide-input", "hide-cell", "remove-input", "remove-cell"])
def test_each_tag_that_hides_is_asked_and_no_other(tag: str) -> None:
    assert len(check_source(HIDDEN % (tag, "x = a > b"))) == 1
    assert check_source(HIDDEN % ("hide-output", "x = a > b")) == []


@pytest.mark.parametrize("tag", ["solution", "check"])
def test_exercises_may_compute(tag: str) -> None:
    hidden = HIDDEN % (f"{tag}, hide-input", "x = a > b")
    assert not any("hidden cell" in problem.message for problem in check_source(hidden))


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("page_table(rows, caption='Rows.')", "writes no captions"),
        ("from tinytorch.report import Column, Page", "must not import Page"),
        ("if True:\n    from tinytorch.report.page import Page", "must not import Page"),
        ("import tinytorch.report.page", "must not import Page"),
        ("from tinytorch.report import page as pages", "must not import Page"),
        ("def record(rows, *, page=None):\n    pass", "must not take a page"),
        ("record = lambda page: 1", "must not take a page"),
    ],
)
def test_a_module_that_knows_a_page_is_found(module: str, what: str) -> None:
    (problem,) = check_module(f"import a\n{module}\n")
    assert (problem.line, what in problem.message) == (2 + module.startswith("if"), True)


def test_a_module_that_returns_values_is_let_be() -> None:
    assert check_module("from tinytorch.report import Counted\n\ndef rows(pages: int):\n    return pages\n") == []


HEAD = """(page)=
# Title

```{code-cell} python3
page = Page("page")
```

:::{result} figure
It is so.

- A number: {measured}`number`
:::

A question?

:::{about}
| You need | You get | Time |
|---|---|---|
| nothing | an answer | 20 minutes |

**What you will learn.**
To ask.

**What you will build.**
Something.

**What this chapter leaves out.**
The rest.
:::

## Exercises
"""


def test_a_good_head_lacks_nothing() -> None:
    assert list(check_head(HEAD)) == []


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
        (":::{result} figure", ":::{note}", "add what the chapter found"),
    ],
)
def test_what_is_missing_is_said(old: str, new: str, message: str) -> None:
    assert any(message in said for _, said in check_head(HEAD.replace(old, new, 1)))


@pytest.mark.parametrize(("letters", "over"), [(59, None), (60, "1 letters too long"), (80, "21 letters too long")])
def test_a_title_fits_with_the_name_of_the_site_into_what_browsers_show(letters: int, over: str | None) -> None:
    said = title_fault("x" * letters)
    assert said is None if over is None else over in str(said)


def test_a_head_behind_the_first_section_is_none() -> None:
    assert [line for line, _ in check_head(HEAD.replace("A question?", "## A question"))] == [2] * 4


def test_pages_without_records_and_without_exercises_may_do_with_less() -> None:
    assert list(check_head("# Ledger\n\nText.\n")) == []
    short = HEAD.replace("**What you will build.**", "").replace("**What this chapter leaves out.**", "")
    assert list(check_head(short.replace("## Exercises", "## End"))) == []
