"""What the page says beside other engines, and where there are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.chapters.made_turns import in_turns, records
from tests.perf.made_ceilings import PEAK, made_ceilings
from tinytorch.chapters.whole_model import beside as chapter
from tinytorch.chapters.whole_model.beside import EAGER, RACES, Beside, Libraries
from tinytorch.perf.engines import ENGINES, Raced
from tinytorch.perf.host.blas import numpy_blas
from tinytorch.perf.measuring import Counted, Unmeasured
from tinytorch.report import Page
from tinytorch.report.records import Json

#: Operations of a product of 512 rows, 768 to 3,072.
FLOPS = 2 * 512 * 768 * 3072
LIBRARIES = Libraries("mkl 2024.2", "OpenBLAS 0.3.30")


def raced(seconds: Mapping[str, float]) -> Raced:
    return Raced("gpt-1", "forward", 1, in_turns(seconds), {})


def others(eager: float = 1.0) -> Beside:
    one = {"tinytorch": 2.0, "tinytorch fused": 0.5, EAGER: eager, "ONNX Runtime": 0.75}
    races = {key: raced(one) for key in RACES}
    races["step"] = raced({"tinytorch": 2.0, EAGER: 3.0})
    product = raced({"tinytorch": 4 * FLOPS / PEAK, EAGER: 2 * FLOPS / PEAK})
    return Beside([EAGER, "ONNX Runtime"], product, races)


def said_of(
    found: Beside | Unmeasured, loops: float = 100.0, noise: float = 0.0, called: Libraries = LIBRARIES
) -> dict[str, Json]:
    page = Page("whole_model")
    page.number("loops-over-numpy", Counted(loops, "", "time over time"))
    finished = in_turns({"loops": loops, "NumPy": 1.0}, noise={"loops": noise})
    chapter.record_engines(page, found, finished, made_ceilings(), called)
    return records(page)


def test_ours_is_the_fastest_of_ours_and_theirs_of_theirs() -> None:
    said = said_of(others())
    assert said["fastest-one"]["value"] == said["fastest-block"]["value"] == 1.5
    assert said["fastest-step"]["value"] == 1.5
    assert said["numpy-over-eager"]["value"] == 2
    assert (said["product-eager"]["value"], said["product-ours"]["value"]) == (pytest.approx(0.5), pytest.approx(0.25))
    rows = said["engines"]["rows"]
    assert [row["which"] for row in rows] == ["fused", "fused", "fused", "NumPy"]
    assert rows[3]["ONNX Runtime"] is None
    assert [row["what"] for row in rows] == [what for _, _, what in RACES.values()]


@pytest.mark.parametrize(
    ("loops", "noise", "verdict"),
    [(60.0, 0.0, "supported"), (40.0, 0.0, "refuted"), (50.0, 0.1, "open")],
)
def test_a_hundred_times_is_asked_of_the_loops_through_numpy(loops: float, noise: float, verdict: str) -> None:
    said = said_of(others(), loops, noise)
    assert said["loops-over-eager"]["value"] == pytest.approx(2 * loops)
    assert said["hundred-times-slower"]["verdict"] == verdict


def test_without_engines_every_number_says_why_and_nothing_is_claimed() -> None:
    said = said_of(Unmeasured("not installed"), called=Libraries(Unmeasured("no"), "OpenBLAS"))
    absent = {key for key, record in said.items() if record["kind"] == "absent"}
    measured = {key for key in said_of(others()) if key not in said or key in absent}
    assert (
        absent
        == measured
        == {
            *(f"fastest-{key}" for key in RACES),
            *("engines", "loops-over-eager", "numpy-over-eager", "product-eager", "product-ours", "pytorch-blas"),
            "hundred-times-slower",
        }
    )
    assert (said["pytorch-blas"]["reason"], said["fastest-one"]["reason"]) == ("no", "not installed")
    assert said["our-blas"]["word"] == "OpenBLAS"


def test_libraries_are_named() -> None:
    said = said_of(others())
    assert (said["pytorch-blas"]["word"], said["our-blas"]["word"]) == ("mkl 2024.2", "OpenBLAS 0.3.30")


def test_libraries_are_those_of_this_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "pytorch_blas", lambda: "mkl")
    found = chapter.libraries()
    assert (found.pytorch, found.ours) == ("mkl", numpy_blas().label())


def test_without_pytorch_nothing_races(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "missing", lambda name: Unmeasured(f"{name} is not here"))
    assert chapter.race_engines() == Unmeasured("PyTorch eager is not here")


def test_engines_race_on_every_case_with_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int]] = []

    @contextmanager
    def started(names: Sequence[str], cores: int) -> Iterator[list[str]]:
        yield [f"{name} on {cores}" for name in names]

    def run(started: list[str], of: str, phase: str, *, cores: int, **plan: Any) -> Raced:
        assert started == [f"{name} on 1" for name in ("tinytorch", EAGER)]
        asked.append((of, phase, cores))
        return raced({"tinytorch": 1.0, EAGER: 1.0})

    monkeypatch.setattr(chapter, "missing", lambda name: None)
    monkeypatch.setattr(chapter, "available", lambda: {"tinytorch": "1", EAGER: "2", "PyTorch, compiled decoding": "2"})
    only_decodes = type("Engine", (), {"phases": ("decode",)})
    monkeypatch.setattr(chapter, "ENGINES", {**ENGINES, "PyTorch, compiled decoding": only_decodes})
    monkeypatch.setattr(chapter, "runners", started)
    monkeypatch.setattr(chapter, "race", run)
    found = chapter.race_engines()
    assert isinstance(found, Beside)
    assert found.others == [EAGER]
    assert asked == [("product-512", "forward", 1), *((of, phase, 1) for of, phase, _ in RACES.values())]
