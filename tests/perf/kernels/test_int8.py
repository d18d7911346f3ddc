"""The integer product of every instruction of this CPU against float64; layers and convolutions bit for bit; memory."""

import gc
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import binding, ir
from numba import config as numba_config
from numba import njit, typeof
from numba.core import cgutils

from tests.perf.ops.test_ops import drawn
from tinytorch.core.dispatch import implementations, no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.int8 import convolution, instructions, matmul
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot, available_dots
from tinytorch.perf.kernels.int8.matmul import BLOCK_BYTES, fastest_dot, rescaled_rows
from tinytorch.perf.kernels.int8.packing import panels_of
from tinytorch.perf.kernels.int8.tile import tile
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.measuring import blas_threads
from tinytorch.perf.ops.packed_codes import PanelLayout
from tinytorch.perf.ops.quantized import quantized_conv2d, quantized_linear
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import Plan, QuantizedConv2d, QuantizedLinear, Scheme

#: The widest, the plain multiply-add, and what runs everywhere: more would only take longer to compile.
CHOSEN = [
    dot for dot in available_dots() if dot.name in (fastest_dot().name, "vpmaddwd ymm", "usdot", "sdot", "multiply")
]
every_dot = pytest.mark.parametrize("dot", CHOSEN, ids=lambda dot: dot.name)


def assert_exact(a: Array, b: Array, dot: Dot) -> None:
    """With scales of 1 a result is the integer sum, rounded once to float32."""
    panels = panels_of(np.ascontiguousarray(b), PanelLayout(8, len(b), b.shape[1], None))
    found = rescaled_rows(a.astype(np.float32), panels, np.ones((1, 1), np.float32), None, None, (1.0, 0.0), False, dot)
    np.testing.assert_array_equal(found, (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32))


