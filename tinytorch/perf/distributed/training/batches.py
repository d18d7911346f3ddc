"""Sharded batches: each rank's part of the very batches that one process would train on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tinytorch.core.layers import checked_positive
from tinytorch.core.op import Array, whole_numbers
from tinytorch.core.tensor import Tensor


@whole_numbers
class ShardedBatches:
    """Batches of arrays with a common first axis, sharded over ranks: disjoint parts that together are the batch.

    The order of an epoch depends on ``seed`` and the epoch alone, so that any rank of any number of them can begin
    anywhere. Every rank takes as many steps; its parts differ by one example at most.

    Args:
        arrays: arrays or Tensors of one length, the same on all ranks.
        batch_size: examples in a batch of all ranks together; the last batch may be smaller.
        rank: this rank's number.
        size: how many ranks there are.
        seed: random seed of the order.

    Raises:
        ValueError: if the arrays are empty or of different lengths, a number is out of range, or a rank would have no
            example of the last batch.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.distributed import ShardedBatches
        >>> x = np.arange(8, dtype=np.float32)
        >>> parts = [ShardedBatches(x, batch_size=4, rank=rank, size=2) for rank in (0, 1)]
        >>> [len(batch) for part in parts for (batch,) in part.epoch(0)]  # of each batch each rank has a half
        [2, 2, 2, 2]
    """

    def __init__(self, *arrays: Array | Tensor, batch_size: int, rank: int, size: int, seed: int = 0) -> None:
        self.arrays = [array.data if isinstance(array, Tensor) else np.asarray(array) for array in arrays]
        lengths = {array.shape[:1] for array in self.arrays}
        if len(lengths) != 1 or not all(length and length[0] for length in lengths):
            shapes = [array.shape for array in self.arrays]
            raise ValueError(f"arrays must be at least one, and of one length above 0, but their shapes are {shapes}")
        checked_positive(batch_size=batch_size, size=size)
        if not 0 <= rank < size:
            raise ValueError(f"rank must be 0 to {size - 1}, not {rank}")
        self.batch_size, self.rank, self.size, self.seed = batch_size, rank, size, seed
        self.examples = len(self.arrays[0])
        smallest = min(batch_size, self.examples, self.examples % batch_size or batch_size)
        if smallest < size:
            raise ValueError(
                f"batch_size must leave each of {size} ranks an example in every batch, but {batch_size} leaves "
                f"{smallest} of {self.examples} in the smallest: choose another"
            )

    def __len__(self) -> int:
        return -(-self.examples // self.batch_size)

    def order(self, epoch: int) -> Array:
        """Return the indices of all examples in the order of this epoch, (examples,) int64."""
        return np.random.default_rng((self.seed, epoch)).permutation(self.examples)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[tuple[Tensor, ...]]:
        """Yield this rank's part of each batch of an epoch, from batch ``first`` on."""
        order = self.order(epoch)
        for step in range(first, len(self)):
            part = self._part(order, step)
            yield tuple(Tensor(array[part]) for array in self.arrays)

    def _part(self, order: Array, step: int) -> Array:
        batch = order[step * self.batch_size : (step + 1) * self.batch_size]
        return batch[len(batch) * self.rank // self.size : len(batch) * (self.rank + 1) // self.size]
