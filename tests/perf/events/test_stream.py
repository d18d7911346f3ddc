"""The event stream, which changes and keeps nothing, and FLOPs against closed forms and published shapes."""

import gc
import json
import math
import weakref
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.small_models import HIDDEN, INPUTS, OUTPUTS, ROWS, Mystery, rows, two_layers
from tinytorch.core import ops
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply, observed_by
from tinytorch.core.layers import Embedding, LayerNorm, Linear
from tinytorch.core.losses import MSELoss
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array, Op, Saved, UncountedError, Work
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.events.flops import FLOPCounter, NotCounted
from tinytorch.perf.events.stream import Columns, Profile, Recorder, counted, profiler_overhead, recording
from tinytorch.perf.events.trace import trace_text
from tinytorch.perf.measuring.memory import MemoryTracker
from tinytorch.perf.measuring.model_io import zeros_for
from tinytorch.perf.profiling import Profiler, count_flops


def trained_once() -> Profile:
    model = two_layers()
    with recording() as done:
        MSELoss()(model(rows()), np.zeros((ROWS, OUTPUTS), np.float32)).backward()
    return done.profile


def test_counts_are_those_made_by_hand() -> None:
    events = trained_once().events
    first, last = ROWS * INPUTS * HIDDEN, ROWS * HIDDEN * OUTPUTS
    linear = [(event.macs, event.flops) for event in events if event.op == "linear"]
    # Backward: both gradients of the last layer, and of the first only that of its weight.
    assert linear == [(first, 2 * first), (last, 2 * last), (2 * last, 4 * last), (first, 2 * first)]


def test_spans_nest_around_their_ops_and_the_trace_has_all_of_them() -> None:
    profile = trained_once()
    traced = json.loads(trace_text(profile))["traceEvents"]
    for event in profile.events:
        assert profile.start <= event.start <= event.end <= profile.end
        timing = {"ts": (event.start - profile.start) / 1e3, "dur": (event.end - event.start) / 1e3}
        (shown,) = [one for one in traced if timing.items() <= one.items() and one["cat"] == event.phase]
        assert (shown["name"], shown["args"]["flops"], shown["ph"]) == (event.op, event.flops, "X")
        if event.phase == "forward":
            (span,) = [span for span in profile.spans if span.path == event.path]
            assert span.start <= event.start <= event.end <= span.end
    outer = {span.depth: span for span in profile.spans if span.path.startswith("Sequential")}
    assert outer[0].start <= outer[1].start <= outer[1].end <= outer[0].end


def test_two_models_of_one_class_are_told_apart_also_in_backward() -> None:
    one, other = two_layers(), two_layers()
    with recording() as done:
        (one(rows()).sum() + other(rows()).sum()).backward()
    for phase in ("forward", "backward"):
        paths = {event.path.split(".")[0] for event in done.profile.events if event.phase == phase}
        assert paths == {"Sequential", "Sequential#2", ""}


def test_an_op_inside_an_op_is_not_counted_twice() -> None:
    def outer_forward(keep: bool, x: Array) -> tuple[Array, Saved]:
        return apply(ops.exp, apply(ops.exp, Tensor(x))).data, ()

    outer = Op("outer", outer_forward, lambda gradient, saved, needs, owned: (gradient,), lambda call: Work())
    with recording() as done:
        apply(outer, Tensor(np.ones(1000, np.float32)))
    (around,) = [event for event in done.profile.events if event.op == "outer"]
    assert around.self_ns == around.total_ns - sum(event.total_ns for event in done.profile.events if event != around)
    assert sum(event.self_ns for event in done.profile.events) == around.total_ns


def test_recording_keeps_no_array_alive() -> None:
    recorder, model = Recorder(), BatchNorm2d(2).eval()  # its running statistics are parameters of the op
    x, indices = Tensor(np.ones((1, 2, 4, 4), np.float32)), np.array([0, 0])
    with observed_by(recorder):
        y = model(x)[indices]
    alive = [weakref.ref(array) for array in (x.data, y.data, indices, model.running_mean.data, model.weight.data)]
    profile = recorder.profile(0, 1)
    del x, y, indices, model
    gc.collect()
    assert [reference() for reference in alive] == [None] * len(alive)
    assert [event.op for event in profile.events] == ["batch_norm", "getitem"]
    # Two operations an element with given statistics: the formula saw the parameter that was let go.
    assert profile.events[0].elementwise == 2 * 2 * 16


