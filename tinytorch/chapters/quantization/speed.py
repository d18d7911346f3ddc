"""Speed of products of codes: NumPy's own integers, what the instruction promises, whole layers, and one row."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch.chapters import sources
from tinytorch.chapters.machine import multiplies_bytes, ratio_of_peaks
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, Statistic, interleave, quotient, ratio
from tinytorch.perf.measuring.judge import CANNOT_TELL, REFUTED, SUPPORTED
from tinytorch.perf.quantization.layers import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import bandwidth_at
from tinytorch.report import Column, Page, line, subplots, verdict_between, verdict_between_all

#: Columns, or rows of the weight, with which a product is next to nothing and what surrounds it still all there.
FEW = 16
LAYERS = (
    Column("shape", "Layer"),
    Column("gain", "Speedup"),
    Column("quantize", "Quantize the input"),
    Column("product", "Integer product"),
    Column("rescale", "Rescale the sums"),
)
#: Keys of the three shapes of layers, in the order of the page.
_SHAPES = ("square", "sequence", "narrow")


def numpy_products(side: int, seed: int = 0, repeats: int = 9) -> dict[str, Measurement]:
    """Return the seconds of NumPy's own square products: of ``float32``, ``int8`` (which overflows) and ``int32``.

    The int32 matrices hold 8-bit codes and are made beforehand: their sums are right, unlike those of int8.
    """
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-128, 128, (side, side)).astype(np.int8) for _ in range(2))
    pairs = {str(np.dtype(kind)): (a.astype(kind), b.astype(kind)) for kind in (np.float32, np.int8, np.int32)}

    def product(left: Any, right: Any) -> Callable[[], Any]:
        return lambda: left @ right

    return interleave({kind: product(*pair) for kind, pair in pairs.items()}, repeats=repeats)


def layer_speedup(rows: int, depth: int, columns: int, plan: Plan | None = None, repeats: int = 30) -> Measurement:
    """Return the time of a float linear layer over that of its quantized twin, input quantized and output rescaled."""
    layers = _twins(depth, columns, {"quantized": plan or Plan()})
    seconds = _in_turns(layers, _input(rows, depth), repeats)
    return ratio(seconds["float32"], seconds["quantized"], f"float32 over int8, ({rows}, {depth}) times {columns}")


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
    product = Measurement("share of product", tuple(left.tolist()), "%", quantize.how)
    return {"quantize": quantize, "product": product, "rescale": rescale}


def one_row(widths: Sequence[int], plans: Mapping[str, Plan], repeats: int = 30) -> dict[str, list[Measurement]]:
    """Return the seconds of one row through square layers of each width: float32 (``float32``) and by plan.

    Weights are used again and again, as of the only layer of a model: what fits a cache stays there.
    """
    found: dict[str, list[Measurement]] = {name: [] for name in ("float32", *plans)}
    for width in widths:
        seconds = _in_turns(_twins(width, width, plans), _input(1, width), repeats)
        for name, measured in seconds.items():
            found[name].append(measured)
    return found


def streaming_speedup(width: int, bits: int, machine: Ceilings) -> Statistic:
    """Return what the ladder of memory predicts for one row: bytes over bandwidth, of float32 and of so many bits.

    Each weight is read once, as fast as the ladder ran with a working set of that size; scales are left out.
    """
    wide, narrow = width * width * 4, width * width * bits // 8
    name = f"bytes over measured bandwidth, float32 over {bits} bits"
    return quotient(bandwidth_at(narrow, machine), bandwidth_at(wide, machine), name).scaled(wide / narrow)


def record_numpy_products(page: Page, seconds: Mapping[str, Measurement]) -> None:
    """Record what `numpy_products` took, and the claim that NumPy profits from small integers.

    The page knows by then how many of NumPy's int8 sums are wrong.
    """
    slower = {
        kind: ratio(seconds[kind], seconds["float32"], f"NumPy's {kind} product over float32, 512 wide")
        for kind in ("int8", "int32")
    }
    page.number("numpy-int8-slower", slower["int8"])
    page.number("numpy-int32-slower", slower["int32"])
    page.claim(
        "plain-numpy",
        statement="Plain NumPy profits from INT8.",
        source=f"after the {sources.COURSE_QUANTIZATION}, which promises 2-4× on hardware",
        source_url=sources.COURSE_QUANTIZATION_URL,
        verdict=verdict_between(slower["int32"], high=1.0, strict=True),
        evidence="NumPy's product of 512 wide matrices took {numpy-int8-slower} as long with int8, and "
        "{numpy-int32-slower} with the codes in int32, as it takes float32. "
        "The int8 sums overflow: {numpy-wrong} of them were wrong.",
    )


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


def record_layers(page: Page, gains: Mapping[str, Measurement], parts: Mapping[str, Mapping[str, Measurement]]) -> None:
    """Show what dynamic 8-bit layers of three shapes gain, where their time goes, and the claim on it.

    Args:
        page: where to; it knows the ratio of the peaks by then.
        gains: `layer_speedup` of each shape by its name: the square one, the sequence's, the narrow one.
        parts: `layer_parts` of each.
    """
    page.table(
        "layers",
        [{"shape": name, "gain": gain, **parts[name]} for name, gain in gains.items()],
        LAYERS,
        caption="Speedup of dynamic 8-bit layers over float32, one thread, and where the time of the quantized layer "
        "goes.",
    )
    for key, name in zip(_SHAPES, gains, strict=True):
        page.number(f"gain-{key}", gains[name])
        page.number(f"product-share-{key}", parts[name]["product"])
    page.claim(
        "four-times-faster",
        statement="INT8 is four times as fast as float32.",
        source=f"{sources.COURSE_QUANTIZATION} (2-4×)",
        source_url=sources.COURSE_QUANTIZATION_URL,
        verdict=verdict_between_all(gains.values(), low=4.0),
        evidence="With quantizing and rescaling included, the first layer of the table ran {gain-square} as fast as in "
        "float32, the second {gain-sequence}. The third ran {gain-narrow} as fast. The test asks for four in all "
        "three. The peak of 8-bit products is {int8-over-fp32} that of float32.",
    )


def record_one_row(
    page: Page,
    widths: Sequence[int],
    seconds: Mapping[str, Sequence[Measurement]],
    predicted: Sequence[Statistic],
    machine: Ceilings,
) -> None:
    """Show what fewer bits of the weights gain for one row, beside what the ladder of memory predicts.

    Args:
        page: where to.
        widths: of the square layers, rising.
        seconds: what `one_row` took: "float32", "8 bits" and "4 bits".
        predicted: `streaming_speedup` of each width in eight bits.
        machine: whose levels say where weights and codes live.
    """
    figure, ax = subplots(height=3.0)
    mib = [4 * width * width / 2**20 for width in widths]
    faster = {
        label: [
            ratio(wide, narrow, f"float32 over {label}, one row, {width} wide")
            for wide, narrow, width in zip(seconds["float32"], seconds[label], widths, strict=True)
        ]
        for label in ("8 bits", "4 bits")
    }
    line(ax, mib, faster["8 bits"], quantity="speedup", variant="8-bit", label="8 bits, per channel")
    line(ax, mib, faster["4 bits"], quantity="speedup", variant="4-bit", label="4 bits, per group")
    line(ax, mib, predicted, quantity="speedup", variant="modelled", label="8 bits, by the ladder", modelled=True)
    ax.set_xscale("log", base=4)
    ax.set_xticks(mib, [f"{each:g}" for each in mib])
    ax.set_yscale("log")
    ax.set_xlabel("weights in float32 (MiB)")
    ax.legend()
    page.figure(
        "one-row",
        figure,
        caption="One row through layers of growing width, weights only in fewer bits: speedup over float32, and what "
        "the measured bandwidths predict.",
        alt="Lines of the speedup of 8-bit and 4-bit weights over the size of the float weights, with a dashed line "
        "for the prediction from the measured memory ladder.",
    )
    for key, index in (("small", 0), ("large", -1)):
        page.number(f"one-row-{key}", faster["8 bits"][index])
        page.number(f"one-row-{key}-bytes", 4 * widths[index] ** 2, unit="B", what="float32 weights of the layer")
    page.number("one-row-four-large", faster["4 bits"][-1])
    page.number("one-row-large-predicted", predicted[-1], modelled=True)
    delivered = quotient(faster["8 bits"][-1], predicted[-1], "speedup as measured over as predicted, one row")
    page.word(
        "one-row-verdict",
        {SUPPORTED: "reached", REFUTED: "not reached"}.get(verdict_between(delivered, low=0.5), CANNOT_TELL),
        because="it is {one-row-large} where the ladder predicts {one-row-large-predicted}",
    )
    inner, outer = (machine.level_of(widths[-1] ** 2 * each).name for each in (1, 4))
    page.word(
        "one-row-levels",
        f"the codes fit {inner}, the floats do not" if inner != outer else f"both live in {outer}",
        because="{one-row-large-bytes} of floats, and a quarter of that in codes, are held against the capacities "
        "that the ladder found",
    )


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
