"""Workload of one training step, in the parts that a split treats differently; published formulas give a GPT's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tinytorch.core.op import whole_numbers


@whole_numbers
@dataclass(frozen=True)
class Part:
    """Demand of one block, or of both ends of a model together; a tensor split divides some of it.

    Attributes:
        divided_s: seconds of forward and backward for each example, which the ranks of a tensor split share out.
        divided_parameters, whole_parameters: counts that these ranks share out, and that each of them has.
        divided_bytes, whole_bytes: activations of an example that are kept from forward to backward, likewise.
    """

    divided_s: float
    divided_parameters: int
    whole_parameters: int
    divided_bytes: float
    whole_bytes: float

    def seconds(self, examples: float, tensor: int) -> float:
        """Return the seconds of forward and backward of some examples on each of ``tensor`` ranks."""
        return examples * self.divided_s / tensor

    def parameters(self, tensor: int) -> float:
        """Return how many parameters each of ``tensor`` ranks has."""
        return self.divided_parameters / tensor + self.whole_parameters

    def kept_bytes(self, tensor: int) -> float:
        """Return the bytes that each of ``tensor`` ranks keeps of an example."""
        return self.divided_bytes / tensor + self.whole_bytes


@whole_numbers
@dataclass(frozen=True)
class Workload:
    """One step of training: equal blocks between the two ends of a model, and a batch.

    Attributes:
        name: what is trained.
        blocks: how many, of which a pipeline's stages take consecutive ones.
        heads: of each block; a tensor split is one of their divisors.
        examples: in the batch, over all ranks.
        block, ends: what one block asks for, and all else of the model.
        backward_share: of the seconds of forward and backward, 0 to 1.
        update_s: seconds of the optimizer's step for each parameter.
        message_bytes: an example's activations between two blocks.
        sums_per_block: all-reduces of such messages that a tensor split makes in forward and backward of a block.
        tied_parameters: of the ends, that the first and the last stage of a pipeline both have.
        weight_bytes, gradient_bytes, state_bytes: of each parameter, the last the optimizer's.

    Raises:
        ValueError: if a number is out of its range.

    Examples:
        >>> from tinytorch.perf.distributed.cluster_model.workload import transformer_workload
        >>> work = transformer_workload(
        ...     layers=24, width=2048, heads=16, positions=2048, vocabulary=51200, examples=512, flops_per_second=1e14
        ... )
        >>> work.blocks, round(work.parameters / 1e9, 1)
        (24, 1.3)
    """

    name: str
    blocks: int
    heads: int
    examples: int
    block: Part
    ends: Part
    backward_share: float
    update_s: float
    message_bytes: float
    sums_per_block: int
    tied_parameters: int
    weight_bytes: int
    gradient_bytes: int
    state_bytes: int

    def __post_init__(self) -> None:
        for name in ("blocks", "heads", "examples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.backward_share <= 1:
            raise ValueError(f"backward_share must be 0 to 1, not {self.backward_share}")
        if not (math.isfinite(self.update_s) and self.update_s >= 0):
            raise ValueError(f"update_s must be a finite number of seconds that is at least 0, not {self.update_s}")

    @property
    def parameters(self) -> float:
        """Parameters of the whole model."""
        return self.blocks * self.block.parameters(1) + self.ends.parameters(1)

    def of_examples(self, examples: int) -> Workload:
        """Return the same model with another batch."""
        return replace(self, examples=examples)


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
