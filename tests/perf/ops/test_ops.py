"""Ops of codes and of other frameworks' models: scales, packing, exact products, indexing, and gradients."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.core.cases import check_gradients
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array, Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.ops import gather_pad, pointwise
from tinytorch.perf.ops.affine import spread
from tinytorch.perf.ops.images import conv2d_transposed
from tinytorch.perf.ops.packed_codes import PanelLayout, packed_length, unpack
from tinytorch.perf.ops.quantized import EXACT_DEPTH, GREATEST_DEPTH
from tinytorch.perf.quantization import (
    Scheme,
    decode,
    dequantize_int8,
    encode,
    integer_product,
    pack,
    quantize,
    quantize_int8,
    range_parameters,
)

LARGEST, SMALLEST = float(np.finfo(np.float32).max), 2.0**-149

SCHEMES = [Scheme(bits, symmetric) for bits in (8, 4, 2) for symmetric in (True, False)]

numbers = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=1, max_dims=3, max_side=6),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)
matrices = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.floats(-8, 8, width=32)
)


def bound(scale: Array) -> Array:
    """Half a step, and the roundings of a quotient of up to 255, of a product, and of a subnormal result."""
    return np.asarray(scale, np.float64) * (0.5 + 2.0**-13) + SMALLEST


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@given(x=numbers)
@settings(max_examples=60, deadline=None)
def test_the_error_is_at_most_half_a_scale_and_no_other_level_is_nearer(scheme: Scheme, x: Array) -> None:
    made = quantize(x, scheme)
    assert made.codes.dtype == np.int8
    assert scheme.low <= made.codes.min() <= made.codes.max() <= scheme.high
    assert scheme.low <= made.zero_point <= scheme.high
    numbers = made.dequantize()
    error = np.abs(numbers.astype(np.float64) - x)
    assert (error <= bound(made.scale)).all()
    levels = decode(np.arange(scheme.low, scheme.high + 1).astype(np.int8), made.scale, made.zero_point)
    nearest = np.abs(x[..., None].astype(np.float64) - levels).min(axis=-1)
    assert (error <= nearest + float(made.scale) * 2.0**-13 + SMALLEST).all()


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@given(x=numbers)
@settings(max_examples=30, deadline=None)
def test_quantizing_what_codes_stand_for_gives_the_same_codes(scheme: Scheme, x: Array) -> None:
    made = quantize(x, scheme)
    with np.errstate(over="ignore"):
        again = encode(made.dequantize(), made.scale, made.zero_point, scheme)
    # A level beyond float32's largest number becomes that number, half a step below at most.
    inside = np.abs(made.dequantize()) < LARGEST
    # Scales of a few units of the smallest subnormal hold every level exactly, so these too.
    np.testing.assert_array_equal(again[inside], made.codes[inside])


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@given(x=numbers)
@settings(max_examples=30, deadline=None)
def test_a_larger_number_never_gets_a_smaller_code_and_zero_is_exact(scheme: Scheme, x: Array) -> None:
    made = quantize(x, scheme)
    order = np.argsort(x, axis=None)
    assert (np.diff(made.codes.reshape(-1)[order].astype(int)) >= 0).all()
    zero = encode(np.zeros(1, np.float32), made.scale, made.zero_point, scheme)
    assert decode(zero, made.scale, made.zero_point)[0] == 0


@given(x=numbers)
@settings(max_examples=30, deadline=None)
def test_symmetric_codes_of_negated_numbers_are_the_negated_codes(x: Array) -> None:
    np.testing.assert_array_equal(quantize(-x).codes, -quantize(x).codes)


@pytest.mark.parametrize("symmetric", [True, False])
@given(x=matrices)
@settings(max_examples=40, deadline=None)
def test_channels_and_groups_are_quantized_as_if_each_stood_alone(symmetric: bool, x: Array) -> None:
    by_column = quantize(x, Scheme(8, symmetric, "channel"))
    for column in range(x.shape[1]):
        alone = quantize(x[:, column], Scheme(8, symmetric))
        np.testing.assert_array_equal(by_column.codes[:, column], alone.codes)
        assert by_column.scale[0, column] == alone.scale
    in_groups = quantize(x, Scheme(8, symmetric, "group", group=4))
    for index, top in enumerate(range(0, len(x), 4)):
        some = quantize(x[top : top + 4], Scheme(8, symmetric, "channel"))
        np.testing.assert_array_equal(in_groups.codes[top : top + 4], some.codes)
        np.testing.assert_array_equal(in_groups.scale[index], some.scale[0])
    turned = quantize(np.ascontiguousarray(x.T), Scheme(8, symmetric, "group", axis=0, group=4))
    np.testing.assert_array_equal(turned.codes, in_groups.codes.T)
    np.testing.assert_array_equal(turned.dequantize(), in_groups.dequantize().T)


@given(x=matrices)
@settings(max_examples=40, deadline=None)
def test_finer_scales_bound_the_error_more_tightly(x: Array) -> None:
    """A channel's range lies within the tensor's, and a group's within the channel's; constants have scales apart."""
    tensor, channel, group = (quantize(x, Scheme(per=per, group=3)) for per in ("tensor", "channel", "group"))
    varied = x.min(axis=0) != x.max(axis=0)
    assert (channel.scale[0, varied] <= tensor.scale).all() or not varied.any()
    scales, _ = spread(group.scale, group.zero_point, x.shape, group.scheme)
    error = np.abs(group.dequantize().astype(np.float64) - x)
    assert (error[:, varied] <= bound(np.broadcast_to(channel.scale, x.shape))[:, varied]).all()
    assert (error <= bound(scales)).all()


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 0.1, 1e-30, SMALLEST, -SMALLEST, LARGEST, -LARGEST])
def test_constants_are_exact(value: float, scheme: Scheme) -> None:
    x = np.full((3, 2), value, np.float32)
    for per in ("tensor", "channel", "group"):
        made = quantize(x, Scheme(scheme.bits, scheme.symmetric, per))
        np.testing.assert_array_equal(made.dequantize(), x)


@pytest.mark.parametrize("scheme", SCHEMES[:2], ids=str)
@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, 1.0 + 2**-20), (5.0, 9.0), (-9.0, -5.0), (-1e-38, 1e-38), (0.0, 1e-42), (-LARGEST, LARGEST), (0.0, LARGEST)],
)
def test_hard_ranges_keep_the_bound(low: float, high: float, scheme: Scheme) -> None:
    """Tiny, one-sided, subnormal and largest ranges; the scale follows the range, it has no floor."""
    x = np.linspace(0, 1, 400) * (np.float64(high) - low) + low
    x = np.clip(x, low, high).astype(np.float32)
    made = quantize(x, scheme)
    reach = max(abs(low), abs(high)) / 127 if scheme.symmetric else (max(high, 0) - min(low, 0)) / 255
    assert made.scale == pytest.approx(reach, rel=1e-6, abs=SMALLEST)
    assert (np.abs(made.dequantize().astype(np.float64) - x) <= bound(made.scale)).all()


def test_codes_and_parameters_by_hand() -> None:
    x = np.array([-100, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, LARGEST], np.float32)
    assert encode(x, np.float32(1), 0, Scheme()).tolist() == [-100, -2, -2, 0, 0, 2, 2, 127], "halves to even"
    assert encode(x, np.float32(1), 2, Scheme(4, False))[[0, 5, 7]].tolist() == [-8, 4, 7], "what is out is clipped"
    for low, high, scheme, scale, zero_point in (
        (-1.0, 2.0, Scheme(symmetric=False), 3 / 255, -128 + 85),
        (-1.0, 2.0, Scheme(bits=4), 2 / 7, 0),
        (0.0, 0.0, Scheme(symmetric=False), 1.0, -128),
    ):
        np.testing.assert_allclose(range_parameters(low, high, scheme), (scale, zero_point))


@pytest.mark.parametrize("per", ["tensor", "channel", "group"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_narrowed_ranges_have_no_larger_error(per: str, symmetric: bool) -> None:
    x = np.random.default_rng(0).standard_t(3, (96, 5)).astype(np.float32)
    scheme = Scheme(4, symmetric, per)  # type: ignore[arg-type]
    made = [quantize(x, scheme), quantize(x, scheme, "mse")]
    plain, narrow = (np.sum((each.dequantize() - x) ** 2, axis=0) for each in made)
    assert narrow.sum() < (0.9 if per == "tensor" else 1) * plain.sum()
    if per != "tensor":
        assert (narrow <= plain).all()


def test_bytes_are_those_of_packed_codes_scales_and_zero_points() -> None:
    x = np.ones((33, 10), np.float32)
    assert quantize(x).nbytes == 330 + 4
    assert quantize(x, Scheme(4, True, "channel")).nbytes == 17 * 10 + 40
    assert quantize(x, Scheme(2, False, "group")).nbytes == 9 * 10 + 2 * 10 * 4 + 2 * 10
    assert quantize(x, Scheme(4, True, "channel", axis=0)).nbytes == 33 * 5 + 33 * 4


BAD = [
    (np.array([], np.float32), "at least one"),
    *[(np.array([1, value]), "finite") for value in (np.nan, np.inf, -np.inf, 1e300)],
    *[(np.array([value]), "floating") for value in (1, True, "a")],
    ([1.0, 2.0], "array"),
]


@pytest.mark.parametrize(("x", "says"), BAD, ids=str)
def test_bad_input_is_named(x: object, says: str) -> None:
    with pytest.raises(ValueError, match=f"tensor .*{says}"):
        quantize_int8(x)
    for per in ("tensor", "channel"):
        with pytest.raises(ValueError, match=says):
            quantize(x, Scheme(per=per))


CODES = Tensor(np.zeros(2, np.int8))


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.int8)


ARGUMENTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Scheme(bits=3), "bits"),
    (lambda: Scheme(per="row"), "per"),  # type: ignore[arg-type]
    (lambda: Scheme(group=0), "group"),
    (lambda: quantize(np.ones(2, np.float32), ranges="entropy"), "ranges"),  # type: ignore[arg-type]
    (lambda: quantize(np.ones((2, 2, 2), np.float32), Scheme(per="group")), "matrix"),
    (lambda: quantize(np.ones((2, 2), np.float32), Scheme(per="channel", axis=2)), "axis 2"),
    (lambda: dequantize_int8(Tensor(np.zeros(2, np.int32)), 1.0, 0), "^q must"),
    (lambda: dequantize_int8(CODES, 0.0, 0), "^scale must"),
    (lambda: dequantize_int8(CODES, float("nan"), 0), "^scale must"),
    (lambda: dequantize_int8(CODES, float("inf"), 0), "^scale must"),
    (lambda: dequantize_int8(CODES, 1.0, 200), "^zero_point must"),
    (lambda: pack(np.zeros(2, np.int8), 3), "bits"),
    (lambda: pack(np.zeros(2, np.int16), 4), "int8"),
    (lambda: pack(np.array([8], np.int8), 4), r"-8\.\.7"),
    (lambda: unpack(np.zeros(3, np.uint8), 4, 4), "2 bytes"),
    (lambda: integer_product(zeros(2, 3).astype(np.int16), zeros(3, 4)), "^a must be an int8"),
    (lambda: integer_product(zeros(2, 3), zeros(3, 4)[0]), "^b must be an int8"),
    (lambda: integer_product(zeros(2, 3), zeros(2, 4)), "^b must have 3 rows"),
    (lambda: integer_product(zeros(1, GREATEST_DEPTH + 1), zeros(GREATEST_DEPTH + 1, 1)), "131,071"),
]


@pytest.mark.parametrize(("make", "named"), ARGUMENTS)
def test_bad_arguments_are_named(make: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()


def test_tensors_and_float64_are_taken_and_the_input_is_left_alone() -> None:
    values = np.random.default_rng(0).normal(size=(4, 5))
    kept = values.copy()
    made, other = quantize(values), quantize(Tensor(values.astype(np.float32)))
    np.testing.assert_array_equal(made.codes, other.codes)
    assert made.dequantize().dtype == made.scale.dtype == np.float32
    np.testing.assert_array_equal(values, kept)
    assert quantize(values.astype(np.float16)).codes.shape == (4, 5)


@given(data=st.data(), bits=st.sampled_from([8, 4, 2]), axis=st.sampled_from([0, 1, -1]))
@settings(max_examples=100, deadline=None)
def test_a_round_trip_is_exact(data: st.DataObject, bits: int, axis: int) -> None:
    half = 2 ** (bits - 1)
    shape = hnp.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=9)
    codes = data.draw(hnp.arrays(np.int8, shape, elements=st.integers(-half, half - 1)))
    packed = pack(codes, bits, axis)
    length = codes.shape[axis]
    assert packed.shape[axis] == -(-length * bits // 8) == packed_length(length, bits)
    assert packed.nbytes * (8 // bits) >= codes.nbytes
    np.testing.assert_array_equal(unpack(packed, bits, length, axis), codes)


def test_the_first_code_is_in_the_lowest_bits_without_a_sign() -> None:
    assert pack(np.array([-8, 7, 0], np.int8), 4).tolist() == [0xF0, 0x88]
    assert pack(np.array([-2, -1, 0, 1, 1], np.int8), 2).tolist() == [0b11_10_01_00, 0b10_10_10_11]


@given(
    st.sampled_from([8, 4, 2]),
    st.integers(1, 40),
    st.integers(1, 40),
    st.none() | st.integers(1, 45),
    st.integers(0, 9),
)
def test_panels_hold_each_code_where_the_product_looks_for_it(
    bits: int, length: int, columns: int, group: int | None, seed: int
) -> None:
    half = 2 ** (bits - 1)
    codes = np.random.default_rng(seed).integers(-half, half, (length, columns)).astype(np.int8)
    layout = PanelLayout(bits, length, columns, group)
    panels = layout.arranged(pack(codes, bits))
    assert panels.flags.c_contiguous
    np.testing.assert_array_equal(layout.restored(panels), pack(codes, bits))
    alone = unpack(panels, bits, 4, axis=-1)
    segment = min(group or length, length)
    for row, column in ((0, 0), (length - 1, columns - 1), (length // 2, columns // 2)):
        part, inner = divmod(row, segment)
        assert alone[column // 16, part, inner // 4, column % 16, inner % 4] == codes[row, column]
    assert np.count_nonzero(alone) == np.count_nonzero(codes), "what fills up panels is code 0"


def exact(a: Array, b: Array) -> Array:
    """float64 holds every sum of up to 2^39 products."""
    return a.astype(np.float64) @ b.astype(np.float64)


def drawn(rows: int, depth: int, columns: int, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    return (
        generator.integers(-128, 128, (rows, depth)).astype(np.int8),
        generator.integers(-128, 128, (depth, columns)).astype(np.int8),
    )


@given(
    rows=st.integers(0, 5), depth=st.integers(0, 2100), columns=st.sampled_from([0, 1, 3, 513]), seed=st.integers(0, 9)
)
@settings(max_examples=40, deadline=None)
def test_equal_to_float64(rows: int, depth: int, columns: int, seed: int) -> None:
    a, b = drawn(rows, depth, columns, seed)
    made = integer_product(a, b)
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, exact(a, b))


@pytest.mark.parametrize("depth", [1, EXACT_DEPTH, EXACT_DEPTH + 1, 1041, 4099, 20_001])
@pytest.mark.parametrize(("left", "right"), [(-128, -128), (127, 127), (-128, 127)])
def test_extremes_at_depths_where_float32_errs(depth: int, left: int, right: int) -> None:
    a = np.full((2, depth), left, np.int8)
    b = np.full((depth, 3), right, np.int8)
    a[0, 0] = b[0, 0] = 1
    np.testing.assert_array_equal(integer_product(a, b), exact(a, b))


def test_views_and_more_rows_than_a_block() -> None:
    for a, b in (drawn(1030, 1030, 5), (drawn(6, 40, 8)[0][::2, 5:], drawn(6, 40, 8)[1][5:, ::-1])):
        np.testing.assert_array_equal(integer_product(a, b), exact(a, b))


#: No number is near a corner of a function below.
X = np.random.default_rng(0).normal(size=(3, 4)) * 2 + 0.013
Y = np.random.default_rng(1).normal(size=(4,)) * 2


def test_the_error_function_is_the_standard_library_s() -> None:
    made = apply(pointwise.erf, X.astype(np.float32)).data
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, [[math.erf(x) for x in row] for row in X], rtol=1e-6)


def test_softplus_does_not_overflow() -> None:
    far = np.array([-1000.0, 0.0, 1000.0], np.float32)
    np.testing.assert_allclose(apply(pointwise.softplus, far).data, [0, math.log(2), 1000])


@pytest.mark.parametrize(
    ("op", "operands", "params"),
    [
        (pointwise.clip, (X,), {"low": -1.0, "high": 0.5}),
        (pointwise.clip, (X,), {"low": -math.inf, "high": 0.0}),
        (pointwise.hard_sigmoid, (X,), {"slope": 0.3, "shift": 0.4}),
        (pointwise.elu, (X,), {"alpha": 0.7}),
        *[(getattr(pointwise, name), (X,), {}) for name in ("erf", "softplus", "sin", "cos")],
        *[(getattr(pointwise, name), (X,), {}) for name in ("floor", "ceil", "round_", "sign")],
        (pointwise.minimum, (X, Y), {}),
        (pointwise.minimum, (Y, X), {}),
        (gather_pad.gather, (X, np.array([[0, 3], [3, -1]])), {"axis": 1}),
        (gather_pad.gather, (X, np.array([2, 2, 0])), {"axis": 0}),
        (gather_pad.gather, (X, np.array(1)), {"axis": -1}),
        (gather_pad.gather_along, (X, np.array([[0, 3], [1, 1]])), {"axis": 1}),
        (gather_pad.gather_along, (X, np.array([[2, 0, 0, -1]])), {"axis": 0}),
        (gather_pad.broadcast, (X,), {"shape": (2, 3, 4)}),
        (gather_pad.tile, (X,), {"repeats": (2, 3)}),
        (gather_pad.pad, (X,), {"widths": ((1, 0), (2, 3)), "mode": "constant", "value": 0.5}),
        (gather_pad.pad, (X,), {"widths": ((1, 0), (2, 3)), "mode": "reflect", "value": 0.0}),
        (gather_pad.pad, (X,), {"widths": ((1, 2), (0, 1)), "mode": "edge", "value": 0.0}),
        (gather_pad.blend, (X, np.array([[1, 0.5], [0, 0.5], [0, 0]])), {"axis": 0}),
    ],
)
def test_gradients(op: Op, operands: tuple[Array, ...], params: dict[str, Any]) -> None:
    # Indices, and weights of an interpolation, are constant.
    is_constant = op in (gather_pad.gather, gather_pad.gather_along, gather_pad.blend)
    constant = operands[1:] if is_constant else ()
    tensors = (Tensor(each.copy(), requires_grad=True) for each in operands[: len(operands) - len(constant)])
    check_gradients(lambda *inputs: apply(op, *inputs, *constant, **params), *tensors)


def test_what_has_no_gradient_says_so() -> None:
    answer = apply(pointwise.greater, Tensor(X, requires_grad=True), Tensor(Y))
    with pytest.raises(TypeError, match="gradient"):
        answer.backward(np.ones(answer.shape))


def test_whole_numbers_divide_towards_zero() -> None:
    a, b = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    np.testing.assert_array_equal(apply(pointwise.whole_quotient, a, b).data, [3, -3, -3, 3])


def test_each_element_is_counted() -> None:
    with recording() as done:
        apply(pointwise.erf, X)
        apply(pointwise.clip, X, low=0.0, high=1.0)
        apply(pointwise.less, X, Y)
    assert [event.elementwise for event in done.profile.events] == [12, 24, 12]


def test_places_along_an_axis_are_as_many_as_are_asked_for() -> None:
    """Along other axes, too, fewer than there are: NumPy itself would refuse or repeat."""
    made = apply(gather_pad.gather_along, X, np.array([[3], [0]]), axis=1).data
    np.testing.assert_array_equal(made, [[X[0, 3]], [X[1, 0]]])


def test_the_first_of_equals_is_first() -> None:
    x = np.array([2.0, 5.0, 5.0, 1.0])
    np.testing.assert_array_equal(apply(gather_pad.argsort, x, axis=0, largest=True).data, [1, 2, 0, 3])
    np.testing.assert_array_equal(apply(gather_pad.argsort, x, axis=0, largest=False).data, [3, 0, 1, 2])
    assert apply(gather_pad.argmax, x, axis=0).data == 1


def test_indices_have_no_gradient() -> None:
    with pytest.raises(TypeError, match="gradient"):
        apply(gather_pad.argmax, Tensor(X, requires_grad=True), axis=1).backward(np.ones(3))


def test_a_repeated_view_copies_nothing() -> None:
    with recording() as done:
        made = apply(gather_pad.broadcast, X, shape=(1000, 3, 4))
        apply(gather_pad.pad, X, widths=((1, 1), (0, 0)), mode="constant", value=0.0)
    assert np.shares_memory(made.data, X)
    assert [(event.traffic, event.elementwise) for event in done.profile.events] == [(0, 0), (8 * (12 + 20), 0)]


HOW: list[dict[str, Any]] = [
    {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1},
    {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2},
]


def values_of(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([*shape]).normal(size=shape)


@pytest.mark.parametrize("how", HOW)
def test_it_is_the_adjoint_and_has_its_gradients(how: dict[str, Any]) -> None:
    """<conv(y), x> = <y, transposed(x)> for all y and x."""
    y, weight, bias = values_of(2, 4, 6, 7), values_of(6, 4 // how["groups"], 3, 2), values_of(4)
    made = apply(ops.conv2d, y, weight, **how).data
    x = values_of(*made.shape)
    back = apply(conv2d_transposed, x, weight, lengths=(6, 7), **how).data
    np.testing.assert_allclose((made * x).sum(), (y * back).sum())
    check_gradients(
        lambda *operands: apply(conv2d_transposed, *operands, lengths=(6, 7), **how),
        *(Tensor(each, requires_grad=True) for each in (x, weight, bias)),
    )


def test_products_are_counted_at_the_input() -> None:
    """Each of its elements meets the whole window: zeros between them are multiplied by nobody."""
    how = {**HOW[0], "stride": (2, 2), "lengths": (6, 4)}
    with recording() as done:
        apply(conv2d_transposed, values_of(2, 4, 3, 2), values_of(4, 3, 2, 2), **how)
    (event,) = done.profile.events
    assert event.macs == 2 * 4 * 3 * 2 * 3 * 2 * 2


def test_another_number_of_channels_is_refused() -> None:
    with pytest.raises(ValueError, match="input"):
        apply(conv2d_transposed, values_of(2, 3, 3, 2), values_of(4, 3, 2, 2), lengths=(6, 4), **HOW[0])
