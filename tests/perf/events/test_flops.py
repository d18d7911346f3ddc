"""FLOPs against closed forms, against what a hand-written loop multiplies, and against published shapes."""

import math
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.small_models import HIDDEN, INPUTS, OUTPUTS, ROWS, Mystery, two_layers
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.layers import Embedding, LayerNorm, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import UncountedError
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.events.flops import FLOPCounter, NotCounted
from tinytorch.perf.measuring.model_io import zeros_for
from tinytorch.perf.profiling import Profiler, count_flops

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
