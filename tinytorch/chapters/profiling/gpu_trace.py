"""A published trace of a GPU: a training step of ResNet-50 on a V100, and a lower bound on the time of its kernels."""

from collections.abc import Callable
from typing import Any

from tinytorch.perf.measuring import Counted, Modelled, Quoted

SOURCE = (
    "Holistic Trace Analysis, trace of ResNet on a V100 <https://github.com/facebookresearch/HolisticTraceAnalysis/blob/"
    "f4d0062c382f42bd8a74838bcdad1916c7d5d2da/tests/data/ns_resolution_trace/"
    "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz>"
)

_BATCH = 32
#: Elements of 64 channels at half and at a quarter of the 224 × 224 pixels of an image.
_HALF, _QUARTER = _BATCH * 64 * 112**2, _BATCH * 64 * 56**2
_PIXELS = _BATCH * 56**2

#: Label, FLOPs of products, bytes that are read and written once, and microseconds: the median of the five steps.
#: Batch normalization in training reads its input twice, first for the mean and the variance.
KERNELS: tuple[tuple[str, int, int, float], ...] = (
    ("convolution 7 × 7, 3 to 64 channels", 2 * _HALF * 3 * 49, 4 * (_BATCH * 3 * 224**2 + _HALF), 585.4),
    ("batch normalization", 0, 3 * 4 * _HALF, 459.8),
    ("ReLU", 0, 2 * 4 * _HALF, 252.5),
    ("convolution 3 × 3, 64 to 64", 2 * _PIXELS * 64 * 64 * 9, 2 * 4 * _QUARTER, 343.4),
    ("convolution 1 × 1, 64 to 256", 2 * _PIXELS * 64 * 256, 4 * (_QUARTER + 4 * _QUARTER), 271.9),
    ("addition of two branches", 0, 3 * 4 * 4 * _QUARTER, 377.9),
)


def rows(at_least: Callable[[float, float], float]) -> list[dict[str, Any]]:
    """Return the kernels as rows: FLOPs, bytes, the ``least`` seconds by ``at_least(flops, bytes)``, and the trace's.

    ``over`` is the time in the trace over the least.
    """
    found = []
    for label, flops, moved, microseconds in KERNELS:
        least, seconds = at_least(flops, moved), microseconds * 1e-6
        found.append(
            {
                "label": label,
                "flops": Counted(flops, "FLOP", f"FLOPs of the {label}") if flops else None,
                "moved": Counted(moved, "B", f"bytes of the {label}, each read or written once"),
                "least": Modelled(least, "s", f"least time of the {label}", "peak and bandwidth, as quoted"),
                "found": Quoted(seconds, "s", f"time of the {label}", SOURCE),
                "over": Modelled(seconds / least, "", f"time of the {label} over the least", "a published trace"),
            }
        )
    return found
