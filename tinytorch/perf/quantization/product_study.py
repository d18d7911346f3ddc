"""Experiments on the speed of products: NumPy's own integers, whole quantized layers, their parts, one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, interleave, ratio
from tinytorch.perf.quantization.layers import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import bandwidth_at

#: Columns, or rows of the weight, with which a product is next to nothing and what surrounds it still all there.
FEW = 16


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


def layer_speedup(rows: int, depth: int, columns: int, plan: Plan | None = None, repeats: int = 15) -> Measurement:
    """Return the time of a float linear layer over that of its quantized twin, input quantized and output rescaled."""
    layers = _twins(depth, columns, {"quantized": plan or Plan()})
    seconds = _in_turns(layers, _input(rows, depth), repeats)
    return ratio(seconds["float32"], seconds["quantized"], f"float32 over int8, ({rows}, {depth}) times {columns}")


def layer_parts(
    rows: int, depth: int, columns: int, plan: Plan | None = None, repeats: int = 15
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
    how = seconds["whole"].how
    both = {part: np.divide(seconds[part].samples, seconds["whole"].samples) for part in ("quantize", "rescale")}
    shares = {
        "quantize": both["quantize"],
        "product": 1 - both["quantize"] - both["rescale"],
        "rescale": both["rescale"],
    }
    return {part: Measurement(f"share of {part}", tuple(each.tolist()), "%", how) for part, each in shares.items()}


def one_row(widths: Sequence[int], plans: Mapping[str, Plan], repeats: int = 15) -> dict[str, list[Measurement]]:
    """Return the seconds of one row through square layers of each width: float32 (``float32``) and by plan.

    Weights are used again and again, as of the only layer of a model: what fits a cache stays there.
    """
    found: dict[str, list[Measurement]] = {name: [] for name in ("float32", *plans)}
    for width in widths:
        seconds = _in_turns(_twins(width, width, plans), _input(1, width), repeats)
        for name, measured in seconds.items():
            found[name].append(measured)
    return found


def streaming_speedup(width: int, bits: int, machine: Ceilings) -> float:
    """Return what the ladder of memory predicts for one row: bytes over bandwidth, of float32 and of so many bits.

    Each weight is read once, as fast as the ladder ran with a working set of that size; scales are left out.
    """
    wide, narrow = width * width * 4, width * width * bits // 8
    return (wide / bandwidth_at(wide, machine).median) / (narrow / bandwidth_at(narrow, machine).median)


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

    with no_grad():
        return interleave({name: forward_of(layer) for name, layer in layers.items()}, repeats=repeats)
