"""Fake quantization and training with it: the forward of the real codes, a gradient that passes straight through."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.perf.quantization.small_zoo import NAMES, batch, make
from tests.perf.small_models import drawn
from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Sequential
from tinytorch.core.op import Array
from tinytorch.core.optimizers import Adam
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import fit
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import (
    Plan,
    Scheme,
    decode,
    encode,
    finish_training,
    prepare_training,
    quantize,
    quantize_model,
)
from tinytorch.perf.quantization.convert import relative_error
from tinytorch.perf.quantization.training import fake_quantize

PLANS = [
    Plan("weight-only", Scheme(2, False, "channel")),
    Plan("weight-only", Scheme(4, True, "group", group=16), ranges="mse"),
    Plan("dynamic", Scheme(4, True, "tensor")),
    Plan("dynamic", activations="tensor", symmetric=False),
    Plan("static", Scheme(4, False, "channel"), symmetric=False),
    Plan("static"),
]


@given(
    x=hnp.arrays(np.float32, st.integers(1, 20), elements=st.floats(-50, 50, width=32)),
    scheme=st.sampled_from([Scheme(), Scheme(4, False), Scheme(2, False)]),
    zero_point=st.integers(-1, 1),
)
@settings(max_examples=60, deadline=None)
def test_the_forward_is_that_of_codes_and_the_gradient_passes_where_nothing_is_clipped(
    x: Array, scheme: Scheme, zero_point: int
) -> None:
    scale = np.float32(0.25)
    tensor = Tensor(x, requires_grad=True)
    made = fake_quantize(tensor, scale, zero_point, scheme)
    np.testing.assert_array_equal(made.data, decode(encode(x, scale, zero_point, scheme), scale, zero_point))
    made.backward(np.full(len(x), 3, np.float32))
    level = np.rint(x / scale) + zero_point
    np.testing.assert_array_equal(tensor.grad, np.where((level >= scheme.low) & (level <= scheme.high), 3, 0))


def test_bad_arguments_of_fake_quantize_are_named() -> None:
    cases = [(drawn(3), scale, "scale") for scale in (0.0, -1.0, np.nan, np.inf)]
    for x, scale, named in (*cases, (np.arange(3), 1.0, "floating")):
        with pytest.raises(ValueError, match=named):
            fake_quantize(Tensor(x), scale, 0, Scheme())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_what_trains_computes_what_the_finished_model_computes(name: str, plan: Plan) -> None:
    model, x = make(name), batch(name)
    prepared = prepare_training(model, plan)
    prepared.train()
    prepared(x)
    prepared.eval()
    finished = finish_training(prepared)
    with no_grad():
        expected, got = prepared(x).data, finished(x).data
    # A number within a rounding of the border of two codes may change sides, which later layers see.
    assert relative_error(expected, got) < (1e-5 if plan.mode == "weight-only" else 2e-2)
    assert relative_error(model(x).data, got) > 1e-4
    assert not any(type(module).__name__ == "FakeQuantized" for _, module in finished.named_modules())


def test_every_weight_gets_its_gradient() -> None:
    model, x = make("gpt"), batch("gpt")
    prepared = prepare_training(model, Plan(weights=Scheme(4, False, "channel")))
    CrossEntropyLoss()(prepared(x), np.sort(x, axis=1)).backward()
    for _, parameter in prepared.named_parameters():
        assert parameter.grad is not None
    assert all(parameter.grad is None for parameter in model.parameters()), "the original is not touched"
    with Profiler() as profiler:
        prepared(x)
    assert "fake_quantize" in {event.op for event in profiler.run.events}
    assert not profiler.run.uncounted


def blobs(count: int, seed: int) -> tuple[Array, Array]:
    """Return points around eight corners of a cube, each labelled by the parity of its corner."""
    generator = np.random.default_rng(seed)
    corners = generator.integers(0, 2, (count, 3))
    points = corners * 2 - 1 + 0.35 * generator.normal(size=(count, 3))
    return points.astype(np.float32), corners.sum(axis=1) % 2


def test_training_recovers_what_two_bits_lost() -> None:
    x, y = blobs(1500, 0)
    model = Sequential(Linear(3, 32, seed=0), ReLU(), Linear(32, 32, seed=1), ReLU(), Linear(32, 2, seed=2))
    batches = DataLoader(x, y, batch_size=50, shuffle=True, seed=0)
    fit(model, batches, CrossEntropyLoss(), Adam(model.parameters(), 0.01), 8)
    plan = Plan("static", Scheme(2, True, "tensor"))
    prepared = prepare_training(model, plan)
    fit(prepared, batches, CrossEntropyLoss(), Adam(prepared.parameters(), 0.005), 8)
    finished: Any = finish_training(prepared)
    test_x, test_y = blobs(1000, 1)
    with no_grad():
        best, lossy, after, trained = (
            float((each(Tensor(test_x)).data.argmax(axis=1) == test_y).mean())
            for each in (model, quantize_model(model, Tensor(x), plan), finished, prepared)
        )
    assert best > 0.97
    assert lossy < best - 0.05
    assert best - after < 0.3 * (best - lossy)
    assert after == pytest.approx(trained, abs=0.01)
    assert (finished[2].codes.array.dtype, finished[2].codes.shape) == (np.uint8, (8, 32))


def test_a_static_range_follows_the_batches_in_train_mode_only(tmp_path: Any) -> None:
    prepared: Any = prepare_training(Sequential(Linear(4, 3, seed=0)), Plan("static", symmetric=False)).eval()
    with pytest.raises(ValueError, match="train"):
        prepared(Tensor(drawn(2, 4)))
    with pytest.raises(ValueError, match="trained"):
        finish_training(prepared)
    prepared.train()
    first, second = drawn(8, 4), 5 * drawn(8, 4, seed=1)
    prepared(Tensor(first))
    np.testing.assert_array_equal(prepared[0].activation_range.data, [first.min(), first.max()])
    prepared(Tensor(second))
    moved = first.max() + 0.01 * (second.max() - first.max())
    assert prepared[0].activation_range.data[1] == pytest.approx(moved, rel=1e-6)
    kept = prepared[0].activation_range.data.copy()
    prepared.eval()
    expected = prepared(Tensor(100 * first)).data
    np.testing.assert_array_equal(prepared[0].activation_range.data, kept)
    finished: Any = finish_training(prepared)
    assert finished[0].activation_scale.data == pytest.approx((kept[1] - kept[0]) / 255, rel=1e-6)
    prepared.save(tmp_path / "half.npz")
    other: Any = prepare_training(Sequential(Linear(4, 3, seed=9)), Plan("static", symmetric=False))
    np.testing.assert_array_equal(other.load(tmp_path / "half.npz").eval()(Tensor(100 * first)).data, expected)


def test_keep_and_plans_are_those_of_quantize_model() -> None:
    model = Sequential(Linear(4, 3, seed=0), Linear(3, 3, seed=1), Linear(3, 2, seed=2))
    prepared: Any = prepare_training(model, keep=["0"], plans={"2": Plan("weight-only", Scheme(2))})
    assert type(prepared[0]) is Linear
    assert prepared[0] is not model[0]
    np.testing.assert_array_equal(prepared[2].weight.data, quantize(model[2].weight, Scheme(2)).dequantize())
    with pytest.raises(ValueError, match="keep"):
        prepare_training(model, keep=["9"])
    with pytest.raises(ValueError, match="prepare_training"):
        finish_training(model)
