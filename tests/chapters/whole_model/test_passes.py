"""What the studies of whole passes compute: real ones of small models, and verdicts on made times."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from tests.chapters.made_turns import in_turns, made
from tests.perf.made_ceilings import PEAK, made_ceilings
from tests.perf.quantization.small_zoo import batch, make
from tinytorch import models
from tinytorch.chapters.whole_model import passes as chapter
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.greedy_search import Climb, Kept, Move
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.acceleration.teaching import TEACHING
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, FUSED, Tried
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured
from tinytorch.perf.measuring.comparison import compare_all, compare_paired
from tinytorch.perf.measuring.judge import Judgement, Verdict

#: So little that every gain is beyond doubt, but not the same twice.
HAIR = 1e-6


class Turns:
    """Stands in for `interleave`: keeps what each run returned, and gives every run a second."""

    def __init__(self) -> None:
        self.outputs: dict[str, Any] = {}
        self.within: dict[str, Any] = {}

    def __call__(
        self, runs: Mapping[str, Callable[[], Any]], within: Mapping[str, Any] | None = None, **_plan: Any
    ) -> dict[str, Measurement]:
        self.outputs, self.within = {name: run() for name, run in runs.items()}, dict(within or {})
        return in_turns(dict.fromkeys(runs, 1.0))


def test_all_passes_compute_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    monkeypatch.setattr(chapter, "interleave", turns)
    assert [*chapter.whole_passes(make("gpt"), batch("gpt")[:1], TEACHING)] == ["loops", "NumPy", "kernels", "plan"]
    for output in turns.outputs.values():
        np.testing.assert_allclose(output.data, turns.outputs["NumPy"].data, rtol=0, atol=1e-4)


def test_training_steps_start_from_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    monkeypatch.setattr(chapter, "interleave", turns)
    chapter.training_steps()
    assert turns.outputs["kernels"] == pytest.approx(turns.outputs["NumPy"], rel=1e-4)
    assert set(turns.within) == {"NumPy", "kernels"}


def test_a_batch_gains_sequences_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", make)
    monkeypatch.setattr(chapter, "interleave", lambda runs, **plan: in_turns(dict(zip(runs, (1.0, 4.0), strict=True))))
    assert chapter.batched_gain().median == 64 / 4


def test_moves_that_were_kept_are_named_in_a_readers_words() -> None:
    def move(op: str, gained: float) -> Move:
        times = in_turns({"before": gained, "after": 1.0}, noise={"after": HAIR})
        predicted = Modelled(gained, "", "speedup", "Amdahl's law")
        trial = compare_paired(times["before"], times["after"], matters=0.05)
        return Move(op, "numpy", "numba", made(0.5, "%"), made(4.0), predicted, trial)

    stages = tuple(in_turns({"as it began": 8.0, "after": 4.0}).values())
    kept = chapter.kept_moves(Climb((move("gelu", 2.0), move("linear", 0.2)), stages), {"gelu": "GELU"})
    assert [*kept] == ["GELU: numpy to numba"]


@pytest.mark.parametrize(("share", "limit"), [(0.75, 4), (1.1, 100), (-0.1, 1)])
def test_the_whole_gains_what_amdahl_says(share: float, limit: float) -> None:
    assert chapter.whole_gain(share).value == pytest.approx(limit)
    assert chapter.whole_gain(0.3, 10).value == pytest.approx(1 / 0.73)


def test_both_ways_are_timed_at_each_size() -> None:
    found = chapter.calls_by_size((1, 5))
    assert [*found] == [1, 5]
    assert all({*each} == {"loop", "vectorized"} for each in found.values())


@pytest.mark.parametrize(
    ("faster", "border"),
    [
        ({4: 1.5, 16: 0.8, 64: 3.0, 4096: 128.0}, 64),
        ({4: 1.5, 4096: 128.0}, 4),
        ({4: 0.2, 4096: 0.9}, None),
    ],
)
def test_numpy_pays_from_the_first_size_on_from_which_it_is_faster_for_good(
    faster: dict[int, float], border: int | None
) -> None:
    times = {
        size: in_turns({"loop": 1e-6 * gain, "vectorized": 1e-6}, noise={"vectorized": HAIR})
        for size, gain in faster.items()
    }
    _, predicted, found = chapter.border(times)
    # The calls take a microsecond, and a turn of the loop what the last size says.
    assert predicted.value == pytest.approx(4096 / faster[4096])
    assert (found.value if isinstance(found, Derived) else None) == border


def test_a_plan_of_the_gpt_has_fewer_steps_than_the_model_has_ops() -> None:
    model, tokens = models.gpt().eval(), np.zeros((1, 20), np.int64)
    found = chapter.study_plan(model, plan(model, tokens), tokens, made_ceilings(), repeats=6)
    assert 0 < found.steps < found.calls
    assert 0 < found.joined_calls < found.calls
    # Two blocks 96 wide, of 20 positions: to 3 x 96, to 96, to 4 x 96 and back, and once to 11 characters.
    assert found.product.value == 2 * 20 * 96 * 288
    inside, call = found.inside.median, found.call.median
    assert found.planned_predicted.value == pytest.approx(inside + call)
    assert found.op_by_op_predicted.value == pytest.approx(inside + found.calls * call)
    assert found.worth.value == pytest.approx(found.each.median * PEAK)
    assert found.planned_over_predicted.median == pytest.approx(found.planned.median / (inside + call), rel=0.01)
    assert found.op_by_op_over_predicted.median > 0


@pytest.mark.parametrize("op_by_op", [400e-6, 70e-6])
def test_an_operation_pays_what_op_by_op_takes_beyond_the_plan(
    monkeypatch: pytest.MonkeyPatch, op_by_op: float
) -> None:
    times = in_turns({"op by op": op_by_op, "joined": op_by_op, "kernels alone": 90e-6, "plan": 80e-6, "call": 2e-6})
    monkeypatch.setattr(chapter, "interleave", lambda *_, **__: times)
    model, tokens = models.gpt().eval(), np.zeros((1, 20), np.int64)
    found = chapter.study_plan(model, plan(model, tokens), tokens, made_ceilings())
    assert found.each.median == pytest.approx((op_by_op - 80e-6) / found.calls)


def test_a_pass_that_takes_less_than_its_steps_has_no_bar_beyond_them() -> None:
    drawn = chapter.draw_passes({"plan": made(70e-6, "s")}, made(78e-6, "s"), xlabel="time (µs)")
    widths = [bar.get_width() for bar in drawn.axes[0].patches if isinstance(bar, Rectangle)]
    assert widths == [pytest.approx(78), 0]


@pytest.mark.parametrize(
    ("kernels", "noise", "choice", "steps"),
    [(0.5, HAIR, "fused kernels", 20.0), (2.0, HAIR, BASELINE, None), (0.99, 0.4, BASELINE, None)],
)
def test_training_chooses_what_is_proven_and_pays_back_what_was_compiled(
    monkeypatch: pytest.MonkeyPatch, kernels: float, noise: float, choice: str, steps: float | None
) -> None:
    monkeypatch.setattr(chapter, "compile_seconds", lambda: {"one": 6.0, "two": 4.0})
    times = in_turns({"NumPy": 1.0, "kernels": kernels}, noise={"kernels": noise})
    gain = compare_paired(times["NumPy"], times["kernels"], matters=0.1)
    assert chapter.fused_or_numpy(gain).word == choice
    found = chapter.payback(times, gain, chapter.compiling())
    assert isinstance(found, Unmeasured) == (steps is None)
    if isinstance(found, Modelled):
        assert found.value == pytest.approx(steps, rel=1e-3)


def test_the_price_of_a_choice_is_that_of_each_technique_in_it() -> None:
    choice = chapter.fastest(made_rule((10.0, 90.0), 0.5, 2.0).tried[0])
    price = chapter.priced(choice, [FUSED, CODES])
    assert price.word == "one shape, copied weights or an error"
    assert price.tests == choice.tests


def test_the_fastest_technique_is_open_where_several_may_be() -> None:
    one, other = made_rule((10.0, 90.0), 0.5, 1.0).tried
    assert (chapter.fastest(one).verdict, chapter.fastest(one).word) == (Verdict.SUPPORTED, FUSED)
    assert chapter.fastest(other).verdict is Verdict.OPEN
    assert {*chapter.fastest(other).word.split(" or ")} == {FUSED, CODES}


@pytest.mark.parametrize(
    ("choice", "planned", "verdict"),
    [(FUSED, 0.5, Verdict.SUPPORTED), (CODES, 0.5, Verdict.REFUTED), (CODES, 1.0, Verdict.OPEN)],
)
def test_a_choice_holds_if_nothing_is_proven_to_be_faster(choice: str, planned: float, verdict: Verdict) -> None:
    rule = made_rule((10.0, 90.0), planned, 2.0)
    held = rule.holds(choice, rule.tried[0])
    assert isinstance(held, Judgement)
    assert held.verdict is verdict
    assert isinstance(rule.holds(Unmeasured("no border"), rule.tried[0]), Unmeasured)


def test_the_reuse_is_that_of_the_layer_in_which_the_median_operation_lies() -> None:
    layers = Sequential(Linear(100, 300, seed=0), Linear(300, 10, seed=0))
    assert chapter.reuse(layers, np.ones((2, 100), np.float32)).value == pytest.approx(100 * 300 / 400)
    # A filter of 3 x 3 over 4 channels for each of 8; one for each channel alone has nothing to share.
    image = Tensor(np.ones((1, 4, 6, 6), np.float32))
    assert chapter.reuse(Conv2d(4, 8, 3, seed=0), image).value == pytest.approx(36 * 8 / 44)


def made_rule(reuse: tuple[float, float], plan_first: float, plan_second: float) -> chapter.Rule:
    """Return a rule of two workloads, on which 8-bit layers take a second, NumPy three, and a plan as long as given."""

    def tried(name: str, planned: float) -> Tried:
        noise = dict.fromkeys((FUSED, CODES), HAIR)
        times = in_turns({BASELINE: 3.0, FUSED: planned, CODES: 1.0}, noise=noise)
        gained = compare_all(times[BASELINE], times[FUSED], times[CODES], matters=0.05)
        return Tried(name, times, gained, {}, {}, {})

    counted = {name: Counted(each, "1", "reuse") for name, each in zip(("one", "two"), reuse, strict=True)}
    return chapter.Rule(counted, [tried("one", plan_first), tried("two", plan_second)])


def test_a_rule_draws_its_border_between_what_it_knows() -> None:
    rule = made_rule((10.0, 90.0), 0.5, 2.0)
    assert [row["fastest"] for row in rule.rows] == [FUSED, CODES]
    assert isinstance(rule.border, Derived)
    assert rule.border.value == pytest.approx(30)
    layer, x = Linear(100, 100, seed=0), np.ones((1, 100), np.float32)
    assert rule.choice(layer, x) == CODES
    assert rule.choice(Linear(20, 20, seed=0), x[:, :20]) == FUSED


@pytest.mark.parametrize(("reuse", "second"), [((90.0, 10.0), 2.0), ((10.0, 90.0), 0.5)])
def test_where_reuse_parts_nothing_there_is_no_border(reuse: tuple[float, float], second: float) -> None:
    rule = made_rule(reuse, 0.5, second)
    assert isinstance(rule.border, Unmeasured)
    assert isinstance(rule.choice(Linear(2, 2, seed=0), np.ones((1, 2), np.float32)), Unmeasured)


def test_moves_come_before_the_plan_each_against_the_start() -> None:
    times = in_turns({"before": 2.0, "after": 1.0})
    trial = compare_paired(times["before"], times["after"], matters=0.05)
    predicted = Modelled(2.0, "", "speedup", "Amdahl's law")
    move = Move("gelu", "numpy", "numba", made(0.5, "%"), made(4.0), predicted, trial)
    found = chapter.reached({"a move": Kept(move, made(2.0), made(3.0))}, {"a plan": made(8.0)})
    assert {name: one.median for name, one in found.items()} == {"a move": 3.0, "a plan": 8.0}