@every_dot
@given(rows=st.integers(1, 30), depth=st.integers(1, 150), columns=st.integers(1, 90), seed=st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_the_product_is_that_of_float64(dot: Dot, rows: int, depth: int, columns: int, seed: int) -> None:
    assert_exact(*drawn(rows, depth, columns, seed), dot)


def extremes(depth: int, left: int, right: int) -> tuple[Array, Array]:
    a, b = np.full((2, depth), left, np.int8), np.full((depth, 3), right, np.int8)
    a[0, 0] = b[0, 0] = 1
    return a, b


@every_dot
@pytest.mark.parametrize("depth", [1, 1041, 4099, 131_071])
@pytest.mark.parametrize(("left", "right"), [(-128, -128), (127, 127), (-128, 127)])
def test_extremes_at_depths_where_float32_errs(dot: Dot, depth: int, left: int, right: int) -> None:
    assert_exact(*extremes(depth, left, right), dot)


def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    panels = panels_of(drawn(1, 1100, 100)[1], PanelLayout(8, 1100, 100, None))
    scale, bias = np.full((1, 1), 0.5, np.float32), generator.random(100, np.float32)
    for rows in (30, 500):
        x = generator.standard_normal((rows, 1100), np.float32)
        made = []
        for count in (1, 2, 3):
            monkeypatch.setattr(threads, "limit", lambda count=count: count)
            made.append(rescaled_rows(x, panels, scale, None, bias, None, False))
        for other in made[1:]:
            np.testing.assert_array_equal(made[0], other)


PLANS = [
    Plan("dynamic"),
    Plan("dynamic", symmetric=False),
    Plan("dynamic", activations="tensor", symmetric=False),
    Plan("static"),
    Plan("static", symmetric=False),
]
WEIGHTS = [
    Scheme(per="tensor"),
    Scheme(per="channel"),
    Scheme(symmetric=False, per="channel"),
    Scheme(per="group", group=32),
    Scheme(4, False, "group", group=10),
    Scheme(2, per="channel"),
]


def by_the_reference(layer: QuantizedLinear, x: Tensor) -> Array:
    with np.errstate(over="ignore"), implementations({quantized_linear: quantized_linear.reference}):
        made: Array = layer(x).data
    return made


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_layer_s_result_is_the_reference_s_bit_for_bit(plan: Plan, weights: Scheme) -> None:
    generator = np.random.default_rng(1)
    for depth, columns, bias in ((70, 33, True), (64, 48, False)):
        layer = QuantizedLinear(
            Linear(depth, columns, bias=bias, seed=0), Plan(plan.mode, weights, plan.activations, plan.symmetric)
        )
        if plan.mode == "static":
            layer.calibrate([generator.standard_normal((5, depth), np.float32)])
        for shape in ((1, depth), (2, 7, depth), (26, depth)):
            x = Tensor(generator.standard_normal(shape, np.float32) * 1.5 + np.float32(0.3))
            np.testing.assert_array_equal(layer(x).data, by_the_reference(layer, x))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_number_is_quantized_as_by_the_reference(numbers: list[float], symmetric: bool) -> None:
    """From subnormals to the largest: ranges, scales, zero points and codes, seen through a weight of ones."""
    layer = QuantizedLinear(Linear(len(numbers), len(numbers), bias=False, seed=0), Plan(symmetric=symmetric))
    layer.codes.data[...] = np.eye(len(numbers), dtype=np.int8)
    layer.scale.data[...] = 1
    x = Tensor(np.array([numbers], np.float32))
    np.testing.assert_array_equal(layer(x).data, by_the_reference(layer, x))


@pytest.mark.parametrize("plan", PLANS[:4], ids=str)
def test_what_has_no_code_is_refused(plan: Plan) -> None:
    layer = QuantizedLinear(Linear(20, 3, seed=0), plan)
    if plan.mode == "static":
        layer.calibrate([np.ones((1, 20), np.float32)])
    for value in (np.nan, -np.nan, np.inf, -np.inf):
        x = np.ones((40, 20), np.float32)
        x[33, 17] = value
        with pytest.raises(ValueError, match="x must be finite"):
            layer(Tensor(x))


def test_other_dtypes_and_depths_go_to_the_reference() -> None:
    layer = QuantizedLinear(Linear(5, 3, seed=0))
    x = Tensor(np.random.default_rng(0).standard_normal((4, 5)))
    np.testing.assert_array_equal(layer(x).data, by_the_reference(layer, x))
    # The sum of (255 - 0) * 127 less zero points passes int32 beyond a depth of 33,025 for affine codes alone.
    deep = QuantizedLinear(Linear(33_100, 1, bias=False, seed=0), Plan(weights=Scheme(symmetric=False)))
    deep.codes.data[...] = 127
    assert deep.zero_point is not None
    deep.zero_point.data[...] = -128
    deep.scale.data[...] = 1
    made = deep(Tensor(np.ones((1, 33_100), np.float32))).data
    np.testing.assert_allclose(made, [[33_100 * 255.0 * 127 / 127]], rtol=1e-6)


def test_a_layer_s_packed_memory_is_that_of_its_sums() -> None:
    layer = QuantizedLinear(Linear(64, 32, seed=0))
    assert layer.memory_usage()["packed_bytes"] == 0
    with no_grad():
        layer(Tensor(np.ones((2, 64), np.float32)))
    # Sums of the columns; the codes are held once.
    assert layer.memory_usage()["packed_bytes"] == 32 * 4
    layer.codes.data[0, 0] += 1
    assert layer.memory_usage()["packed_bytes"] == 0


def test_the_instruction_is_the_best_that_the_cpu_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for features, name in [
        ("+avx2,+avx512f,+avx512bw,+avx512vnni,+avxvnni", "vpdpbusd zmm"),
        ("+avx2,+avx512f,+avx512bw,+avxvnni,-avx512vnni", "vpdpbusd ymm"),
        ("+avx2,+avx512f,+avx512bw", "vpmaddwd zmm"),
        ("+avx2", "vpmaddwd ymm"),
        ("+neon,+dotprod,+i8mm", "usmmla"),
        ("+neon,+dotprod", "sdot"),
        ("+neon", "multiply"),
    ]:
        monkeypatch.setattr(binding, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")  # no more than is listed
        monkeypatch.setattr(numba_config, "CPU_FEATURES", features)
        assert available_dots()[0].name == name


@every_dot
def test_the_product_is_made_of_packed_instructions(dot: Dot) -> None:
    byte, word, number = np.zeros(1, np.uint8), np.zeros(1, np.int32), np.zeros(1, np.float32)
    codes, output = np.zeros(1, np.int8), np.zeros((1, 1), np.float32)
    operands = (byte, codes, 1, 1, output, 1, number, word, word, word, number, codes, number)

    def one_tile(marker: Any, operands: Any) -> None:
        tile(marker, 12, 2, 0, 12, 0, 0, (0, 0, 64), 0, operands)

    types = (typeof(dot.marker), typeof(operands))
    found = evidence(njit([types], nogil=True, error_model="numpy")(one_tile))
    if dot.name == "multiply":
        assert sum(count for name, count in found.items() if "mul" in name or "mla" in name) >= 16
        return
    if "neon" in dot.features:
        # Four vectors of columns, of each of four steps in the loop and one in the loop of what is left; a square takes
        # two steps at once, and one of what is left. SUDOT is USDOT with a lane.
        arms = sum(found.get(f"{name} v", 0) for name in (dot.name, dot.name.replace("usdot", "sudot")))
        assert arms >= dot.rows * 4 * (2 if dot.square else 5), found
        return
    # With VNNI, LLVM makes one vpdpwssd of a vpmaddwd and its addition.
    kinds = (dot.name, dot.name.replace("vpmaddwd", "vpdpwssd"))
    products = dot.rows * dot.panels * 16 // dot.lanes * (1 if dot.name.startswith("vpdpbusd") else 2)
    # Four steps of the depth in the loop, one in the loop of what is left.
    assert sum(found.get(kind, 0) for kind in kinds) >= 5 * products


ARMS = [dot for dot in DOTS if "neon" in dot.features]


def arm_instruction(module: Any, kind: Any, name: str) -> Any:
    """Return a function that does what Arm's manual says of an instruction, one byte after another, on any CPU."""
    square, mixed = "mmla" in name, "neon.us" in name
    function = ir.Function(module, kind, f"made.{name.split('.')[3]}")
    function.linkage = "internal"
    function.attributes.add("noinline")  # else LLVM takes thrice the time, for a copy at each of some hundred places
    builder = ir.IRBuilder(function.append_basic_block())
    word = ir.IntType(32)
    result, left, right = function.args
    for lane in range(4):
        total = builder.extract_element(result, word(lane))
        for byte in range(8 if square else 4):
            places = (8 * (lane // 2) + byte, 8 * (lane % 2) + byte) if square else (4 * lane + byte,) * 2
            one, other = (
                builder.extract_element(each, word(at)) for each, at in zip((left, right), places, strict=True)
            )
            one = (builder.zext if mixed else builder.sext)(one, word)
            total = builder.add(total, builder.mul(one, builder.sext(other, word)))
        result = builder.insert_element(result, total, word(lane))
    builder.ret(result)
    return function


@pytest.fixture(params=ARMS, ids=lambda dot: dot.name)
def made_arm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Dot:
    """Have an instruction of Arm's run here, in kernels that are not kept."""
    existing = cgutils.get_or_insert_function

    def found(module: Any, kind: Any, name: str) -> Any:
        if not name.startswith("llvm.aarch64.neon."):
            return existing(module, kind, name)
        made = f"made.{name.split('.')[3]}"
        return module.globals.get(made) or arm_instruction(module, kind, name)

    monkeypatch.setattr(cgutils, "get_or_insert_function", found)
    for name in ("multiply_panels", "rescaled_blocks"):
        monkeypatch.setattr(matmul, name, njit(getattr(matmul, name).py_func))
    return DOTS[request.param.number]


def test_arm_s_instructions_give_the_same_product(made_arm: Dot) -> None:
    generator = np.random.default_rng(3)
    for rows in (1, 2, 3, 5, 9, 12, 13, 25):
        for depth in (1, 3, 4, 7, 8, 15, 16, 17, 23, 64, 1041):
            assert_exact(*drawn(rows, depth, int(generator.integers(1, 70)), depth), made_arm)
    for left, right in ((-128, -128), (127, 127), (-128, 127)):
        assert_exact(*extremes(4099, left, right), made_arm)


@pytest.mark.parametrize("dot", ARMS, ids=lambda dot: dot.name)
def test_arm_s_instructions_are_what_their_features_promise(dot: Dot) -> None:
    """LLVM ends the process if a target lacks an instruction; a lane of four bytes is part of one that takes it."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = ir.Module()
    module.triple = "aarch64-unknown-linux-gnu"
    vector = ir.VectorType(ir.IntType(32), dot.lanes)
    function = ir.Function(module, ir.FunctionType(vector, [vector] * 3), "step")
    builder = ir.IRBuilder(function.append_basic_block())
    unsigned, signed, add = instructions.emitters(builder, dot)
    sums, left, right = function.args
    if dot.indexed:
        left = builder.shuffle_vector(left, left, ir.Constant(vector, [2] * dot.lanes))
    builder.ret(add(sums, unsigned(left), signed(right)))
    target = binding.Target.from_triple(module.triple)
    machine = target.create_target_machine(cpu="generic", features=",".join(f"+{each}" for each in dot.features), opt=2)
    emitted = machine.emit_assembly(binding.parse_assembly(str(module)))
    wanted = {"usmmla": r"\tusmmla\tv0.4s", "usdot": r"\tsudot\tv0.4s, v2.16b, v1.4b\[2\]", "sdot": r"4b\[2\]"}
    assert re.search(wanted[dot.name], emitted), emitted


GEOMETRIES: list[dict[str, Any]] = [
    {"kernel_size": 1},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (0, 2)},
    {"kernel_size": (2, 3), "dilation": (2, 3), "padding": 3},
    {"kernel_size": 3, "dilation": (2, 1), "stride": 3},
    {"kernel_size": 3, "groups": 2},
]
CONVOLUTION_PLANS = [
    Plan("dynamic"),
    Plan("dynamic", Scheme(symmetric=False, per="channel"), symmetric=False),
    Plan("dynamic", Scheme(4, per="group", group=10), "tensor", False),
    Plan("static", Scheme(per="tensor"), symmetric=False),
]


def maps(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape, np.float32) + np.float32(0.3)


def both(layer: QuantizedConv2d, x: Array) -> tuple[Array, Array]:
    with implementations({quantized_conv2d: quantized_conv2d.reference}):
        expected = layer(Tensor(x)).data
    return layer(Tensor(x)).data, expected


@pytest.mark.parametrize("plan", CONVOLUTION_PLANS, ids=str)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_a_convolution_is_the_reference_s_bit_for_bit(geometry: dict[str, Any], plan: Plan) -> None:
    for channels, out in ((4, 18), (2, 40)):
        layer = QuantizedConv2d(Conv2d(channels, out, seed=0, bias=out == 18, **geometry), plan)
        if plan.mode == "static":
            layer.calibrate([maps(2, channels, 9, 8)])
        for count in (1, 5):
            x = maps(count, channels, 9, 8) * np.geomspace(0.1, 10, count, dtype=np.float32)[:, None, None, None]
            np.testing.assert_array_equal(*both(layer, x))


def test_images_of_many_blocks_and_blocks_of_many_images(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = QuantizedConv2d(Conv2d(3, 17, 3, padding=1, seed=0))
    x = maps(7, 3, 11, 10)
    for block_bytes in (1, 27 * 12 * 3, 27 * 1000):
        monkeypatch.setattr(convolution, "BLOCK_BYTES", block_bytes)
        for count in (1, 3):
            monkeypatch.setattr(threads, "limit", lambda count=count: count)
            np.testing.assert_array_equal(*both(layer, x))
            np.testing.assert_array_equal(*both(layer, np.tile(x, (30, 1, 1, 1))))


def test_layouts_of_images_and_what_has_no_code() -> None:
    layer = QuantizedConv2d(Conv2d(3, 4, 3, seed=0))
    x = maps(2, 3, 6, 7)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    last.flags.writeable = False
    np.testing.assert_array_equal(layer(Tensor(last)).data, layer(Tensor(x)).data)
    np.testing.assert_array_equal(layer(Tensor(x[:0])).data.shape, (0, 4, 4, 5))
    x[1, 2, 5, 6] = np.nan
    with pytest.raises(ValueError, match="x must be finite"):
        layer(Tensor(x))
    with pytest.raises(ValueError, match=r"\(N, 3, H, W\)"):
        layer(Tensor(maps(2, 4, 6, 7)))
    with pytest.raises(ValueError, match="does"):
        layer(Tensor(maps(2, 3, 2, 7)))


def peak(model: object, x: object) -> int:
    with no_grad(), Profiler(memory=True) as profiler:
        model(x)  # type: ignore[operator]
    return profiler.memory.peak


def test_a_product_holds_a_block_of_quantized_rows_and_never_all() -> None:
    layer = QuantizedLinear(Linear(512, 16, bias=False, seed=0))
    x = Tensor(np.ones((8192, 512), np.float32))
    packed = 2 * 16 * 4
    held = x.nbytes + 8192 * 16 * 4 + 512 * 16 + 16 * 4 + packed
    layer(x)
    # What is left is one row, a scale and a zero point for each row of the block, and Python's own objects.
    with blas_threads(1):
        assert peak(layer, x) < held + BLOCK_BYTES + 16_384


@pytest.mark.parametrize(("scheme", "most"), [(Scheme(per="channel"), 0.27), (Scheme(4, per="channel"), 0.15)])
def test_a_layer_that_ran_holds_its_codes_once(scheme: Scheme, most: float) -> None:
    """Measured, not asked of it: what is left allocated after it was made and called."""
    linear, x = Linear(512, 272, seed=0), Tensor(np.ones((3, 512), np.float32))

    def made_and_called() -> QuantizedLinear:
        layer = QuantizedLinear(linear, Plan(weights=scheme))
        with no_grad():
            layer(x)
        return layer

    made_and_called()
    gc.collect()
    tracemalloc.start()
    layer = made_and_called()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    usage = layer.memory_usage()
    told = usage["quantized_bytes"] + usage["packed_bytes"]
    assert held <= most * usage["original_bytes"]
    # Beside the arrays there are a few of Python's own objects.
    assert told <= held < told + 8_192
