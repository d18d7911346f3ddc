"""Linting of pages: what ruff and mypy find in cells is said with the page's line, and what pages may do is not."""

from pathlib import Path

import pytest
from sources import read_source

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


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def line_of(text: str, code: str) -> int:
    return text.splitlines().index(code) + 1


def test_faults_of_shown_and_hidden_cells_are_said_with_the_line_of_the_page(tmp_path: Path) -> None:
    path = page(tmp_path, FAULTY)
    found = [fault.removeprefix(f"{path}:") for fault in lint([path])]
    unused, unknown = line_of(FAULTY, "import json"), line_of(FAULTY, "unknown(values)")
    argument = line_of(FAULTY, "len(3)")
    assert found == [
        f"{unused}:8: F401 `json` imported but unused",
        f"{unknown}:1: F821 Undefined name `unknown`",
        f'{unknown}: error: Name "unknown" is not defined  [name-defined]',
        f'{argument}: error: Argument 1 to "len" has incompatible type "int"; expected "Sized"  [arg-type]',
    ]


def test_the_command_fails_on_faults_and_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(page(tmp_path, FAULTY))]) == 1
    said = capsys.readouterr().out
    assert "F401" in said
    assert f"page.md:{line_of(FAULTY, 'values')}: a hidden cell must be a declaration" in said
    assert main([str(page(tmp_path, CLEAN))]) == 0


@pytest.mark.parametrize(
    ("text", "lines"), [(FRONT + "```{code-cell} python3\nx = 1\ndef\n```\n", {"10"}), ("# Title\n\nProse.\n", set())]
)
def test_only_a_cell_can_be_no_python(tmp_path: Path, text: str, lines: set[str]) -> None:
    path = page(tmp_path, text)
    assert {fault.removeprefix(f"{path}:").partition(":")[0] for fault in lint([path])} >= lines
    assert bool(lint([path])) is bool(lines)


def test_a_module_has_the_lines_of_the_page() -> None:
    page_lines, module_lines = CLEAN.splitlines(), as_module(read_source(CLEAN).cells).splitlines()
    code = {number for number, line in enumerate(module_lines) if line and not line.startswith("#")}
    assert {module_lines[number] for number in code} >= {"import os", "import json", "    return counts[x]"}
    assert all(page_lines[number] == module_lines[number] for number in code)
