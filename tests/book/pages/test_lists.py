"""Parts of a build's time: from what environment and preparation kept, and unknown where they kept nothing."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from measured_book.pages.lists import environment_seconds, prepared_seconds

from scripts import environment
from scripts.building.preparation import Memory
from tinytorch.chapters.preparation import Step


def test_an_environment_says_how_long_it_took_and_one_of_before_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / ".venv"
    assert environment_seconds(made) is None
    monkeypatch.setattr(environment, "make", lambda folder, *_: folder.mkdir())
    clock = iter((100.0, 112.5))
    monkeypatch.setattr(environment, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    environment.ensure(made, environment.ROOT / "requirements.lock", None, None)
    assert environment_seconds(made) == 12.5
    assert environment.is_made(made, environment.fingerprint(environment.ROOT / "requirements.lock", ["", ""]))
    (made / environment.STAMP).write_text("fingerprint\n")
    assert environment_seconds(made) is None


def test_steps_are_added_up_by_their_work(tmp_path: Path) -> None:
    assert prepared_seconds(tmp_path, "training") == (0, None)
    memory = Memory(tmp_path / "prepared.json", {"training": "a", "compiling": "b"}, tmp_path)
    one, two = Step("one", "training", print, {"page"}, 1), Step("two", "compiling", print, {"page"}, 1)
    memory.add([(one, 2.0), (two, 3.0)])
    memory.add([(Step("three", "training", print, {"page"}, 1), 0.5)])
    assert prepared_seconds(tmp_path, "training") == (2, 2.5)
    assert prepared_seconds(tmp_path, "compiling") == (1, 3.0)