@pytest.mark.parametrize(
    ("index", "is_kept"),
    [
        *((index, False) for index in (np.array([0, 1]), (slice(None), np.array([0])), slice(np.array(0), None), [0])),
        *((index, True) for index in (3, slice(1, 3), (slice(None), 2))),
        ((None, Ellipsis), False),
    ],
)
def test_no_index_keeps_its_array_alive_and_a_plain_one_is_counted_later(index: Any, is_kept: bool) -> None:
    recorder = Recorder()
    with observed_by(recorder):
        y = rows()[index]
    assert ([value for _, call in recorder._calls for value in call.params.values()] != []) is is_kept
    (event,) = recorder.profile(0, 1).events
    assert event.elementwise == 0
    assert event.traffic >= 2 * y.nbytes


def test_an_op_without_formula_has_no_work_and_is_named() -> None:
    with recording() as done:
        Mystery()(rows())
    found = {event.op: (event.macs, event.flops, event.elementwise) for event in done.profile.events}
    assert found["mystery"] == (None, None, None)
    assert found["linear"][1] == 2 * ROWS * INPUTS * OUTPUTS
    assert done.profile.uncounted == ("mystery",)


def test_the_recorded_run_is_there_after_an_error_and_the_collector_is_back_on() -> None:
    with pytest.raises(ValueError, match="the last axis of linear"), recording() as done:
        two_layers()(Tensor(np.ones((2, 7), np.float32)))
    assert tuple(done.profile.events) == ()
    assert [span.path for span in done.profile.spans] == ["Sequential", "Sequential.0"]
    assert gc.isenabled()


def test_the_profilers_own_cost_is_not_measured_under_another_observer() -> None:
    with observed_by(Recorder()), pytest.raises(RuntimeError, match="without observers"):
        profiler_overhead()


def test_many_small_ops_are_few_objects_and_few_bytes() -> None:
    one = Tensor(np.ones(1, np.float32))
    recorder, count = Recorder(), 5000
    with observed_by(recorder):
        apply(ops.add, one, one)
        gc.collect()
        tracked = len(gc.get_objects())
        with MemoryTracker() as memory:
            for _ in range(count):
                apply(ops.add, one, one)
        gc.collect()
        assert len(gc.get_objects()) - tracked < 100, "the collector has nothing of them to walk"
    assert memory.current_bytes < 200 * count
    profile = recorder.profile(0, 1)
    assert (len(profile.events), len(profile.columns.kinds)) == (1 + count, 1)


def test_calls_of_other_cost_are_other_kinds() -> None:
    x = Tensor(np.ones((4, 6), np.float32))
    with recording() as done:
        for index in (slice(0, 2), slice(0, 3), 0, 0, np.array([0, 1]), np.array([2, 3])):
            x[index]
        x.sum(axis=0)
        x.sum(axis=1)
    kinds = done.profile.columns.kinds
    assert [kind.output.shape for kind in kinds] == [(2, 6), (3, 6), (6,), (2, 6), (6,), (4,)]
    assert [count for _, count in counted(done.profile.events)] == [1, 1, 2, 2, 1, 1]
    assert sum(count for _, count in counted(list(done.profile.events))) == 8
    assert Columns.of(tuple(done.profile.events)) == done.profile.events


small = st.integers(1, 6)


@pytest.mark.parametrize("shape", [(1, 512), (7, 512), (512,)])
def test_linear_512_is_524288_a_sample_at_any_batch(shape: tuple[int, ...]) -> None:
    assert Profiler().count_flops(Linear(512, 512, seed=0), shape) == 524_288


@pytest.mark.parametrize(("length", "flops"), [(1024, 291_648_307_200), (128, 32_228_179_968)])
def test_a_gpt_of_gpt2_small_shape_at_both_published_lengths(length: int, flops: int) -> None:
    assert FLOPCounter().count_transformer(50_257, 768, 12, length) == flops


def multiplied_by_hand(height: int, width: int, kernel: int, stride: int, padding: int) -> int:
    """Count taps that a window meets at every place where it fits into the padded image, by walking there."""
    tops, lefts = (range(0, size + 2 * padding - kernel + 1, stride) for size in (height, width))
    return sum(kernel * kernel for _ in product(tops, lefts))


