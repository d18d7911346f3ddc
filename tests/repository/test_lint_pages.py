"""Linting of pages: what ruff and mypy find in cells is said with the page's line, and what pages may do is not."""

from pathlib import Path

import pytest
from sources import read_source

from scripts import lint_pages
from scripts.lint_pages import as_module, lint, main

FRONT = "---\nkernelspec:\n  name: python3\n---\n\n# Title\n\n"
FAULTY = f"""{FRONT}```{{code-cell}} python3
:tags: [remove-cell]
import json
import os

values = [1, 2]
values
```

Prose, and a cell within a note:

::::{{note}}
```{{code-cell}} python3
os.getpid()
unknown(values)
```
::::

```{{code-cell}} python3
---
tags: [hide-input]
---
len(3)
sum(values)
```
"""
CLEAN = f"""{FRONT}```{{code-cell}} python3
%matplotlib inline
import os


def double(x):
    counts = {{}}
    counts[x] = 2 * x
    return counts[x]

found = double(2)
found
```

```{{code-cell}} python3
import json

found = json.dumps(os.getpid())
```
"""


def page(folder: Path, text: str, name: str = "page.md") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def line_of(text: str, code: str) -> int:
    return text.splitlines().index(code) + 1


def test_faults_of_shown_and_hidden_cells_are_said_with_the_line_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(page(tmp_path, FAULTY)), str(page(tmp_path, CLEAN, "clean.md"))]) == 1
    found = [fault.partition(f"/{tmp_path.name}/")[2] for fault in capsys.readouterr().out.splitlines()]
    unused, unknown, *hidden = (
        f"page.md:{line_of(FAULTY, code)}:"
        for code in ("import json", "unknown(values)", "values", "len(3)", "sum(values)")
    )
    assert [fault.partition(" a hidden cell must be a declaration")[0] for fault in found[:3]] == hidden
    assert found[3:] == [
        f"{unused}8: F401 `json` imported but unused",
        f"{unknown}1: F821 Undefined name `unknown`",
        f'{unknown} error: Name "unknown" is not defined  [name-defined]',
        f'{hidden[1]} error: Argument 1 to "len" has incompatible type "int"; expected "Sized"  [arg-type]',
    ]


def test_only_a_cell_can_be_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(lint_pages, "ROOT", tmp_path)  # where no chapter has studies
        assert main([str(page(tmp_path, "# Title\n\nProse.\n"))]) == 0
    path = page(tmp_path, FRONT + "```{code-cell} python3\nx = 1\ndef\n```\n")
    assert f"{path}:10" in {":".join(fault.split(":")[:2]) for fault in lint([path])}


def test_a_module_has_the_lines_of_the_page() -> None:
    page_lines, module_lines = CLEAN.splitlines(), as_module(read_source(CLEAN).cells).splitlines()
    code = {number for number, line in enumerate(module_lines) if line and not line.startswith("#")}
    assert {module_lines[number] for number in code} >= {"import os", "import json", "    return counts[x]"}
    assert all(page_lines[number] == module_lines[number] for number in code)
