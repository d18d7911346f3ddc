"""Plans: the results of the model that they were made of, in which sense they are frozen, and what they refuse."""

import copy
import math
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.small_models import floats, settled, tokens
from tinytorch import models
from tinytorch.core import ops
from tinytorch.core.activations import GELU, ReLU, Sigmoid, Tanh
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import Dropout, Embedding, Flatten, LayerNorm, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.spatial import AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, TransformerBlock
from tinytorch.perf.acceleration import array_program, plans
from tinytorch.perf.acceleration.plans import BlockProgram, ModulePlan, plan
from tinytorch.perf.acceleration.recorded_graph import as_input
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels.plan_ops import rows
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.ops import gather_pad, pointwise
from tinytorch.perf.ops.images import conv2d_transposed
from tinytorch.perf.quantization import quantize_model


def exact(model: Module, x: Array) -> Array:
    tensors = [tensor for _, tensor in [*model.named_parameters(), *model.named_buffers()]]
    kept = [tensor.data for tensor in tensors]
    for tensor in tensors:
        tensor.data = tensor.data.astype(np.float64)
    with no_grad():
        output: Array = model(as_input(x.astype(np.float64) if x.dtype.kind == "f" else x)).data
    for tensor, data in zip(tensors, kept, strict=True):
        tensor.data = data
    return output


def assert_same(model: Module, x: Array, tolerance: float = 5e-6) -> ModulePlan:
    """Hold a plan's output, for the example and for other numbers, against float64, and return it.

    Where numbers are ill-conditioned, as two that are normalized, it may be off by four times what the model is.
    """
    made = plan(model, as_input(x))
    other = x[..., ::-1].copy()
    for each in (x, other):
        expected = exact(model, each)
        found = made(as_input(each)).data
        assert found.shape == expected.shape
        assert found.dtype == np.float32
        with no_grad():
            own = np.abs(model(as_input(each)).data - expected).max()
        atol = max(tolerance * np.abs(expected).max(), 4 * own)
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
    return made


def blocks(made: ModulePlan) -> list[Any]:
    assert isinstance(made.program, BlockProgram)
    return made.program.blocks


