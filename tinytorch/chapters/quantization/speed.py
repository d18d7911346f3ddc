"""Speed of products of codes: NumPy's own integers, what the instruction promises, whole layers, and one row."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.chapters import sources
from tinytorch.chapters.machine import multiplies_bytes, ratio_of_peaks
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Statistic, interleave, quotient, ratio
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.judge import Judgement, Verdict, decided
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import predicted_speedup
from tinytorch.perf.quantization.convert import relative_error, stored_bytes
from tinytorch.perf.quantization.layers import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import Bottleneck, Demand, bandwidth_at, slope_at, verdict
from tinytorch.report import Column, Page, verdict_between, verdict_between_all, verdict_of_all
from tinytorch.report.figures import draw_line, subplots

#: Columns, or rows of the weight, with which a product is next to nothing and what surrounds it still all there.
FEW = 16
LAYERS = (
    Column("shape", "Layer"),
    Column("stored", "Stored, of float32", "%"),
    Column("error", "Error of the outputs", "%"),
    Column("float-peak", "Float32: of its peak"),
    Column("coded-peak", "8 bits: of their peak"),
    Column("gain", "Speedup"),
)
LAYER_PARTS = (
    Column("shape", "8-bit layer"),
    Column("quantize", "Quantize the input"),
    Column("product", "Integer product"),
    Column("rescale", "Rescale the sums"),
)
ONE_ROW = (
    Column("weights", "Weights"),
    Column("bits", "Bits a weight", "1"),
    Column("predicted", "Speedup, predicted", "", modelled=True),
    Column("gain", "measured"),
    Column("error", "Error of the outputs", "%"),
)
#: Keys of the three shapes of layers, in the order of the page.
_SHAPES = ("square", "sequence", "narrow")


def numpy_products(side: int, seed: int = 0, repeats: int = 9) -> dict[str, Measurement]:
    """Return the seconds of NumPy's own square products: of ``float32``, and of 8-bit codes held in ``int32``."""
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-128, 128, (side, side)) for _ in range(2))
    pairs = {str(np.dtype(kind)): (a.astype(kind), b.astype(kind)) for kind in (np.float32, np.int32)}

    def product(left: Any, right: Any) -> Callable[[], Any]:
        return lambda: left @ right

    return interleave({kind: product(*pair) for kind, pair in pairs.items()}, repeats=repeats)


@dataclass(frozen=True)
class LayerGain:
    """A linear layer in float32 and in codes, input quantized and sums rescaled: speed, bytes and error of one run.

    Attributes:
        float_rate, coded_rate: operations of the product in a second, of the layer in float32 and in codes.
        speedup: time in float32 over time in codes.
        stored: bytes in codes over those in float32.
        error: of the outputs.
    """

    float_rate: Measurement
    coded_rate: Measurement
    speedup: Measurement
    stored: float
    error: float


def layer_gain(rows: int, depth: int, columns: int, plan: Plan | None = None, repeats: int = 30) -> LayerGain:
    """Return what a quantized linear layer gains and costs."""
    layers, x = _twins(depth, columns, {"quantized": plan or Plan()}), _input(rows, depth)
    seconds = _in_turns(layers, x, repeats)
    name, work = f"({rows}, {depth}) times {columns}", 2 * rows * depth * columns
    with no_grad():
        whole, coded = (layer(x).data for layer in layers.values())
    return LayerGain(
        seconds["float32"].per(work, "FLOP/s", f"float32 layer, {name}"),
        seconds["quantized"].per(work, "OP/s", f"8-bit layer, {name}"),
        ratio(seconds["float32"], seconds["quantized"], f"float32 over int8, {name}"),
        stored_bytes(layers["quantized"]) / stored_bytes(layers["float32"]),
        relative_error(whole, coded),
    )


def layer_parts(
    rows: int, depth: int, columns: int, plan: Plan | None = None, repeats: int = 30
) -> dict[str, Measurement]:
    """Return the shares of a quantized layer's time: ``quantize`` its input, ``product``, and ``rescale`` the sums.

    A layer with few columns still has to quantize the whole input, and one with a shallow weight still has to rescale
    every output. These two are measured in turns with the whole layer; the product is what they leave. So what both
    of them share (the call, Python) counts twice, and the product's share is rather too small.
    """
    plan = plan or Plan()
    whole, narrow, shallow = (_quantized(*shape, plan) for shape in ((depth, columns), (depth, FEW), (FEW, columns)))
    x, thin = _input(rows, depth), _input(rows, FEW)
    with no_grad():
        seconds = interleave(
            {"whole": lambda: whole(x), "quantize": lambda: narrow(x), "rescale": lambda: shallow(thin)},
            repeats=repeats,
        )
    quantize, rescale = (
        ratio(seconds[part], seconds["whole"], f"share of {part}").scaled(1.0, "%") for part in ("quantize", "rescale")
    )
    left = 1 - np.add(quantize.samples, rescale.samples)
    conditions = of_all((quantize.conditions, rescale.conditions))
    product = Measurement("share of product", tuple(left.tolist()), "%", conditions)
    return {"quantize": quantize, "product": product, "rescale": rescale}


