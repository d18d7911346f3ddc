"""Preparation of pages with made steps: their order, what is remembered, and what is told of failures."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from scripts.building import preparation
from scripts.building.preparation import Memory, StepError, keys_of, prepare, run_steps
from tests.patience import PATIENCE
from tinytorch.chapters.preparation import Step

KEYS = {"training": "one key", "compiling": "another key"}
#: Names the folder in which made steps leave what they did, to processes that were started later.
FOLDER = "TINYTORCH_MADE_STEPS"


def step(name: str, *after: str) -> Step:
    return Step(name, "training", lambda: None, frozenset({"page"}), 3.0, after)


def note(name: str) -> None:
    """Work that leaves a line; a step named "broken" fails instead."""
    if name == "broken":
        raise ValueError("no such data")
    with (Path(os.environ[FOLDER]) / "notes").open("a") as notes:
        notes.write(f"{name}\n")


def meet(name: str) -> None:
    """Work that ends only while the other of two steps is at work as well."""
    folder = Path(os.environ[FOLDER])
    (folder / name).touch()
    for _ in range(100 * PATIENCE):
        if len(list(folder.iterdir())) == 2:
            return
        time.sleep(0.01)
    raise TimeoutError("nobody else came")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which steps leave what they did."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def test_a_step_waits_for_those_that_it_starts_from(folder: Path) -> None:
    ended: list[str] = []
    steps = [step("last", "middle"), step("middle", "first", "made before"), step("first")]
    run_steps(steps, note, 2, lambda one, _: ended.append(one.name))
    assert (folder / "notes").read_text().split() == ended == ["first", "middle", "last"]


def test_steps_run_at_once(folder: Path) -> None:
    run_steps([step("one"), step("other")], meet, 2, lambda *_: None)


def test_a_step_that_fails_ends_the_preparation_and_is_named(folder: Path) -> None:
    told: list[dict[str, Any]] = []
    memory = Memory(folder / "prepared.json", KEYS, folder)
    with pytest.raises(StepError, match="data"):
        prepare([step("broken"), step("next", "broken")], memory, told.append, note, 1)
    assert [event["event"] for event in told] == ["preparing"]
    assert not (folder / "notes").exists()
    assert memory.steps() == {}


def test_what_was_prepared_is_not_prepared_again(folder: Path) -> None:
    memory = Memory(folder / "prepared.json", KEYS, folder)
    for name in ("one", "two", ""):
        told: list[dict[str, Any]] = []
        prepare([step("one"), step("two", "one")][: 1 if name == "one" else 2], memory, told.append, note, 1)
        made = (
            [{"event": "preparing", "steps": 1, "seconds": 3.0}, {"event": "prepared-step", "step": name}]
            if name
            else []
        )
        assert told[:2] == made
        assert [event["event"] for event in told[2:]] == ["prepared"] * bool(name)
    assert (folder / "notes").read_text().split() == ["one", "two"]
    taken = json.loads(memory.path.read_text())["steps"]["training"]
    assert sorted(taken) == ["one", "two"]
    assert min(taken.values()) >= 0


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


@pytest.mark.parametrize("text", ["", "[]", '{"keys": {}}', '{"keys": {}, "folders": [], "steps": {"training": {}}}'])
def test_a_memory_that_cannot_be_read_knows_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "prepared.json").write_text(text)
    assert Memory(tmp_path / "prepared.json", KEYS, tmp_path).steps() == {}


@pytest.mark.parametrize(
    ("file", "code", "changed"),
    [
        ("tinytorch/chapters/machine.py", "x = 1", set()),
        ("tinytorch/core/new.py", "# only said", set()),
        ("tinytorch/core/new.py", "x = 1", {"training", "compiling", "measuring"}),
        ("tinytorch/perf/kernels/new.py", "x = 1", {"compiling", "measuring"}),
        ("tinytorch/perf/measuring/new.py", "x = 1", {"measuring"}),
        ("tinytorch/perf/benchmarking/zoo.py", "x = 1", {"training"}),
        ("requirements.lock", "numpy==9", {"training", "compiling", "measuring"}),
    ],
)
def test_steps_are_done_again_when_what_they_compute_changes(
    tmp_path: Path, file: str, code: str, changed: set[str]
) -> None:
    sources = {name for names in preparation._SOURCES.values() for name in names}
    for name in (
        *(name if Path(name).suffix else f"{name}/new.py" for name in sources),
        "tinytorch/chapters/machine.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    first = keys_of(tmp_path, "machine")
    assert {work for work, key in keys_of(tmp_path, "another").items() if key != first[work]} == {*first}
    (tmp_path / file).write_text(code)
    assert {work for work, key in keys_of(tmp_path, "machine").items() if key != first[work]} == changed
