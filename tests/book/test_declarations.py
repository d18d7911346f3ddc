"""Hidden cells decide nothing and write no text, and modules know no page: what the rule lets be, and what it finds."""

import pytest
from sources import check_module, check_source, hidden_logic, read_source

CELL = "# Title\n\n```{code-cell} python3\n:tags: [%s]\n%s\n```\n"
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
    assert list(hidden_logic(read_source(CELL % ("remove-input", code)))) == []


@pytest.mark.parametrize(("code", "what"), REFUSED)
def test_a_choice_or_a_text_in_a_hidden_cell_is_found_with_its_line_and_the_remedy(code: str, what: str) -> None:
    first, *_ = hidden_logic(read_source(CELL % ("remove-input", f"import a\n{code}")))
    assert first.line == 6
    assert what in first.message


@pytest.mark.parametrize("tag", ["hide-input", "hide-cell", "remove-input", "remove-cell"])
def test_each_tag_that_hides_is_asked_and_no_other(tag: str) -> None:
    assert len(check_source(CELL % (tag, "x = a > b"))) == 1
    assert check_source(CELL % ("hide-output", "x = a > b")) == []


@pytest.mark.parametrize("tag", ["solution", "check"])
def test_exercises_may_compute(tag: str) -> None:
    hidden = CELL % (f"{tag}, hide-input", "x = a > b")
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