@dataclass(frozen=True)
class OneRow:
    """One row through square layers of growing width: speed, bytes and error of weights in fewer bits.

    Attributes:
        seconds: at each width, in float32 (``float32``) and by plan.
        bits: stored for each weight at the largest width, scales and bias included, by plan.
        error: of the outputs at the largest width, by plan.
    """

    seconds: Mapping[str, Sequence[Measurement]]
    bits: Mapping[str, float]
    error: Mapping[str, float]


def one_row(widths: Sequence[int], plans: Mapping[str, Plan], repeats: int = 30) -> OneRow:
    """Return how one row fares in square layers of each width, rising.

    Weights are used again and again, as of the only layer of a model: what fits a cache stays there.
    """
    found: dict[str, list[Measurement]] = {name: [] for name in ("float32", *plans)}
    for width in widths:
        layers, x = _twins(width, width, plans), _input(1, width)
        seconds = _in_turns(layers, x, repeats)
        for name, measured in seconds.items():
            found[name].append(measured)
    with no_grad():
        expected = layers["float32"](x).data
        error = {name: relative_error(expected, layers[name](x).data) for name in plans}
    return OneRow(found, {name: 8 * stored_bytes(layers[name]) / width**2 for name in plans}, error)


def streaming_speedup(width: int, bits: int, machine: Ceilings) -> Statistic:
    """Return what the ladder of memory predicts for one row: bytes over bandwidth, of float32 and of so many bits.

    Each weight is read once, as fast as the ladder ran with a working set of that size. Scales count where ``bits``
    does.
    """
    wide, narrow = _streamed(width, 32), _streamed(width, bits)
    name = f"bytes over measured bandwidth, float32 over {bits} bits"
    return quotient(bandwidth_at(narrow, machine), bandwidth_at(wide, machine), name).scaled(wide / narrow)


def _streamed(width: int, bits: int) -> int:
    """Return the bytes of a square weight with so many bits for each number."""
    return width * width * bits // 8


def record_numpy_products(page: Page, seconds: Mapping[str, Measurement]) -> None:
    """Record how much longer NumPy's product of 32-bit integers takes than that of float32."""
    slower = ratio(seconds["int32"], seconds["float32"], "NumPy's int32 product over float32, 256 wide")
    page.number("numpy-int32-slower", slower)


def record_instruction(page: Page, one: Ceilings) -> None:
    """Record how this CPU multiplies bytes, and the peaks of 8-bit and of float32 arithmetic that follow."""
    page.number("int8-peak", one.int8_peak)
    page.number("fp32-peak", one.fp32_peak)
    page.number("int8-over-fp32", ratio_of_peaks(one))
    if multiplies_bytes(one):
        word = "a dot-product instruction"
    elif one.int8_from == "multiply":
        word = "neither, but products of integers of 32 bits"
    else:
        word = "the steps, without a dot-product instruction"
    because = (
        f"the fastest way that Numba compiles for here is {one.int8_from}; it reaches {{int8-over-fp32}} float32's rate"
    )
    page.word("has-instruction", word, because=because)


