"""The ring all-reduce against NumPy's sum, on ranks that are threads and pass messages through queues."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.distributed.collectives.timing import ring_all_reduce
from tinytorch.perf.distributed.ranks.communicator import Communicator

Array = npt.NDArray[Any]


class Thread:
    """What a ring needs of a communicator; counts messages and bytes that this rank sends."""

    def __init__(self, rank: int, size: int, mail: defaultdict[tuple[int, int], SimpleQueue[Array]]) -> None:
        self.rank, self.size, self._mail = rank, size, mail
        self.messages = self.nbytes = 0

    def begin_send(self, array: Array, to: int, tag: int = 0) -> Thread:
        del tag
        self.messages += 1
        self.nbytes += array.nbytes
        self._mail[self.rank, to].put(array.copy())
        return self

    def wait(self) -> None:
        return None

    def receive(self, source: int, tag: int = 0) -> Array:
        del tag
        return self._mail[source, self.rank].get()


def summed(arrays: list[Array]) -> tuple[list[Array], list[Thread]]:
    """Return what each rank of a ring has in the end, and the ranks."""
    size = len(arrays)
    mail: defaultdict[tuple[int, int], SimpleQueue[Array]] = defaultdict(SimpleQueue)
    for rank in range(size):
        mail[rank, (rank + 1) % size].qsize()  # made before threads could make it twice
    ranks = [Thread(rank, size, mail) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        made = list(pool.map(lambda array, rank: ring_all_reduce(array, cast(Communicator, rank)), arrays, ranks))
    return made, ranks


@given(
    st.integers(1, 6),
    st.lists(st.integers(0, 9), max_size=3),
    st.sampled_from(["f4", "f8", "i8"]),
    st.integers(0, 2**32),
)
def test_every_rank_ends_with_numpys_sum(size: int, shape: list[int], dtype: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    arrays = [np.array(draw.normal(size=shape) * 100).astype(dtype) for _ in range(size)]
    given_before = [array.copy() for array in arrays]
    made, ranks = summed(arrays)
    for one, rank in zip(made, ranks, strict=True):
        assert one.shape == tuple(shape)
        assert one.dtype == np.dtype(dtype)
        np.testing.assert_allclose(one, np.sum(arrays, axis=0, dtype=dtype), rtol=1e-5, atol=1e-3)
        np.testing.assert_array_equal(one, made[0])  # to the last bit: each part was added up in one place
        assert rank.messages == 2 * (size - 1)
        if arrays[0].size % size == 0:  # twice the array but for its own share
            assert rank.nbytes == 2 * (size - 1) * one.nbytes // size
    for array, before in zip(arrays, given_before, strict=True):
        np.testing.assert_array_equal(array, before)
