"""The course's own examples on products, loops and copies are those that are timed."""

from typing import Any

import pytest

from tests.chapters.made_turns import in_turns
from tinytorch.chapters.acceleration import sentences as chapter


def test_the_examples_are_the_courses(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[dict[str, Any]] = []

    def run_once(fresh: Any, **_plan: Any) -> dict[str, Any]:
        outputs.append({name: run() for name, run in fresh().items()})
        return in_turns({name: float(at) for at, name in enumerate(outputs[-1], start=1)})

    monkeypatch.setattr(chapter, "interleave", run_once)
    gains = chapter.study_sentences()
    assert [gains[0].median, gains[2].median] == pytest.approx([0.5, 2])
    assert chapter.INTENSITY.value == pytest.approx(2 * 1024**3 / chapter.MOVED.value)
    layer, added, copied = outputs
    assert layer["loops"] == pytest.approx(layer["product"], abs=1e-4)
    assert layer["product"].shape == (32, 64)
    assert added["loop"] == pytest.approx(added["sum"])
    assert len(added["sum"]) == 1000
    assert copied["list"] == copied["with copies"] == list(range(5000))
