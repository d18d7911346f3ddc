"""Checking of pages before they run: each kind of fault on a page that has it, with its line and what to do."""

from pathlib import Path

import page_lists
import pytest

from scripts import check_pages
from scripts.check_pages import Sources, by_rules, faults, lacks, main
from scripts.format_pages import mended

ROOT = Path(__file__).resolve().parents[2]
FRONT = "---\nkernelspec:\n  name: python3\n---\n\n(page)=\n# Title\n\n"
PAGE = f"""{FRONT}How long does it take? In {{ref}}`the other <other>` we count {{term}}`lines <cache line>`.

| You need | You get | Time |
|---|---|---|
| nothing | an answer | 5 minutes |

**What you will learn.**
To count.

```{{code-cell}} python3
:tags: [remove-cell]
from tinytorch.chapters import page as study
from tinytorch.report import Page

page = Page("page")
rows = study.rows()
latency, gain, bound = rows
page.number("in-all", rows[0])
page.table("ops", rows, {{"name": "Operation"}}, caption="What was timed.")
page.figure("times", rows[3], caption="Times over lengths.", alt="A rising line.")
page.test("small", rows[4], below=2)
```

It took {{measured}}`latency`, that is
{{measured}}`gain` as long, and the other page took {{measured}}`other:total`.
In all it took {{measured}}`in-all`.

::::{{outcome}} bound
:name: limit

:::this
So it is.
:::
:::that
So it is not.
:::
::::

See {{numref}}`figure-times`, {{numref}}`table-ops`, {{numref}}`figure-mechanism` and {{eq}}`law`.

$$t = n$$ (law)

:::{{predict}} latency
How long?
:::

:::{{predict}} limit
:choices: this | that
Which one?
:::

:::{{drawing}} mechanism
:alt: A box.

The caption.
:::

```{{claim}} small
:source: someone2009

> It is small.

It is small, as {{measured}}`latency` shows.
```

They say {{quoted}}`2 %|Someone 2009 <https://example.org/paper>`.

```{{literalinclude}} ../tinytorch/chapters/page.py
:pyobject: rows
```
"""
OTHER = f"""{FRONT.replace("(page)", "(other)")}```{{code-cell}} python3
page = Page("other")
for key in ("total", "rest"):
    page.number(key, 1)
```
"""
MODULE = '''"""Studies."""


def rows() -> list[int]:
    """Return nothing but numbers."""
    return [1, 2]
'''
FILES = {
    "_toc.yml": "root: index\nparts:\n  - caption: Basics\n    chapters:\n      - file: page\n      - file: other\n",
    "README.md": f"{page_lists.BEGIN}\n{page_lists.END}\n",
    "book/index.md": "# Book\n",
    "book/page.md": PAGE,
    "book/other.md": OTHER,
    "book/glossary.md": "# Words\n\n```{glossary}\ncache line\n  Sixteen numbers.\n```\n",
    "book/references.bib": "@misc{someone2009, title = {A paper}, year = {2009}, url = {https://example.org/paper}}\n",
    "book/_static/drawings/page/mechanism.svg": "<svg/>",
    "tinytorch/__init__.py": "",
    "tinytorch/report/__init__.py": "",
    "tinytorch/chapters/page.py": MODULE,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of two pages without faults."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    table = page_lists.page_table(tmp_path, page_lists.read_book(tmp_path))
    (tmp_path / "README.md").write_text(page_lists.with_table(FILES["README.md"], table), "utf-8")
    (tmp_path / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    return tmp_path


def change(checkout: Path, old: str, new: str, file: str = "book/page.md") -> int:
    """Replace a text in a file, and return the line where it stands."""
    text = FILES[file]
    assert text.count(old) == 1, old
    (checkout / file).write_text(text.replace(old, new), "utf-8")
    return text.count("\n", 0, text.index(old)) + 1


def said(checkout: Path) -> list[str]:
    return [str(fault) for fault in by_rules(Sources(checkout, ["page"]))]


#: What is changed on the page of `PAGE`, and what is then told; at the line of the change, or of another text.
WRONG: list[tuple[str, str, str] | tuple[str, str, str, str]] = [
    ("{measured}`gain`", "{measured}`gian`", "'gian': there is no 'gian' on this page: did you mean 'gain'?"),
    ("{measured}`gain`", "{measured}`gain * 2 / 3`", "must be a name, an attribute, an index, or one operation on"),
    ("{measured}`gain`", "{measured}`gain /`", "'gain /' is no expression: invalid syntax"),
    ("{measured}`in-all`", "{measured}`in-al`", "page 'page' has no number 'in-al': did you mean 'in-all'?"),
    ("`other:total`", "`othre:total`", "there is no page 'othre': did you mean 'other'?"),
    ("{outcome} bound", "{outcome} bund", "'bund': there is no 'bund' on this page: did you mean 'bound'?"),
    ("`figure-times`", "`figure-tims`", "page 'page' has no figure 'figure-tims': did you mean 'figure-times'?"),
    ("`table-ops`", "`table-opps`", "page 'page' has no table 'table-opps': did you mean 'table-ops'?"),
    ("`figure-mechanism`", "`box`", "page 'page' has no figure or table 'box': there are 'figure-mechanism', 'figure"),
    ("{eq}`law`", "{eq}`lw`", "there is no equation with the label 'lw': did you mean 'law'?"),
    ("<other>", "<othre>", "there is no label 'othre': did you mean 'other'?"),
    ("<cache line>", "<cache lines>", "the glossary has no 'cache lines': did you mean 'cache line'?"),
    ("{measured}`gain`", "{measurd}`gain`", "there is no role 'measurd': did you mean 'measured'?"),
    (":::{drawing} mechanism", ":::{drawin} mechanism", "there is no directive 'drawin': did you mean 'drawing'?"),
    (":::{drawing} mechanism", ":::{drawing} machine", "there is no drawing book/_static/drawings/page/machine.svg"),
    (":::{predict} latency", ":::{predict} latancy", "there is no 'latancy' on this page: did you mean 'latency'?"),
    (":::{predict} latency", ":::{predict} limit", "{predict} limit asks for a verdict, so it needs :choices: one"),
    ("```{claim} small", "```{claim} smal", "page 'page' has no claim 'smal': did you mean 'small'?"),
    ("```{claim} small", "```{note} small", "page.test('small', ...) tests a claim that the page does not", "below=2)"),
    (":source: someone2009", ":source: someone209", "did you mean 'someone2009'?", "```{claim} small"),
    ("<https://example.org/paper>", "<https://example.org/p>", "references.bib has no entry with this doi, eprint"),
    ("`2 %|Someone 2009 <https://example.org/paper>`", "`2 %`", "a quoted number needs its source, as in {quoted}"),
    ("../tinytorch/chapters/page.py", "../p.py", "there is no file ../p.py, seen from book/"),
    (":pyobject: rows", ":pyobject: row", "page.py holds no object 'row'", "```{literalinclude}"),
    ('Page("page")', 'Page("pages")', "a page names itself: write Page('page'), not 'pages'"),
    ('page.number("in-all"', 'page.number("Gain_1"', "a key is lower-case words joined by hyphens, such as 'mlp-late"),
    ("# Title", f"# {'A title of many words ' * 3}", "letters too long: with ' – Measured' behind it, browsers and"),
    ("It took {measured}`latency`", "It took 7.7 ms", "'7.7 ms' is typed: take it from a record with {measured}"),
    ("nothing | an answer", "7.7 | an answer", "'7.7' is typed: take it from a record with {measured}"),
    ("To count.", "To kount.", "'kount' is in no dictionary, nor in book/_checks/words.txt: did you mean 'count'"),
    ("The caption.", "The kaption.", "'kaption' is in no dictionary"),
    ("To count.", "To optimise.", "'optimise': the book writes 'optimize'"),
    ("To count.", "To model behavior.", "'behavior': the book writes 'behaviour'"),
    ("Times over lengths.", "Times over lenghts.", "'lenghts' is in no dictionary"),
    ("rows = study.rows()", "rows = study.rows() or []", "a hidden cell must not hold a boolean operator"),
    (
        "See {numref}`figure-t",
        "See Figure 3.2, {numref}`figure-t",
        "'Figure 3.2' is typed and goes stale: name it by {ref}",
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong[1])
def test_each_fault_is_told_at_its_line_with_what_to_do(checkout: Path, wrong: tuple[str, ...]) -> None:
    old, new, message, *elsewhere = wrong
    line = change(checkout, old, new)
    for place in elsewhere:
        line = PAGE.count("\n", 0, PAGE.index(place)) + 1
    found = [fault for fault in said(checkout) if message in fault]
    assert len(found) == 1, said(checkout)
    assert found[0].startswith(f"book/page.md:{line}: ")


def test_one_wrong_key_of_a_claim_is_one_fault_and_a_good_page_has_none(checkout: Path) -> None:
    assert said(checkout) == []
    line = change(checkout, "```{claim} small", "```{claim} smal")
    assert said(checkout) == [f"book/page.md:{line}: page 'page' has no claim 'smal': did you mean 'small'?"]
    change(checkout, "To count.", "To write ``{measured}`key` `` and `{verdict}`, or `{numref}`.")
    assert said(checkout) == [], "code in a line names no record"


FAULTY = f"""{FRONT}```{{code-cell}} python3
:tags: [remove-cell]
import json
import os

os.getpid()
```

Prose of the teh cache.

```{{code-cell}} python3
os.getpid()
unknown(os)
```

```{{code-cell}} python3
---
tags: [hide-input]
---
len(3)
```
"""


def test_what_ruff_codespell_and_mypy_find_is_told_with_the_line_of_page_or_module(checkout: Path) -> None:
    (checkout / "book/page.md").write_text(FAULTY, "utf-8")
    module = MODULE.replace("-> list[int]", "-> list[str]").replace("[1, 2]", "[1,2, 'it takes 12 ms']  # teh")
    (checkout / "tinytorch/chapters/page.py").write_text(module, "utf-8")
    found = [str(fault) for fault in faults(Sources(checkout, ["page"]))]
    lines = FAULTY.splitlines()
    unused, unknown, argument = (lines.index(code) + 1 for code in ("import json", "unknown(os)", "len(3)"))
    for expected in (
        f"book/page.md:{unused}: F401 `json` imported but unused",
        f"book/page.md:{unknown}: F821 Undefined name `unknown`",
        f'book/page.md:{unknown}: error: Name "unknown" is not defined  [name-defined]',
        f'book/page.md:{argument}: error: Argument 1 to "len" has incompatible type "int"; expected "Sized"',
        "book/page.md:17: 'teh' is misspelled: the",
        "tinytorch/chapters/page.py:6: '12 ms' is typed in a string: show what was measured instead",
        "tinytorch/chapters/page.py:6: is not laid out as ruff does it: `make format` mends that",
        'tinytorch/chapters/page.py:6: error: List item 0 has incompatible type "int"; expected "str"  [list-item]',
        "tinytorch/chapters/page.py:6: 'teh' is misspelled: the",
    ):
        assert any(fault.startswith(expected) for fault in found), "\n".join(found)


def test_a_draft_is_told_what_it_lacks_and_passes(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    builds = "\n\n**What you will build.**\nA thing.\n\n**What this chapter leaves out.**\nMuch.\n"
    builds += "\n:::{result} times\nIt is so.\n\n- In all: {measured}`in-all`\n:::\n"
    draft = PAGE.replace("---\nkernelspec", "---\ndraft: true\nkernelspec")
    draft = draft.replace("To count.\n", f"To count.{builds}\n## Questions\n\n## Exercises\n")
    (checkout / "book/page.md").write_text(draft, "utf-8")
    table = page_lists.page_table(checkout, page_lists.read_book(checkout))
    (checkout / "README.md").write_text(page_lists.with_table(FILES["README.md"], table), "utf-8")
    monkeypatch.setattr(check_pages, "ROOT", checkout)
    assert main(["page", "--without-types"]) == 0, capsys.readouterr().out
    assert [fault.said.partition(";")[0] for fault in lacks(Sources(checkout, ["page"]))] == [
        "the chapter sets no exercises",
        "the chapter asks for no predictions before its questions",
    ]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("book/page.md", b"# Page\n\nna\xefve\n", "book/page.md:3 is not UTF-8: save the file in this encoding."),
        ("_toc.yml", b"root: index\nparts: [one\n", "_toc.yml:3 is no YAML: "),
        ("book/references.bib", b"@book{one,\n  title {One}}\n", "book/references.bib:2 is no BibTeX: "),
    ],
)
def test_a_source_that_cannot_be_read_and_a_page_that_is_not_there_are_told(
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    content: bytes,
    said: str,
) -> None:
    monkeypatch.setattr(check_pages, "ROOT", checkout)
    assert main(["pgae"]) == 2
    assert "there is no book/pgae.md: did you mean 'page'?" in capsys.readouterr().err
    (checkout / file).write_bytes(content)
    assert main(["--without-types"]) == 1
    assert capsys.readouterr().out.startswith(said)


MENDED = """# Title

```{code-cell} python3
:tags: [remove-cell]
import json
import sys

print(json.dumps(sys.path))
```

- A list
  ```{code-cell} python3
  import sys
  import json
  ```

Prose:  with `import sys`.

```{code-cell} python3
%matplotlib inline
import re, os
```
"""


def test_cells_are_mended_and_prose_and_magic_commands_stay() -> None:
    page = MENDED.replace("import json\nimport sys\n\nprint", "import sys\nimport json\n\nprint")
    assert mended(page) == mended(MENDED) == MENDED
