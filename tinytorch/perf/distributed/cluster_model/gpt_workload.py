"""Workload of a GPT by the formulas of papers: its operations at a rate of each rank, its parameters and kept bytes."""

from __future__ import annotations

import math

from tinytorch.core.op import whole_numbers
from tinytorch.perf.distributed.cluster_model.workload import Part, Workload


@whole_numbers
def transformer_workload(
    *,
    layers: int,
    width: int,
    heads: int,
    positions: int,
    vocabulary: int,
    examples: int,
    flops_per_second: float,
    recompute: bool = False,
    name: str = "GPT",
) -> Workload:
    """Return the workload of a GPT whose contractions run at ``flops_per_second`` on each rank; all else takes no time.

    Operations are the contractions of a forward and a backward, with all of attention although a causal mask makes
    half of it zero; with ``recompute``, where each block's forward runs a second time, they are equation 3 of
    D. Narayanan et al., 2021 (doi:10.1145/3458817.3476209). A tensor split divides blocks and vocabulary (M. Shoeybi
    et al., 2019, arXiv:1909.08053); the sums that a divided vocabulary adds, one forward and one backward, are left
    out beside those of the blocks. Kept activations are those of V. Korthikanti et al., 2022 (arXiv:2205.05198),
    section 4, with dropout; with ``recompute`` only each block's input is kept, and one block's activations besides.
    Numbers have two bytes, in mixed precision with Adam, which keeps 16 bytes a parameter (S. Rajbhandari et al., 2020,
    arXiv:1910.02054, section 3.1).

    Raises:
        ValueError: if a number is not above 0, or the heads do not divide the width.
    """
    sizes = {"layers": layers, "width": width, "heads": heads, "positions": positions, "vocabulary": vocabulary}
    for key, value in {**sizes, "examples": examples, "flops_per_second": flops_per_second}.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{key} must be a number above 0, not {value}")
    if width % heads:
        raise ValueError(f"width must be a multiple of heads, {heads}, not {width}")
    s, h, c = positions, width, 2
    passes = 4 if recompute else 3
    divided, whole = 12 * s * h * c + heads * s**2 * (2 * c + 1), s * h * (4 * c + 2)
    kept = (0, s * h * c) if recompute else (divided, whole)
    working = (divided, whole) if recompute else (0, 0)
    block_s = passes * (24 * s * h**2 + 4 * s**2 * h) / flops_per_second
    ends_s = 6 * s * h * vocabulary / flops_per_second
    return Workload(
        name,
        layers,
        heads,
        examples,
        block=Part(block_s, 12 * h**2 + 7 * h, 6 * h, *kept),
        ends=Part(
            ends_s, vocabulary * h, s * h + 2 * h, 4 * s * vocabulary + working[0], s * h * (2 * c + 1) + working[1]
        ),
        backward_share=(passes - 1) / passes,
        update_s=0.0,
        message_bytes=s * h * c,
        sums_per_block=6 if recompute else 4,
        tied_parameters=vocabulary * h,
        weight_bytes=c,
        gradient_bytes=c,
        state_bytes=12,
    )
