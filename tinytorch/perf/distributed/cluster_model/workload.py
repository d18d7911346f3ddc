"""Workload of one training step, in the parts that a split treats differently.

Times come from a measurement of one rank or, where no such rank is at hand, from a count of operations and a rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from tinytorch.core.op import whole_numbers


@whole_numbers
@dataclass(frozen=True)
class Part:
    """Demand of one block, or of both ends of a model together; a tensor split divides some of it.

    Attributes:
        divided_s: seconds of forward and backward for each example, which the ranks of a tensor split share out.
        divided_parameters, whole_parameters: counts that these ranks share out, and that each of them has.
        divided_bytes, whole_bytes: activations of an example that are kept from forward to backward, likewise.
        times: what calls with some numbers of examples took, instead of the seconds above: rows of examples, divided
            and whole seconds, rising. Between them time runs straight, and on beyond the first and the last, but never
            below the first's share for fewer examples, nor below the last for more.

    Raises:
        ValueError: if the examples of ``times`` do not rise from above 0.
    """

    divided_s: float
    divided_parameters: int
    whole_parameters: int
    divided_bytes: float
    whole_bytes: float
    times: tuple[tuple[float, float, float], ...] = ()

    def __post_init__(self) -> None:
        counts = [row[0] for row in self.times]
        if any(after <= before for before, after in pairwise([0.0, *counts])):
            raise ValueError(f"times must have rising numbers of examples above 0, not {counts}")

    def seconds(self, examples: float, tensor: int) -> float:
        """Return the seconds of forward and backward of some examples on each of ``tensor`` ranks."""
        if self.times:
            return _between([(count, divided / tensor + whole) for count, divided, whole in self.times], examples)
        return examples * self.divided_s / tensor

    def parameters(self, tensor: int) -> float:
        """Return how many parameters each of ``tensor`` ranks has."""
        return self.divided_parameters / tensor + self.whole_parameters

    def kept_bytes(self, tensor: int) -> float:
        """Return the bytes that each of ``tensor`` ranks keeps of an example."""
        return self.divided_bytes / tensor + self.whole_bytes


def _between(rows: list[tuple[float, float]], at: float) -> float:
    """Return the height of straight lines through ``rows`` at a place; one row is a line through 0.

    Before the first row it is at least that row's share, ``at`` over its place, and after the last at least the last.
    """
    if len(rows) == 1:
        return rows[0][1] * at / rows[0][0]
    first = next((index for index in range(len(rows) - 2) if at <= rows[index + 1][0]), len(rows) - 2)
    (left, low), (right, high) = rows[first : first + 2]
    height = low + (high - low) * (at - left) / (right - left)
    if at < left:
        return max(height, low * at / left)
    return max(height, high) if at > right else height


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
        >>> from tinytorch.perf.distributed.cluster_model.gpt_workload import transformer_workload
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