@settings(deadline=None, max_examples=50)
@given(
    st.tuples(st.integers(3, 9), st.integers(3, 9)),
    small,
    small,
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_convolution_counts_padding_and_stride(
    size: tuple[int, int], inputs: int, outputs: int, kernel: int, stride: int, padding: int
) -> None:
    by_hand = 2 * inputs * outputs * multiplied_by_hand(*size, kernel, stride, padding)
    closed = FLOPCounter().count_conv2d(*size, inputs, outputs, kernel, stride=stride, padding=padding)
    layer = Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, seed=0)
    assert closed == Profiler().count_flops(layer, (2, inputs, *size)) == by_hand


def test_groups_and_dilation_divide_and_shrink() -> None:
    counter = FLOPCounter()
    whole, grouped = (counter.count_conv2d(8, 8, 4, 8, 3, groups=groups) for groups in (1, 4))
    assert whole == 4 * grouped
    layer = Conv2d(4, 8, 3, dilation=2, groups=2, seed=0)
    assert counter.count_conv2d(8, 8, 4, 8, 3, dilation=2, groups=2) == Profiler().count_flops(layer, (1, 4, 8, 8))


@pytest.mark.parametrize(("needed", "times"), [(True, 2), (False, 1)])
def test_a_grouped_convolution_backward_is_twice_its_forward_and_half_of_that_without_the_inputs_gradient(
    needed: bool, times: int
) -> None:
    x = Tensor(np.ones((3, 4, 6, 6), np.float32), requires_grad=needed)
    found = Profiler().profile_backward_pass(Conv2d(4, 8, 3, padding=1, groups=2, seed=0), x)
    assert found["forward_flops"] == 3 * FLOPCounter().count_conv2d(6, 6, 4, 8, 3, padding=1, groups=2)
    assert found["backward_flops"] == times * found["forward_flops"]


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 20), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_attention_by_formula_is_attention_as_it_ran(length: int, heads: int, depth: int, batch: int) -> None:
    width, counter = heads * depth, FLOPCounter()
    closed = counter.count_attention(length, width, batch)
    ran = counter.count_model_forward(MultiHeadAttention(width, heads, seed=0), (batch, length, width))
    assert ran == closed == batch * (4 * length * length * width + 8 * length * width * width)
    assert counter.count_attention(length, width, batch, projections=False) == 4 * batch * length**2 * width


@settings(deadline=None, max_examples=15)
@given(st.integers(2, 30), st.integers(1, 3), st.integers(1, 8), st.integers(1, 3), st.integers(1, 6))
def test_a_transformer_by_formula_is_the_gpt_as_it_ran_and_its_mlp_as_wide_as_it_is_said_to_be(
    vocab: int, layers: int, length: int, batch: int, ratio: int
) -> None:
    """Attention and the vocabulary stay what they are; two products of 2 B T d (r d) grow with r."""
    counter, width, rows = FLOPCounter(), 8, batch * length
    ran = counter.count_model_forward(GPT(vocab, width, layers, 2, 8, seed=0), (batch, length))
    assert ran == counter.count_transformer(vocab, width, layers, length, batch)
    attention = layers * counter.count_attention(length, width, batch)
    expected = attention + layers * 2 * 2 * rows * width * (ratio * width) + 2 * rows * width * vocab
    assert counter.count_transformer(vocab, width, layers, length, batch, mlp_ratio=ratio) == expected


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 4), st.lists(st.sampled_from(["linear", "conv", "attention", "model"]), min_size=1, max_size=5))
def test_the_breakdown_sums_to_the_total(batch: int, kinds: list[str]) -> None:
    counter = FLOPCounter()
    count = {
        "linear": lambda: counter.count_linear(3, 4, batch),
        "conv": lambda: counter.count_conv2d(6, 6, 2, 3, 3, batch, padding=1),
        "attention": lambda: counter.count_attention(5, 4, batch),
        "model": lambda: counter.count_model_forward(two_layers(), (batch, INPUTS)),
    }
    returned = sum(count[kind]() for kind in kinds)
    rows = sum(row.flops or 0 for row in counter.rows)
    assert sum(counter.breakdown().values()) == counter.total_flops == 2 * counter.total_macs == rows == returned


def test_bias_and_activation_are_elementwise_and_never_flops() -> None:
    counter = FLOPCounter()
    assert counter.count_linear(INPUTS, OUTPUTS, ROWS) == 2 * ROWS * INPUTS * OUTPUTS
    assert counter.total_elementwise == ROWS * OUTPUTS
    counter.reset()
    counter.count_model_forward(two_layers(), (ROWS, INPUTS))
    bias, relu = ROWS * (HIDDEN + OUTPUTS), ROWS * HIDDEN
    assert counter.total_elementwise == bias + relu


