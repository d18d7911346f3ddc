"""Fenced parts of MyST: where they are, what they hold, and what in them is no body."""

from pathlib import Path

import pytest
from measured_book.sources.myst import fences

BOOK = Path(__file__).resolve().parents[3] / "book"


@pytest.mark.parametrize("page", sorted(BOOK.glob("*.md")), ids=lambda path: path.stem)
def test_bodies_are_the_lines_that_they_are_said_to_be(page: Path) -> None:
    text = page.read_text("utf-8")
    lines = text.splitlines()
    for fence in fences(text):
        assert lines[fence.first].startswith(("```", ":::"))
        assert lines[fence.body_first : fence.end - 1] == fence.body


def test_a_directive_is_taken_apart_and_what_lies_in_it_is_its_body() -> None:
    text = "Text.\n\n::::{predict} key\n:choices: a | b\n:label: c\n\nWhich?\n```{note}\n```\n::::\n"
    (fence,) = fences(text)
    assert (fence.name, fence.argument, fence.options) == ("predict", "key", {"choices": "a | b", "label": "c"})
    assert (fence.first, fence.end, fence.is_prose) == (2, 10, True)
    assert fence.body == ["", "Which?", "```{note}", "```"]


def test_options_in_yaml_are_no_body_and_code_has_no_options() -> None:
    cell, code = fences("```{code-cell} python3\n---\ntags: [check]\n---\nx = 1\n```\n\n```python\n:a: b\n```\n")
    assert (cell.options, cell.body, cell.body_first) == ({"yaml": "tags: [check]"}, ["x = 1"], 4)
    assert (code.name, code.argument, code.body, code.options) == ("", "python", [":a: b"], {})


def test_what_only_looks_like_a_fence_is_none() -> None:
    assert list(fences("`` ```{note} ``\n\n    ```{note}\n    ```\n")) == []
