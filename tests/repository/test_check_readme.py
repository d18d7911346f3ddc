"""The check of printed commands: what it takes out of documents, and what it says of a command that does not work."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from scripts.check_readme import (
    ELSEWHERE,
    OUTCOMES,
    Command,
    commands_in,
    commands_to_run,
    documents,
    entry_of,
    faults,
    html_fault,
    json_fault,
)
from tests.report.made_measurements import made_measurements

ROOT = Path(__file__).resolve().parents[2]
TEXT = """# Title

Try `make help`, or `tinytorch diff`, which is only a name.

```bash
pip install ".[onnx]"

make book
```

````markdown
```bash
tinytorch unseen --in-an-example
```
````

```python
print(1)
```
"""


def test_commands_are_taken_from_blocks_and_sentences_with_their_lines() -> None:
    found = [(command.line, command.text) for command in commands_in("README.md", TEXT)]
    assert found == [(3, "make help"), (6, 'pip install ".[onnx]"'), (8, "make book"), (17, "print(1)\n")]
    assert [command.line for command in commands_in("book/page.md", TEXT)] == [3, 6, 8]


def test_a_command_with_a_comment_or_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "measurements").mkdir()
    (tmp_path / "measurements" / "README.md").write_text("")
    for command, said in (
        ("make book  # it", "README.md:2: zsh would take the comment for arguments: make book  # it"),
        ("tinytorch invent --json new.json", r"README\.md:2: tinytorch invent"),
    ):
        (tmp_path / "README.md").write_text(f"```bash\n{command}\n```\n")
        with pytest.raises(ValueError, match=said):
            commands_to_run(tmp_path)


def test_every_printed_command_is_known_and_no_entry_is_left_over() -> None:
    run = [command for command in commands_to_run(ROOT) if command.document == "README.md"]
    for name in ("machine", "profile", "diff", "bench", "compare", "report", "links"):
        assert any(command.words[:2] == ["tinytorch", name] for command in run)
    printed = [
        command
        for path in documents(ROOT)
        for command in commands_in(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    ]
    for table in (OUTCOMES, ELSEWHERE):
        for key, entry in table.items():
            assert any(entry_of(command, table) is entry for command in printed), f"nothing prints {key}"


def test_every_option_and_name_of_the_package_in_readme_exists() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for path, name in re.findall(r"`(tinytorch(?:\.\w+)+)\.(\w+)\(", text):
        assert callable(getattr(import_module(path), name))
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "tinytorch" / "cli").glob("*.py"))
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - {"--help"}
    assert options
    assert [option for option in options if f'"{option}"' not in sources] == []


def said(command: str, code: int, output: str, folder: Path) -> list[str]:
    return list(faults(Command("README.md", 1, command), code, output, folder))


def test_what_a_command_ends_with_and_leaves_is_judged(tmp_path: Path) -> None:
    measure = ".venv/bin/tinytorch measure --json mine.json"
    works = "mine.json has the pages roofline, machine, your_machine: drop it onto the page “Your machine” of the book."
    assert said(measure, 0, works, tmp_path) == ["leaves no mine.json"]
    (tmp_path / "mine.json").write_text(json.dumps(made_measurements()))
    assert said(measure, 0, f"{works}\n\n", tmp_path) == []
    found = said(measure, 2, "tinytorch measure: 'statement'", tmp_path)
    assert found[0] == "ends with exit code 2"
    assert "not \"tinytorch measure: 'statement'\"" in found[1]
    assert said("make chapter NAME=batching", 0, "Now: make live PAGES=batching", tmp_path)[0] == (
        "leaves no book/batching.md"
    )
    assert said("tinytorch diff a.json b.json", 1, "slower: all, 0.5 to 0.6 of its speed", tmp_path) == []


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    for given, why in (
        ({"schema": "tinytorch-measurements", "schema_version": 0}, "breaks its schema"),
        ({"schema": "tinytorch-machine"}, "breaks its schema"),
        ({"schema": "tinytorch-benchmark"}, "breaks its schema"),
        ({"schema": "another"}, "nothing here reads"),
    ):
        path.write_text(json.dumps(given))
        assert why in str(json_fault(path))
    page = tmp_path / "page.html"
    page.write_text(f"<title>Profile of a</title><p>{'word ' * 200}</p>")
    assert html_fault(page, r"Profile of .+") is None
    assert "must have a title like" in str(html_fault(page, r"Results"))
    page.write_text("<title>Profile of a</title>")
    assert "says nothing" in str(html_fault(page, r"Profile of .+"))