class Of(Module):
    """The forward is a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Odd(Module):
    """Ops in orders that no layer has, on operands that lie in odd ways."""

    def __init__(self) -> None:
        draw = np.random.default_rng(3)
        self.weight = Tensor(draw.standard_normal((6, 5), dtype=np.float32))
        self.row = Tensor(draw.standard_normal(5, dtype=np.float32))

    def forward(self, x: Tensor) -> Tensor:
        y = x.transpose(0, 2, 1) @ self.weight + self.row  # (N, 7, 5)
        z = apply(ops.concatenate, y[:, ::2], y[:, 1::3] * 0.5, axis=1)
        scores = z @ z.transpose(0, 2, 1)
        weights = apply(ops.softmax, scores / 3.0, axis=1)
        mixed = weights @ z - z.mean(axis=2, keepdims=True)
        top = apply(ops.maximum, mixed, 0.25).max(axis=1)
        signs = apply(ops.leaky_relu, -top, slope=0.1).reshape(-1, 5, 1)
        return (signs * signs[:, :, 0].reshape(-1, 1, 5) + 1.5).sqrt().sum(axis=(1, 2)) ** 2.0


def separate(x: Tensor) -> Tensor:
    """Return attention of queries over keys and values that are parts of one array."""
    q, k, v = (part.transpose(0, 2, 1, 3) for part in (x[:, 2:, :, :5], x[:, :, :, 5:10], x[:, :, :, 10:]))
    return apply(ops.attention, q, k, v, causal=True)


CASES: dict[str, tuple[Callable[[], Module], Callable[[int], Array]]] = {
    "mlp": (models.mlp, lambda batch: floats(batch, 1, 8, 8)),
    "cnn": (models.cnn, lambda batch: floats(batch, 1, 8, 8)),
    "gpt": (models.gpt, lambda batch: tokens(batch, 20)),
    "block of GPT-2's shape": (lambda: TransformerBlock(768, 12, seed=0), lambda batch: floats(batch, 33, 768)),
    "ops in any order on views of any kind": (Odd, lambda batch: np.abs(floats(batch, 6, 7))),
    "attention of separate operands": (lambda: Of(separate), lambda batch: floats(batch, 9, 3, 15)),
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_model_in_float64(name: str, batch: int) -> None:
    make, inputs = CASES[name]
    assert_same(settled(make()), inputs(batch), 2e-5 if make is Odd else 5e-6)


def test_blocks_of_samples_do_not_change_results() -> None:
    model = settled(models.cnn())
    made = assert_same(model, floats(67, 1, 8, 8))
    samples = [(block.samples, count) for block, count in blocks(made)]
    assert len(samples) == 2
    assert sum(count for _, count in samples) == 67
    assert all(count % each == 0 for each, count in samples)


@given(
    layer=st.builds(
        Conv2d, st.integers(1, 20), st.sampled_from([1, 4, 16, 24, 40]),
        st.tuples(st.integers(1, 3), st.integers(1, 3)), st.integers(1, 2), st.integers(0, 2), st.integers(1, 2),
        seed=st.just(1),
    ),
    shape=st.tuples(st.integers(1, 3), st.integers(5, 9), st.integers(5, 9)),
    tail=st.sampled_from(["none", "relu", "norm", "pool", "linear", "tanh and pool"]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_convolutions_of_any_shape(layer: Conv2d, shape: tuple[int, int, int], tail: str) -> None:
    layers: list[Module] = [layer]
    (batch, *size), channels, out = shape, layer.in_channels, layer.out_channels
    layers += {
        "none": [],
        "relu": [ReLU(), Conv2d(out, 3, 1, seed=2)],
        "norm": [BatchNorm2d(out), ReLU()],
        "pool": [AvgPool2d(2, 1, 1), AdaptiveAvgPool2d((2, 3))],
        "linear": [ReLU(), AdaptiveAvgPool2d(2), Flatten(), Linear(4 * out, 7, seed=3)],
        "tanh and pool": [Tanh(), MaxPool2d(2, 1, 1), BatchNorm2d(out), Flatten()],
    }[tail]
    assert_same(settled(Sequential(*layers)), floats(batch, channels, *size), 1e-5)


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), [(3, 1, 1, 1), (3, 2, 1, 1), ((5, 2), 1, 3, 2)])
@pytest.mark.parametrize(("channels", "size"), [(5, 7), (16, 9), (40, 23)])
def test_depthwise_convolutions(
    kernel: Any, stride: int, padding: int, dilation: int, channels: int, size: int
) -> None:
    """Of maps and of what a convolution made of them, between two ends or none."""
    depthwise = Conv2d(channels, channels, kernel, stride, padding, dilation, groups=channels, seed=0)
    clip = Of(lambda x: apply(pointwise.clip, x, low=-0.25, high=0.5))
    of_maps = settled(Sequential(depthwise, BatchNorm2d(channels), clip))
    assert_same(of_maps, floats(2, channels, size, size + 1))
    assert_same(settled(Sequential(Conv2d(3, channels, 1, seed=1), depthwise)), floats(2, 3, size, size + 1))


def _sigmoid(x: Tensor) -> Tensor:
    return apply(ops.sigmoid, x)


def _guarded(x: Tensor) -> Tensor:
    with np.errstate(invalid="ignore"):
        roots = (x + 0.5) ** 0.5
    return apply(ops.where, apply(pointwise.is_nan, roots), np.float32(0), roots)


#: What models write out, and the one step of it; the last three are near to a function, and are none.
WRITTEN_OUT: dict[str, tuple[Callable[[Tensor], Tensor], str | None]] = {
    "GELU of powers": (lambda x: x * 0.5 * (((x + x**3.0 * 0.044715) * math.sqrt(2 / math.pi)).tanh() + 1.0), "gelu"),
    "GELU of products": (lambda x: (1.0 + (x * (1.0 + 0.044715 * x * x) * 0.7978845608).tanh()) * x * 0.5, "gelu"),
    "GELU of erf": (lambda x: x * (apply(pointwise.erf, x / math.sqrt(2)) + 1.0) * 0.5, "exact_gelu"),
    "SiLU": (lambda x: x * _sigmoid(x), "silu"),
    "SiLU of an exponential": (lambda x: x / (apply(ops.exp, -x) + 1.0), "silu"),
    "another number where there is none": (_guarded, "where"),
    "another factor": (lambda x: x * _sigmoid(x * 1.702), None),
    "another array": (lambda x: x * _sigmoid(x[::-1]), None),
    "a part that is read elsewhere": (lambda x: (s := _sigmoid(x)) * x + s.sum(), None),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_functions_that_models_write_out(name: str) -> None:
    function, known = WRITTEN_OUT[name]
    steps = assert_same(Of(function), floats(4, 9), 2e-6).program.steps
    if known is None:
        assert len(steps) > 1
    else:
        assert [step.name for step in steps if step.name not in ("add", "power")] == [known]


ACTIVATIONS: dict[str, list[type[Module]]] = {
    "none": [],
    "relu": [ReLU],
    "gelu": [GELU],
    "tanh": [Tanh],
    "sigmoid": [Sigmoid],
}


@given(
    widths=st.lists(st.integers(1, 70), min_size=2, max_size=4),
    activations=st.lists(st.sampled_from(list(ACTIVATIONS)), min_size=3, max_size=3),
    bias=st.booleans(),
    norm=st.booleans(),
    rows=st.lists(st.integers(1, 9), min_size=0, max_size=2),
)
@settings(max_examples=40, deadline=None)
def test_linear_layers_of_any_width(
    widths: list[int], activations: list[str], bias: bool, norm: bool, rows: list[int]
) -> None:
    layers: list[Module] = []
    for number, (inner, columns) in enumerate(pairwise(widths)):
        layers += [Linear(inner, columns, bias, seed=number), *([LayerNorm(columns)] if norm else [])]
        layers += [make() for make in ACTIVATIONS[activations[number]]]
    layers.insert(1, Dropout(0.5))
    assert_same(settled(Sequential(*layers)), floats(*rows, 2, widths[0]), 3e-5)


@given(
    sizes=st.tuples(st.integers(2, 30), st.integers(1, 4), st.integers(1, 3), st.integers(1, 12)),
    batch=st.integers(1, 5),
    length=st.integers(1, 12),
)
@settings(max_examples=20, deadline=None)
def test_transformers_of_any_size(sizes: tuple[int, int, int, int], batch: int, length: int) -> None:
    vocabulary, heads, layers, depth = sizes
    model = settled(GPT(vocabulary, heads * depth, layers, heads, 12, seed=0))
    assert_same(model, tokens(batch, length, vocabulary), 2e-5)


def test_ops_that_belong_together_are_one_step() -> None:
    names = [step.name for step in plan(models.cnn(), floats(1, 1, 8, 8)).program.steps]
    convolutions = ["conv2d+relu", "conv2d+relu", "max_pool2d", "conv2d+relu", "max_pool2d", "linear"]
    assert [name for name in names if name != "copy"] == convolutions
    block = plan(TransformerBlock(96, 4, seed=0), floats(1, 20, 96))
    half = ["layer_norm", "linear", "self_attention", "linear+add"]
    names = [step.name for step in block.program.steps]
    assert names == [*half, "layer_norm", "linear+gelu", "linear+add"]


def test_arrays_that_are_not_alive_together_share_memory() -> None:
    layers = [Linear(256, 256, seed=number) for number in range(12)]
    made = plan(Sequential(*layers), floats(16, 256))
    assert blocks(made)[0][0].floats < 3 * (16 * 256 + 200)


def test_a_plan_is_frozen() -> None:
    model = models.mlp()
    x = floats(2, 1, 8, 8)
    made = plan(model, x)
    before = made(Tensor(x)).data
    assert model.training
    model.parameters()[0].data[...] = 7
    assert np.array_equal(made(Tensor(x)).data, before)
    with pytest.raises(ValueError, match="shape"):
        made(Tensor(floats(3, 1, 8, 8)))
    with pytest.raises(ValueError, match=r"dtype float32.*not.*int64"):
        made(np.ones((2, 1, 8, 8), np.int64))
    strided = np.asfortranarray(x)
    first = made(Tensor(strided)).data
    made(Tensor(np.zeros_like(x)))
    assert np.array_equal(first, before)
    assert copy.deepcopy(made) is made
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(made)


def test_an_index_out_of_range_is_told_and_the_plan_stays_usable() -> None:
    model = models.gpt()
    for batch in (1, 40):
        x = tokens(batch, 20)
        made = plan(model, x)
        before = made(x).data
        bad = x.copy()
        bad[-1, 3] = 11
        with pytest.raises(IndexError, match="x must hold indices"):
            made(bad)
        assert np.array_equal(made(x).data, before)


@pytest.mark.parametrize(
    "function", [lambda x: x * 2.0 if x.data[0, 0] > 0 else x * 3.0, lambda x: x + Tensor(np.sin(x.data))]
)
def test_what_depends_on_the_input_outside_of_ops_is_found(function: Callable[[Tensor], Tensor]) -> None:
    x = np.concatenate([np.ones((1, 8)), -np.ones((1, 8)) * np.arange(1, 9)]).astype(np.float32)
    with pytest.raises(ValueError, match="outside"):
        plan(Of(function), Tensor(x))


def test_samples_that_depend_on_one_another_stay_together() -> None:
    made = assert_same(Of(lambda x: x - x.mean(axis=0)), floats(300, 1000), 1e-5)
    assert [block.samples for block, _ in blocks(made)] == [300]


def four(error: type[Exception]) -> Module:
    """Return a model that raises unless it is given four samples."""

    def forward(x: Tensor) -> Tensor:
        if len(x.data) != 4:
            raise error("four samples")
        return apply(ops.exp, x)

    return Of(forward)


@pytest.mark.parametrize("model", [Of(lambda x: apply(ops.exp, x.reshape(4, 3))), four(ValueError), four(IndexError)])
def test_a_model_need_not_take_fewer_samples(model: Module) -> None:
    assert_same(model, floats(4, 3))


@pytest.mark.parametrize("error", [MemoryError, TypeError, RuntimeError])
def test_what_is_wrong_with_a_model_is_not_taken_for_its_shape(error: type[Exception]) -> None:
    with pytest.raises(error, match="four"):
        plan(four(error), floats(4, 3))


class Several(Module):
    """Two inputs, of which one picks; two outputs, one of whole numbers; ops with and without an entry point."""

    def __init__(self) -> None:
        self.linear, self.table = Linear(6, 6, seed=0), Embedding(9, 6, seed=1)

    def forward(self, x: Tensor, picked: Any) -> tuple[Tensor, Tensor]:
        y = self.linear(x) + self.table(picked)
        z = apply(pointwise.erf, apply(gather_pad.pad, y, widths=((0, 0), (1, 2)), mode="constant", value=0.5))
        return self.linear(z[:, 1:7]), apply(gather_pad.argmax, y, axis=1)


class Up(Module):
    """A transposed convolution between convolutions, whose maps lie channels last."""

    def __init__(self) -> None:
        self.first, self.weight = Conv2d(3, 4, 3, padding=1, seed=0), Tensor(floats(4, 5, 2, 2))
        self.last = Conv2d(5, 2, 3, seed=1)

    def forward(self, x: Tensor) -> Tensor:
        how = {"stride": (2, 2), "dilation": (1, 1), "groups": 1, "padding": (0, 0), "lengths": (12, 10)}
        return self.last(apply(conv2d_transposed, ReLU()(self.first(x)), self.weight, **how))


AS_ARRAYS: dict[str, tuple[Callable[[], Module], tuple[Array, ...]]] = {
    "several inputs and outputs": (Several, (floats(5, 6), tokens(1, 5, 9)[0])),
    "an index that is an array": (lambda: Of(lambda x: x[np.array([1, 0])]), (floats(2, 3),)),
    "a transposed convolution": (Up, (floats(2, 3, 6, 5),)),
    "float64 in between": (lambda: Of(lambda x: apply(ops.cast, x, dtype=np.dtype(np.float64))), (floats(2, 3),)),
    "codes": (lambda: quantize_model(models.mlp()), (floats(3, 1, 8, 8),)),
    "codes of maps": (lambda: quantize_model(models.cnn()), (floats(3, 1, 8, 8),)),
    "a comparison": (lambda: Of(lambda a, b: apply(pointwise.less, a, b)), (floats(2, 3), floats(2, 1) * 0.1)),
}


@pytest.mark.parametrize("name", AS_ARRAYS)
def test_what_no_table_holds_alone(name: str) -> None:
    make, inputs = AS_ARRAYS[name]
    model = settled(make())
    made = plan(model, *inputs)
    assert not any(each.training for _, each in model.named_modules())
    for others in (inputs, tuple(each[::-1].copy() for each in inputs)):
        with no_grad():
            expected = model(*map(as_input, others))
        plain = made(*map(as_input, others))
        with recording() as recorded:
            seen = made(*map(as_input, others))
        assert recorded.profile.events
        for found in (plain, seen):
            for mine, own in zip(
                *(each if isinstance(each, tuple) else (each,) for each in (found, expected)), strict=True
            ):
                assert mine.dtype == own.dtype
                atol = 1e-5 * max(np.abs(own.data).max(), 1)
                np.testing.assert_allclose(mine.data, own.data, rtol=0, atol=atol)
    assert all(each.seconds.minimum > 0 for each in made.step_times(*map(as_input, inputs), repeats=2))


def test_what_has_no_plan_is_refused() -> None:
    two = plan(settled(Several()), *AS_ARRAYS["several inputs and outputs"][1])
    with pytest.raises(ValueError, match="inputs"):
        two(floats(5, 6))
    with pytest.raises(ValueError, match="input"):
        plan(models.mlp(), floats(1, 1, 8, 8))(floats(1, 1, 8, 8), floats(1))
    with pytest.raises(IndexError, match="within"):
        two(floats(5, 6), tokens(1, 5, 9)[0] + 9)
    with pytest.raises(ValueError, match="sample"):
        plan(models.mlp(), floats(0, 1, 8, 8))
    with pytest.raises(ValueError, match="with ops"):
        plan(Embedding(3, 4).eval() and Sequential(), floats(2, 3))


def test_a_profiler_sees_each_step_and_its_work() -> None:
    model, x = settled(models.cnn()), floats(40, 1, 8, 8)
    made = plan(model, x)
    counted = []
    for each in (model, made):
        with no_grad(), recording() as recorded:
            output = each(Tensor(x)).data
        events = recorded.profile.events
        counted.append(sum(event.macs or 0 for event in events))
    assert counted[0] == counted[1] > 0
    np.testing.assert_allclose(output, made(Tensor(x)).data, rtol=0, atol=1e-6)
    assert {event.implementation for event in events} == {"plan"}
    assert {"conv2d+relu", "max_pool2d", "linear"} <= {event.op for event in events}
    assert all(event.traffic > 0 for event in events)


@pytest.mark.parametrize("axis", [None, 0])
def test_an_output_without_an_axis_of_samples(axis: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_WORTH_MEETING_NS", -1)
    x = floats(5, 4, 3)
    made = plan(Of(lambda x: apply(ops.mean, x, axis=axis)), Tensor(x))
    with recording() as recorded:
        seen = made(Tensor(x)).data
    assert [event.op for event in recorded.profile.events if event.op != "copy"] == ["mean"]
    for found in (seen, made(Tensor(x)).data):
        np.testing.assert_allclose(found, x.astype(np.float64).mean(axis), atol=1e-6)
    assert len(made.step_times(Tensor(x), repeats=1)) >= 1


def test_step_times_name_each_step() -> None:
    made = plan(models.mlp(), floats(1, 1, 8, 8))
    times = made.step_times(floats(1, 1, 8, 8), repeats=3)
    assert [each.name for each in times] == ["linear+relu", "linear+relu", "linear"]
    assert [each.path for each in times] == ["1", "3", "5"]
    assert all(each.seconds.n == 3 and each.seconds.minimum > 0 for each in times)
    assert plans.together(times, "all").samples == tuple(
        map(sum, zip(*(each.seconds.samples for each in times), strict=True))
    )


@pytest.mark.parametrize("batch", [1, 24])
@pytest.mark.parametrize("name", ["cnn", "gpt", "block of GPT-2's shape"])
def test_results_do_not_depend_on_threads(name: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make, inputs = CASES[name]
    monkeypatch.setattr(threads, "WORTH_A_THREAD_NS", 1)
    monkeypatch.setattr(plans, "_WORTH_MEETING_NS", 0)
    monkeypatch.setattr(array_program, "most_shares", lambda: 3)
    monkeypatch.setattr(rows, "most_shares", lambda: 3)
    x = inputs(min(batch, 3) if "block" in name else batch)
    made = plan(settled(make()), as_input(x))
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "limit", lambda count=count: count)
        found += [made(as_input(x)).data for _ in range(3)]
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize(("where", "odd"), [("x", np.nan), ("x", np.inf), ("x", -np.inf), ("weight", np.inf)])
def test_what_is_not_finite_spreads_as_in_numpy(where: str, odd: float) -> None:
    """A weight meets also the zeros around a map."""
    layer, x = Conv2d(1, 3, 3, padding=1, seed=0), floats(9, 1, 6, 6)
    model = Sequential(layer, ReLU(), MaxPool2d(2)).eval()
    if where == "weight":
        layer.weight.data[0, 0, 0, 0] = odd
    with no_grad(), np.errstate(all="ignore"):
        made = plan(model, Tensor(x))
        if where == "x":
            x[3, 0, 2, 4] = odd
        np.testing.assert_allclose(made(Tensor(x)).data, model(Tensor(x)).data, atol=1e-5)