def test_backward_is_counted_on_a_backward_that_ran() -> None:
    last, first = ROWS * HIDDEN * OUTPUTS, ROWS * INPUTS * HIDDEN
    assert FLOPCounter().count_model_backward(two_layers(), (ROWS, INPUTS)) == 2 * (2 * last + first)


def test_an_op_without_formula_raises_or_is_listed_and_never_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UncountedError, match="mystery"):
        Profiler().count_flops(Mystery(), (ROWS, INPUTS))
    counter = FLOPCounter(uncounted="list")
    assert counter.count_model_forward(Mystery(), (ROWS, INPUTS)) == 2 * ROWS * INPUTS * OUTPUTS
    assert counter.uncounted_ops == ("mystery",)
    assert [(row.macs, row.flops, row.elementwise) for row in counter.rows if row.op == "mystery"] == [(None,) * 3]
    counter.print_report("Toy")
    said = capsys.readouterr().out
    assert f"Toy: {2 * ROWS * INPUTS * OUTPUTS:,} FLOPs" in said
    assert "uncounted, in no sum: mystery" in said


@pytest.mark.parametrize(("model", "error"), [(Mystery(), UncountedError), (Sequential(), ValueError)])
def test_a_refused_model_leaves_the_counter_as_it_was(model: Any, error: type[Exception]) -> None:
    counter = FLOPCounter()
    counter.count_linear(2, 3)
    with pytest.raises(error, match=r"mystery|no op"):
        counter.count_model_forward(model, (ROWS, INPUTS))
    assert (counter.total_flops, len(counter.rows)) == (12, 1)


class Unknown:
    """No Module, and computes without ops."""

    def __call__(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize("model", [Unknown(), Unknown().__call__, lambda x: x, np.asarray])
@pytest.mark.parametrize(
    "count", [lambda m, x: FLOPCounter().count_model_forward(m, x), count_flops, Profiler().count_flops]
)
def test_every_counter_answers_alike_of_what_runs_no_op(model: Any, count: Any) -> None:
    assert isinstance(count(model, (ROWS, INPUTS)), NotCounted)


def test_what_runs_no_op_is_listed_and_in_no_sum(capsys: pytest.CaptureFixture[str]) -> None:
    counter = FLOPCounter()
    counter.count_linear(2, 3)
    assert str(counter.count_model_forward(Unknown(), (ROWS, INPUTS))) == "not counted"
    assert (counter.total_flops, counter.uncounted_ops) == (12, ("Unknown",))
    counter.print_report()
    assert "uncounted, in no sum: Unknown" in capsys.readouterr().out


class Late(Module):
    """Its first module has no parameters, the second is an embedding."""

    def __init__(self) -> None:
        self.inner = Sequential()
        self.table = Embedding(5, 3, seed=0)


class Declared(Module):
    input_dtype = "int32"


@pytest.mark.parametrize(
    ("model", "dtype"),
    [
        (Linear(2, 2, seed=0), "float32"),
        (GPT(5, 4, 1, 1, 4, seed=0), "int64"),
        (Late(), "int64"),
        (Declared(), "int32"),
        (LayerNorm(3), "float32"),
        (math.sqrt, "float32"),
    ],
)
def test_zeros_are_of_the_dtype_that_the_model_takes(model: Any, dtype: str) -> None:
    zeros = zeros_for(model, (2, 3))
    assert (zeros.dtype, zeros.shape) == (np.dtype(dtype), (2, 3))


@pytest.mark.parametrize("shape", [(), (0, 3), (1, -2), (1, 2.5), 7, None])
def test_a_shape_that_is_none_raises(shape: Any) -> None:
    with pytest.raises(ValueError, match="input_shape"):
        Profiler().count_flops(two_layers(), shape)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda c: c.count_linear(0, 3), "input_features"),
        (lambda c: c.count_conv2d(4, 4, 3, 4, 3, groups=2), "groups"),
        (lambda c: c.count_conv2d(2, 2, 1, 1, 5), "window of 5"),
        (lambda c: c.count_attention(4, 0), "d_model"),
        (lambda c: c.count_transformer(4, 4, 0, 4), "num_layers"),
        (lambda c: FLOPCounter(cast(Any, "guess")), "uncounted"),
    ],
)
def test_bad_sizes_raise_and_name_the_argument(call: Any, named: str) -> None:
    counter = FLOPCounter()
    with pytest.raises(ValueError, match=named):
        call(counter)
    assert counter.rows == ()
