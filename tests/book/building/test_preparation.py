"""Preparation of pages with made steps: their order, what is remembered, and what is told of failures."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from scripts.building import preparation
from scripts.building.preparation import Memory, StepError, keys_of, prepare, run_steps
from tests.chosen_settings import PATIENCE
from tinytorch.chapters.preparation import Step

KEYS = {"training": "one key", "compiling": "another key"}
#: Names the folder in which made steps leave what they did, to processes that were started later.
FOLDER = "TINYTORCH_MADE_STEPS"


def step(name: str, *after: str) -> Step:
    return Step(name, "training", lambda: None, frozenset({"page"}), 3.0, after)


def work(name: str) -> None:
    """Leave a line; "broken" fails instead, and "one" and "other" end only while both are at work."""
    folder = Path(os.environ[FOLDER])
    if name == "broken":
        raise ValueError("no such data")
    with (folder / "notes").open("a") as notes:
        notes.write(f"{name}\n")
    for _ in range(100 * PATIENCE if name in ("one", "other") else 0):
        if len((folder / "notes").read_text().split()) == 2:
            return
        time.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which steps leave what they did."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def test_a_step_waits_for_those_that_it_starts_from_and_others_run_at_once(folder: Path) -> None:
    ended: list[str] = []
    steps = [step("last", "middle"), step("middle", "first", "made before"), step("first")]
    run_steps(steps, work, 2, lambda one, _: ended.append(one.name))
    assert (folder / "notes").read_text().split() == ended == ["first", "middle", "last"]
    (folder / "notes").unlink()
    run_steps([step("one"), step("other")], work, 2, lambda *_: None)
    assert len((folder / "notes").read_text().split()) == 2


def test_a_step_that_fails_ends_the_preparation_and_what_was_done_is_not_done_again(folder: Path) -> None:
    memory = Memory(folder / "prepared.json", KEYS, folder)
    told: list[dict[str, Any]] = []
    with pytest.raises(StepError, match="broken failed: ValueError: no such data"):
        prepare([step("broken"), step("next", "broken")], memory, told.append, work, 1)
    assert [event["event"] for event in told] == ["preparing"]
    assert memory.steps() == {}
    for steps in ([step("first")], [step("first"), step("second", "first")], [step("first"), step("second", "first")]):
        told.clear()
        prepare(steps, memory, told.append, work, 1)
    assert told == []
    assert (folder / "notes").read_text().split() == ["first", "second"]
    assert sorted(memory.steps()["training"]) == ["first", "second"]


def test_steps_count_as_done_only_for_the_same_sources_and_while_what_they_made_is_there(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    for name in ("models", "kernels/old", "kernels/new"):
        (kept / name).mkdir(parents=True)
    os.utime(kept / "kernels" / "old", (1e9, 1e9))
    memory = Memory(tmp_path / "prepared.json", KEYS, kept)
    memory.add([(step("one"), 1.0)])
    assert memory.steps() == {"training": {"one": 1.0}}
    assert Memory(memory.path, {**KEYS, "compiling": "another"}, kept).steps() == {"training": {"one": 1.0}}
    assert Memory(memory.path, {**KEYS, "training": "another"}, kept).steps() == {}
    (kept / "kernels" / "old").rmdir()
    assert memory.steps() == {"training": {"one": 1.0}}
    (kept / "models").rmdir()
    assert memory.steps() == {}
    for text in ("", "[]", '{"keys": {}}', '{"keys": {}, "folders": [], "steps": {"training": {}}}'):
        memory.path.write_text(text)
        assert memory.steps() == {}, "a memory that cannot be read knows nothing"


@pytest.mark.parametrize(
    ("file", "code", "changed"),
    [
        ("tinytorch/chapters/machine.py", "x = 1", set()),
        ("tinytorch/core/new.py", "# only said", set()),
        ("tinytorch/core/new.py", "x = 1", {"training", "compiling", "measuring"}),
        ("tinytorch/perf/kernels/new.py", "x = 1", {"compiling", "measuring"}),
        ("tinytorch/perf/benchmarking/zoo.py", "x = 1", {"training"}),
        ("requirements.lock", "numpy==9", {"training", "compiling", "measuring"}),
    ],
)
def test_steps_are_done_again_when_what_they_compute_changes(
    tmp_path: Path, file: str, code: str, changed: set[str]
) -> None:
    sources = {name for names in preparation._SOURCES.values() for name in names}
    names = (name if Path(name).suffix else f"{name}/new.py" for name in sources)
    for name in (*names, "tinytorch/chapters/machine.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    first = keys_of(tmp_path, "machine")
    assert {work for work, key in keys_of(tmp_path, "another").items() if key != first[work]} == {*first}
    (tmp_path / file).write_text(code)
    assert {work for work, key in keys_of(tmp_path, "machine").items() if key != first[work]} == changed
