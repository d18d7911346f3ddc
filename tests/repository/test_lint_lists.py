"""What names pages by hand fails the lint when `_toc.yml` says otherwise."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import lint_lists

CONTENTS = """format: jb-book
root: index
parts:
  - caption: Basics
    chapters:
      - file: first
      - file: second
      - file: third
  - caption: Reference
    chapters:
      - file: reference/index
        sections:
          - file: reference/more
"""
README = """# A book

| page | what it answers |
|---|---|
| `index`, `first` | what this is |
| `second` | more |
| `third` | most |
| `reference` | names |

| folder | what |
"""
PAGE = """(the-{0})=
# Title

{1}

## What comes next

Then {{ref}}`the-{2}`, and {{ref}}`the-first`.

## Sources
"""
Change = Callable[[str, str, str], None]


@pytest.fixture
def change(tmp_path: Path) -> Change:
    """Return what replaces a text in a file of a checkout whose lists are right."""
    (tmp_path / "book").mkdir()
    (tmp_path / "_toc.yml").write_text(CONTENTS)
    (tmp_path / "README.md").write_text(README)
    begins = "{ref}`Begin with the first chapter <the-first>`"
    pages = {"index": (begins, "second"), "first": ("", "second"), "second": ("", "third"), "third": ("", "first")}
    for name, (said, follows) in pages.items():
        (tmp_path / "book" / f"{name}.md").write_text(PAGE.format(name, said, follows))

    def replace(file: str, old: str, new: str) -> None:
        path = tmp_path / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return replace


def said(root: Path, told_of: str | None = None) -> list[str]:
    return [f"{path}:{line}: {fault}" for path, line, fault in lint_lists.faults(root, told_of)]


@pytest.mark.usefixtures("change")
def test_lists_that_are_right_pass(tmp_path: Path) -> None:
    assert said(tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (("README.md", "| `second` | more |\n", ""), "README.md:3: the table of pages has no row for `second`"),
        (("README.md", "`reference`", "`references`"), "README.md:8: the table of pages names `references`"),
        (("README.md", "`index`, `first`", "`first`, `index`"), "README.md:3: the table of pages has another order"),
        (("README.md", "| page |", "| pages |"), "README.md:11: the table of pages has no row for `index`"),
        (("book/first.md", "`the-second`", "`the-third`"), "book/first.md:6: 'What comes next' must lead to `second`"),
        (("book/second.md", "{ref}`the-third`", "an end"), "book/second.md:6: 'What comes next' must lead to `third`"),
        (("book/index.md", "<the-first>", "<the-second>"), "book/index.md:4: `the-second` is not the first chapter"),
        (("book/third.md", "# Title", "# Title\n\nIn Chapter 3."), "book/third.md:4: 'Chapter 3' is typed"),
    ],
)
def test_each_that_went_stale_is_said_with_its_line(
    change: Change, tmp_path: Path, changed: tuple[str, str, str], fault: str
) -> None:
    change(*changed)
    assert said(tmp_path)[0].startswith(fault)


def test_a_new_chapter_has_to_be_named_once_it_is_no_draft(change: Change, tmp_path: Path) -> None:
    change("_toc.yml", "      - file: third\n", "      - file: new\n      - file: third\n")
    path = tmp_path / "book" / "new.md"
    draft = "---\ndraft: true\n---\n\n(the-new)=\n# New\n"
    path.write_text(draft)
    assert said(tmp_path) == []
    expected = [
        "README.md:3: the table of pages has no row for `new`, which _toc.yml names",
        "book/second.md:6: 'What comes next' must lead to `new` first, which comes next in _toc.yml",
    ]
    assert said(tmp_path, told_of="new") == expected
    path.write_text(lint_lists.finished(draft))
    assert said(tmp_path) == expected
