"""Hidden cells are declarations, and modules know no page: what the rule lets be, and what it finds."""

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
]
LOGIC = [
    ("if wide:\n    page.number('a', a)", "no if;"),
    ("for each in rows:\n    page.number('a', each)", "no for;"),
    ("while True:\n    pass", "no while;"),
    ("with folder:\n    pass", "no with;"),
    ("try:\n    pass\nfinally:\n    pass", "no try;"),
    ("def f():\n    return 1", "no def;"),
    ("class A:\n    pass", "no class;"),
    ("page.table('t', rows, key=lambda row: row.a)", "no lambda;"),
    ("rows = {each: 1 for each in names}", "no comprehension;"),
    ("rows = study.rows(each for each in names)", "no comprehension;"),
    ("page.number('a', a.bytes / b.bytes)", "no arithmetic;"),
    ("both = one | other", "no arithmetic;"),
    ("page.number('a', -a.change)", "no arithmetic;"),
    ("total += study.one()", "no arithmetic;"),
    ("page.word('a', a.low > 1)", "no comparison;"),
    ("page.word('a', a and b)", "no boolean operator;"),
    ("page.word('a', 'yes' if a else 'no')", "no conditional expression;"),
    ("page.word('a', f'{name} bits')", "no f-string;"),
    ("page.word('a', ', '.join(names))", "no string method such as join();"),
    ("page.word('a', name.upper())", "no string method such as upper();"),
    ("page.number('a', max(rows))", "no call of max();"),
    ("page.number('a', study.one(study.two(a)))", "no second call among the arguments;"),
    ("page.compare('a', study.one(), study.two())", "no second call among the arguments;"),
    ("page.number('a', rows[first])", "no subscript that is not a literal;"),
    ("page.table('t', rows[:3])", "no subscript that is not a literal;"),
    ("page.table('t', *rows)", "no unpacking;"),
    ("page.table('t', {**rows}, **words)", "no unpacking;"),
    ("page.number('a', made := study.one())", "no assignment inside an expression;"),
    ("rows[0] = study.one()", "no assignment to anything but names;"),
    ("study.record(page, rows)", "no call that drops what it returns, except of page's own methods;"),
    ("found", "no value without a name;"),
    ("one = studies[0]()", "no call of anything but a named function;"),
]


@pytest.mark.parametrize("code", DECLARATIONS)
def test_declarations_are_let_be(code: str) -> None:
    assert list(hidden_logic(read_source(CELL % ("remove-input", code)))) == []


@pytest.mark.parametrize(("code", "what"), LOGIC)
def test_logic_in_a_hidden_cell_is_found_with_its_line_and_the_remedy(code: str, what: str) -> None:
    first, *_ = hidden_logic(read_source(CELL % ("remove-input", f"import a\n{code}")))
    assert first.line == 6
    assert first.message.startswith("a hidden cell must be a declaration: " + what)
    assert first.message.endswith("put it into the chapter's module, which returns a value")


@pytest.mark.parametrize("tag", ["hide-input", "hide-cell", "remove-input", "remove-cell"])
def test_each_tag_that_hides_is_asked_and_no_other(tag: str) -> None:
    assert len(check_source(CELL % (tag, "x = a + b"))) == 1
    assert check_source(CELL % ("hide-output", "x = a + b")) == []


@pytest.mark.parametrize("tag", ["solution", "check"])
def test_exercises_may_compute(tag: str) -> None:
    hidden = CELL % (f"{tag}, hide-input", "x = a + b")
    assert not any("declaration" in problem.message for problem in check_source(hidden))


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