def record_layers(
    page: Page, gains: Mapping[str, LayerGain], parts: Mapping[str, Mapping[str, Measurement]], machine: Ceilings
) -> None:
    """Show what dynamic 8-bit layers of three shapes gain and cost, where their time goes, and the course's claim.

    Args:
        page: where to; it knows the ratio of the peaks by then.
        gains: `layer_gain` of each shape by its name: the square one, the sequence's, the narrow one.
        parts: `layer_parts` of each.
        machine: whose peaks the layers are held against.
    """
    rows = []
    for name, each in gains.items():
        peaks = {"float": (each.float_rate, machine.fp32_peak), "coded": (each.coded_rate, machine.int8_peak)}
        shares = {f"{key}-peak": quotient(*pair, f"share of the peak, {name}", "%") for key, pair in peaks.items()}
        rows.append(
            {
                "shape": name,
                "stored": Counted(each.stored, "%", "bytes of those in float32"),
                "error": Counted(each.error, "%", "relative error of the outputs"),
                "gain": each.speedup,
                **shares,
            }
        )
    page.table(
        "layers",
        rows,
        LAYERS,
        caption="Linear layers in float32 and in dynamic eight bits, one thread: bytes, error, how much of its peak "
        "each reaches, and the speedup.",
    )
    page.table(
        "layer-parts",
        [{"shape": name, **parts[name]} for name in gains],
        LAYER_PARTS,
        caption="Where the time of the 8-bit layers goes.",
    )
    for key, name in zip(_SHAPES, gains, strict=True):
        page.number(f"gain-{key}", gains[name].speedup)
        page.number(f"product-share-{key}", parts[name]["product"])
    if not multiplies_bytes(machine):
        reason = "this CPU has no instruction that multiplies bytes, and the source says that the gain depends on it"
        page.absent("operations-two-to-four", reason=reason)
        return
    page.claim(
        "operations-two-to-four",
        statement="Operations in eight bits are two to four times as fast on hardware.",
        source=sources.COURSE_QUANTIZATION,
        source_url=sources.COURSE_QUANTIZATION_URL,
        quote="INT8 operations are 2-4× faster on hardware",
        verdict=verdict_between_all((each.speedup for each in gains.values()), low=2.0),
        evidence="With quantizing and rescaling included, the first layer of the table ran {gain-square} as fast as in "
        "float32, the second {gain-sequence}. The third ran {gain-narrow} as fast. The test asks for two at least in "
        "all three; more than four keeps the promise, too.",
    )


def record_one_row(
    page: Page,
    widths: Sequence[int],
    found: OneRow,
    predicted: Mapping[str, Sequence[Statistic]],
    machine: Ceilings,
) -> None:
    """Show what fewer bits of the weights gain for one row, beside what the ladder of memory predicts.

    Args:
        page: where to.
        widths: of the square layers, rising.
        found: `one_row` of them, "8 bits" and "4 bits".
        predicted: `streaming_speedup` of each width by the same names.
        machine: whose levels say where weights and codes live.
    """
    figure, ax = subplots(height=3.0)
    mib = [4 * width * width / 2**20 for width in widths]
    whole = found.seconds["float32"]
    faster = {
        label: [
            ratio(wide, narrow, f"float32 over {label}, one row, {width} wide")
            for wide, narrow, width in zip(whole, found.seconds[label], widths, strict=True)
        ]
        for label in predicted
    }
    for label, variant in (("8 bits", "8-bit"), ("4 bits", "4-bit")):
        draw_line(ax, mib, faster[label], quantity="speedup", variant=variant, label=label)
        by_ladder = f"{label}, predicted"
        law = [Modelled.by("the bytes, at the bandwidth", one) for one in predicted[label]]
        draw_line(ax, mib, law, quantity="speedup", variant=variant, label=by_ladder)
    ax.set_xscale("log", base=4)
    ax.set_xticks(mib, [f"{each:g}" for each in mib])
    ax.set_yscale("log")
    ax.set_xlabel("weights in float32 (MiB)")
    ax.legend()
    page.figure(
        "one-row",
        figure,
        caption="One row through layers of growing width, weights alone in fewer bits: speedup over float32, and what "
        "bytes over bandwidth predict.",
        alt="Lines of the speedup of 8-bit and 4-bit weights over the size of the float weights, each with a dashed "
        "line for the prediction from the measured memory ladder.",
    )
    page.table(
        "one-row-largest",
        [
            {
                "weights": label,
                "bits": Counted(found.bits[label], "1", "bits of a weight, scales included"),
                "predicted": Modelled.by("the bytes, at the bandwidth", predicted[label][-1]),
                "gain": faster[label][-1],
                "error": Counted(found.error[label], "%", "relative error of the outputs"),
            }
            for label in predicted
        ],
        ONE_ROW,
        caption="The largest of these layers: what is stored, what it gains for one row, and what it costs.",
    )
    for key, index in (("small", 0), ("large", -1)):
        page.number(f"one-row-{key}", faster["8 bits"][index])
        page.number(f"one-row-{key}-bytes", 4 * widths[index] ** 2, unit="B", what="float32 weights of the layer")
    page.number("one-row-large-predicted", Modelled.by("the bytes, at the bandwidth", predicted["8 bits"][-1]))
    wide, narrow = (_streamed(widths[-1], bits) for bits in (32, 8))
    explained = quotient(
        bandwidth_at(wide, machine).per(wide, "s"),
        whole[-1],
        "time of reading the float weights once, over the measured time of the largest layer",
        "%",
    )
    page.number("one-row-explained", explained)
    _record_unpacking(page, found, bandwidth_at(narrow, machine).per(narrow, "s"))
    for key, size, held in (
        ("floats", wide, "{one-row-large-bytes}"),
        ("codes", narrow, "a quarter of the floats' bytes"),
    ):
        slope = slope_at(size, machine)
        page.word(
            f"one-row-{key}-from",
            slope.outer if slope.inner == slope.outer else f"{slope.inner} and {slope.outer}",
            because=f"{held} stood against the capacities that the ladder found",
            numbers=["one-row-large-bytes"],
        )
    smaller = 32 / found.bits["8 bits"]
    page.number("one-row-smaller", Counted(smaller, "", "bytes of the float layer over those in eight bits"))
    call = min(machine.calls.op.values(), key=lambda cost: cost.median)
    bound = verdict(Demand(2 * widths[-1] ** 2, 0, wide, 1, wide, ((wide, 1),)), whole[-1], machine, call)
    parts = (decided(abs(smaller - 4) <= 0.4), verdict_between(faster["8 bits"][-1], low=1.5))
    page.claim(
        "edge-four-and-two",
        statement="Where bandwidth of memory is the limit, eight bits take a quarter of the memory and half of the "
        "time.",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_URL,
        quote="EDGE DEVICES: - Profiling shows: Memory bandwidth limited - Decision: Quantize to INT8, cache frequent "
        "patterns - Result: 4x memory reduction, 2x speedup",
        verdict=verdict_of_all(parts)
        if bound.bottleneck is Bottleneck.MEMORY
        else Judgement(Verdict.OPEN, bound.said.tests),
        evidence="Reading its weights at the ladder's bandwidth takes {one-row-explained} of the time of the largest "
        "float layer on one row; that the layer is memory-bound is the source's condition. In eight bits the layer was "
        "{one-row-smaller} smaller and ran {one-row-large} as fast. The test asks for bytes within a tenth of four "
        "times fewer, and for a speed that rounds to twice, from 1.5 on.",
    )


