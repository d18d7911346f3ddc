"""Three numbers of each variant, who is on a front, and the picture of both, on times of known ratios."""

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tinytorch.chapters.benchmarking import variants
from tinytorch.perf.benchmarking import ParetoFront, Performance, pareto_front
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.report import Page

#: Seconds and bytes of each variant.
TABLE = {"baseline": (12.0, 12_000), "quantized": (3.0, 3000), "pruned": (3.5, 1200), "combined": (2.0, 6000)}


def performance(name: str, seconds: float, right: int = 1900, nbytes: int = 1000, examples: int = 2000) -> Performance:
    noise = 1 + 0.001 * np.random.default_rng(len(name)).standard_normal(30)
    conditions = Conditions(interleaved_with=tuple(other for other in TABLE if other != name))
    times = Measurement(name, tuple(seconds * noise), "s", conditions)
    correct = np.arange(examples) < right
    return Performance(name, "forward", {64: (times,)}, {64: Counted(nbytes + 5000, "B", name)}, nbytes, correct, "run")


def suite() -> dict[str, Performance]:
    return {name: performance(name, seconds, nbytes=nbytes) for name, (seconds, nbytes) in TABLE.items()}


def test_each_variant_stands_beside_its_baseline() -> None:
    rows = {row["name"]: row for row in variants.against_baseline(suite())}
    assert [*rows] == [*TABLE]
    assert rows["baseline"]["speedup"] is None
    quantized, pruned = rows["quantized"], rows["pruned"]
    assert quantized["speedup"].verdict == "faster"
    assert float(quantized["speedup"]) == pytest.approx(4, rel=0.01)
    assert (pruned["memory"].median, pruned["right"].median) == (6200, 0.95)
    assert pruned["rate"].median == pytest.approx(64 / 3.5, rel=0.01)


@pytest.mark.parametrize(("both", "kept"), [(2.0, 1.0), (4.0, 0.5)])
def test_gains_that_multiply_keep_all_of_the_product(both: float, kept: float) -> None:
    times = in_turns({"neither": 12.0, "first": 6.0, "second": 4.0, "both": both})
    found = variants.gains(times, "neither")
    assert found["first"].median == pytest.approx(2, rel=0.01)
    assert variants.kept_of_product(found, ("first", "second"), "both").median == pytest.approx(kept, rel=0.01)
    with pytest.raises(ValueError, match="not interleaved"):
        variants.gains({**times, "first": Measurement("first", (6.0,) * 30, "s")}, "neither")


def test_who_is_on_a_front_is_counted() -> None:
    fronts = {
        "mlp": ParetoFront(("pruned", "combined"), {"quantized": ("pruned", "combined")}, {"combined": ("pruned",)}),
        "cnn": ParetoFront(("baseline",), {}, {}),
    }
    on_one, in_all = variants.on_fronts({"mlp": suite(), "cnn": suite()}, fronts)
    assert (on_one.value, in_all.value) == (2 + 1, 4 + 4)


def starve(one: Measurement) -> Measurement:
    return replace(one, conditions=replace(one.conditions, cpu_per_wall=0.5, blas_threads=1))


def test_nothing_is_off_a_front_by_a_verdict_that_the_page_withholds(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, page = suite(), Page("benchmarking")
    proven = pareto_front(measured, batch=64)
    assert "baseline" in proven.dominated
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: 1.0)
    starved = {name: replace(one, times={64: tuple(map(starve, one.times[64]))}) for name, one in measured.items()}
    front = pareto_front(starved, batch=64, told=page.judged)
    assert (front.front, dict(front.dominated)) == (tuple(TABLE), {})
    assert front.undecided["baseline"] == proven.dominated["baseline"]


def test_all_have_a_place_and_those_off_the_front_say_so() -> None:
    places = {"slow": (0.02, 95), "fast": (0.005, 90), "poor": (0.021, 80)}
    measured = {name: performance(name, seconds, right, examples=100) for name, (seconds, right) in places.items()}
    front = ParetoFront(("slow", "fast"), {"poor": ("slow",)}, {})
    found = variants.places({"mlp": measured}, {"mlp": front})
    assert [(one.model, one.name, one.on_front) for one in found] == [
        ("MLP", "slow", True), ("MLP", "fast", True), ("MLP", "poor", False),
    ]  # fmt: skip
    assert [one.seconds.median for one in found] == pytest.approx([0.02, 0.005, 0.021], rel=0.01)
    assert [one.right.median for one in found] == pytest.approx([0.95, 0.9, 0.8], rel=0.01)
