"""DataLoader: batches of arrays, shuffled from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tinytorch.core.dispatch import region
from tinytorch.core.layers import checked_positive
from tinytorch.core.op import Array, whole_numbers
from tinytorch.core.random import Seed, generator_from
from tinytorch.core.tensor import Tensor

#: Name of the region in which a batch is made.
REGION = "data loading"


def input_batches(data: Any, name: str = "data") -> Iterator[Any]:
    """Yield the inputs of each batch of ``data``, as a model takes them.

    Args:
        data: a Tensor or array, which is one batch; or a `DataLoader`, list or generator of batches, each the inputs or
            a tuple that begins with them, as `tinytorch.core.training.fit` takes them.
        name: what an error calls it.

    Raises:
        TypeError: if it is none of these.
    """
    if isinstance(data, (Tensor, np.ndarray)):
        yield data
        return
    if not isinstance(data, Iterable) or isinstance(data, (str, dict)):
        raise TypeError(
            f"{name} must be a batch of inputs, a DataLoader or a list of batches, not {type(data).__name__}"
        )
    for batch in data:
        yield batch[0] if isinstance(batch, tuple) else batch


@whole_numbers
class DataLoader:
    """Batches of one or more arrays that share their first axis, as tuples of Tensors.

    Args:
        arrays: arrays or Tensors of one length.
        batch_size: examples in a batch; the last one may be smaller.
        shuffle: draw a new order each time it is iterated.
        seed: seed or generator of that order.

    Raises:
        ValueError: if there are no arrays, they are empty, their lengths differ, or ``batch_size`` is below 1.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.core.dataloader import DataLoader
        >>> loader = DataLoader(np.zeros((10, 3), np.float32), np.arange(10), batch_size=4)
        >>> [inputs.shape for inputs, labels in loader]
        [(4, 3), (4, 3), (2, 3)]
    """

    def __init__(self, *arrays: Array | Tensor, batch_size: int = 32, shuffle: bool = False, seed: Seed = None) -> None:
        self.arrays = [array.data if isinstance(array, Tensor) else np.asarray(array) for array in arrays]
        lengths = {array.shape[:1] for array in self.arrays}
        if len(lengths) != 1 or not all(length and length[0] for length in lengths):
            shapes = [array.shape for array in self.arrays]
            raise ValueError(f"arrays must be one or more of the same length above 0, but their shapes are {shapes}")
        checked_positive(batch_size=batch_size)
        self.batch_size, self.shuffle = batch_size, shuffle
        self.generator = generator_from(seed)

    def __len__(self) -> int:
        return -(-len(self.arrays[0]) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        count = len(self.arrays[0])
        with region(REGION):
            order = self.generator.permutation(count) if self.shuffle else None
        for start in range(0, count, self.batch_size):
            with region(REGION):
                stop = start + self.batch_size
                chosen = slice(start, stop) if order is None else order[start:stop]
                batch = tuple(Tensor(array[chosen]) for array in self.arrays)
            yield batch
