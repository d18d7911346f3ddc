"""MyST becomes Markdown that reads whole: checked with a Markdown parser and by properties."""

import base64
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from measured_book.notebooks.markdown import Renderer, plain_markdown
from measured_book.sources.myst import object_source

MODULE = '''
class Cache:
    """Keeps."""

    @property
    def size(self) -> int:
        """Its size."""
        return 1


def free() -> None:
    pass
'''


class Spoken(Renderer):
    """Says what it was asked."""

    def __init__(self, folder: Path = Path(), found: str | None = None) -> None:
        self.folder, self.found = folder, found

    def role(self, name: str, text: str) -> str:
        return f"<{name} {text}>"

    def claim(self, reference: str) -> str:
        return f"claim {reference}\n\nevidence"

    def outcome(self, reference: str) -> str | None:
        return self.found

    def answer(self, reference: str) -> str:
        return f"answer {reference}"

    def drawing(self, key: str) -> str:
        return f"<svg>{key}</svg>"

    def file(self, path: str) -> Path:
        return self.folder / path


def converted(text: str) -> str:
    return plain_markdown(text, Spoken())


OUTCOME = """Before.

::::{outcome} a / b
:::faster
It is {measured}`a`.
:::
:::open
Nobody knows.
:::
::::

After."""


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("faster", "It is <measured a>."),
        ("open", "Nobody knows."),
        (None, "*The cell below prints what your machine finds.*"),
    ],
)
def test_the_text_of_the_outcome_stands_in_its_place(outcome: str | None, text: str) -> None:
    assert plain_markdown(OUTCOME, Spoken(found=outcome)) == f"Before.\n\n{text}\n\nAfter."


def rendered(text: str) -> str:
    return str(MarkdownIt("commonmark").render(converted(text)))


@pytest.mark.parametrize(
    ("myst", "plain"),
    [
        ("It is {measured}`a | low`.", "It is <measured a | low>."),
        ("It is `` {measured}`a` `` or `b`.", "It is `` {measured}`a` `` or `b`."),
        ("```python\n{measured}`a`\n```", "```python\n{measured}`a`\n```"),
        ("(label)=\n# Title\n\n$$\ny = x\n$$ (square)", "# Title\n\n$$\ny = x\n$$"),
        ("```{unheard} x\n:option: y\nWords.\n```", "Words."),
    ],
)
def test_roles_speak_labels_go_and_code_formulas_and_prose_of_unknown_directives_stay(myst: str, plain: str) -> None:
    assert converted(myst) == plain


def test_claims_and_admonitions_become_quotations() -> None:
    text = "Before.\n```{claim} fast\n```\n:::{admonition} Takeaway\n:class: takeaway\nIt is {measured}`v`.\n:::\n"
    assert rendered(text).count("<blockquote>") == 2
    assert "claim fast" in rendered(text)
    assert "<strong>Takeaway</strong>" in rendered(text)
    assert "class" not in converted(text)


def test_what_is_folded_stays_folded_and_its_inside_is_read() -> None:
    html = rendered(":::{dropdown} Why?\nBecause **so**.\n:::")
    assert "<summary>Why?</summary>" in html
    assert "<strong>so</strong>" in html


def test_tabs_are_told_one_after_the_other() -> None:
    text = ":::::{tab-set}\n::::{tab-item} One\n```python\nx = 1\n```\n::::\n::::{tab-item} Two\nB\n::::\n:::::"
    assert rendered(text).index("<strong>One</strong>") < rendered(text).index("x = 1") < rendered(text).index("Two")


def test_a_prediction_asks_first_and_folds_its_answer() -> None:
    text = converted("```{predict} speed\n:choices: faster | slower\n\nIs it?\n---\nIt was {measured}`a`.\n```")
    question, _, answer = text.partition("<details>")
    assert "Is it?" in question
    assert "faster, slower?" in question
    assert "answer speed" in answer
    assert "It was <measured a>." in answer


def test_a_drawing_is_in_the_notebook_itself_with_its_caption() -> None:
    text = ':::{drawing} ruler\n:alt: A "ruler".\n\nIt is {measured}`a`.\n:::'
    picture, _, caption = converted(text).partition("\n\n")
    assert 'alt="A &quot;ruler&quot;."' in picture
    assert base64.b64encode(b"<svg>ruler</svg>").decode() in picture
    assert caption == "It is <measured a>."


def test_included_code_is_there_by_itself(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE, "utf-8")
    text = plain_markdown("```{literalinclude} module.py\n:pyobject: Cache.size\n```", Spoken(tmp_path))
    assert text == '```python\n@property\ndef size(self) -> int:\n    """Its size."""\n    return 1\n```'
    with pytest.raises(ValueError, match="module"):
        object_source(tmp_path / "module.py", "Cache.gone")


def test_an_included_file_of_another_language_says_so(tmp_path: Path) -> None:
    (tmp_path / "product.c").write_text("int main(void) {}\n", "utf-8")
    text = plain_markdown("```{literalinclude} product.c\n:language: c\n```", Spoken(tmp_path))
    assert text.strip() == "```c\nint main(void) {}\n```"


def test_what_only_the_book_can_show_is_left_to_it() -> None:
    assert "book's page" in converted("```{claim-ledger}\n```")


@given(st.text(alphabet=string.ascii_letters + string.digits + " .,*`\n#-", max_size=80))
def test_plain_text_comes_through(text: str) -> None:
    lines = [line for line in text.splitlines() if line.strip()]
    kept = [line for line in converted(text).splitlines() if line.strip()]
    if "```" not in text:
        assert kept == lines


@given(st.lists(st.sampled_from(["Words {measured}`a`.", ":::{dropdown} T", ":::", "```{claim} c", "```", "::::{x}"])))
def test_no_text_is_too_broken_to_convert(lines: list[str]) -> None:
    assert "{measured}`" not in converted("\n".join(line for line in lines if line != "```"))
