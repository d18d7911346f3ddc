"""What the studies of whole passes compute: real ones of small models, and verdicts on made times."""

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tinytorch import models
from tinytorch.chapters.acceleration.tiles import PEAK
from tinytorch.chapters.whole_model import passes as chapter
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, FUSED, Tried
from tinytorch.perf.measuring import Counted, Derived, Unmeasured
from tinytorch.perf.measuring.comparison import compare_all
from tinytorch.perf.measuring.judge import Judgement, Verdict

#: So little that every gain is beyond doubt, but not the same twice.
HAIR = 1e-6


@pytest.mark.parametrize(("share", "limit"), [(0.75, 4), (1.1, 100), (-0.1, 1)])
def test_the_whole_gains_what_amdahl_says(share: float, limit: float) -> None:
    assert chapter.whole_gain(share).value == pytest.approx(limit)
    assert chapter.whole_gain(0.3, 10).value == pytest.approx(1 / 0.73)


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


def test_an_operation_pays_what_op_by_op_takes_beyond_the_plan() -> None:
    times = in_turns({"op by op": 400e-6, "kernels alone": 90e-6, "plan": 80e-6, "call": 2e-6, PEAK: 1e-4})
    found = chapter.PlanStudy(times, 10**7, 26, 18, Counted(10**5, "operations", "a product"))
    assert found.each.median == pytest.approx((400 - 80) / 26 / 2)
    assert found.worth.median == pytest.approx((400e-6 - 80e-6) / 26 * 1e11)
    assert found.over_product.median == pytest.approx(found.worth.median / 1e5)


def test_a_plan_of_the_gpt_has_fewer_steps_than_the_model_has_ops() -> None:
    model, tokens = models.gpt().eval(), np.zeros((1, 20), np.int64)
    found = chapter.study_plan(model, plan(model, tokens), tokens, repeats=6)
    assert 0 < found.steps < found.calls
    # Two blocks 96 wide, of 20 positions: to 3 x 96, to 96, to 4 x 96 and back, and once to 11 characters.
    assert found.product.value == 2 * 20 * 96 * 288


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