def _record_unpacking(page: Page, found: OneRow, reading: Measurement) -> None:
    """Record which share of the largest layer's time in eight bits its codes take, and what four bits make of it.

    Args:
        page: where to.
        found: `one_row`, "8 bits" and "4 bits".
        reading: seconds in which the ladder reads the largest layer's codes of eight bits.
    """
    eight, four = (found.seconds[label][-1] for label in ("8 bits", "4 bits"))
    page.number("one-row-four", ratio(eight, four, "8 bits over 4 bits, one row through the largest layer"))
    what = "time of reading the codes of eight bits once, over the measured time of the largest layer"
    share = quotient(reading, eight, what, "%")
    page.number("one-row-reading", share)
    if share.interval.high > 1:
        reason = "reading the codes at the ladder's bandwidth may take as long as the layer took"
        page.absent("one-row-four-predicted", reason=reason)
        return
    fewer = found.bits["8 bits"] / found.bits["4 bits"]
    exact = Statistic(
        "bytes in eight bits over those in four", (fewer,), "", value=fewer, bounds=Interval(fewer, fewer, 1)
    )
    what = "8 bits over 4 bits, if only the reading shrinks"
    page.number("one-row-four-predicted", Modelled.by("Amdahl's law", predicted_speedup(share, exact, what)))


def _input(rows: int, depth: int) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal((rows, depth), dtype=np.float32))


def _quantized(depth: int, columns: int, plan: Plan) -> QuantizedLinear:
    return QuantizedLinear(Linear(depth, columns, seed=0), plan)


def _twins(depth: int, columns: int, plans: Mapping[str, Plan]) -> dict[str, Any]:
    layer = Linear(depth, columns, seed=0)
    return {"float32": layer, **{name: QuantizedLinear(layer, plan) for name, plan in plans.items()}}


def _in_turns(layers: Mapping[str, Any], x: Tensor, repeats: int) -> dict[str, Measurement]:
    def forward_of(layer: Any) -> Callable[[], Any]:
        return lambda: layer(x)

    def moved() -> dict[str, Callable[[], Any]]:
        return {name: forward_of(copy.deepcopy(layer)) for name, layer in layers.items()}

    with no_grad():
        return interleave(moved, repeats=repeats)
