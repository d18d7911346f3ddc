"""Buckets of parameters: each once, in parts that ranks share out evenly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.core.module import Parameter
from tinytorch.perf.distributed.training.updates import bucketed

SHAPES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 5), st.sampled_from(["f4", "f8"])), min_size=1, max_size=8
)


@given(SHAPES, st.integers(1, 200), st.integers(1, 5))
def test_every_parameter_lies_in_one_bucket_of_its_dtype_and_shards_cover_it(
    shapes: list[tuple[int, int, str]], nbytes: int, ranks: int
) -> None:
    parameters = [Parameter(np.zeros((rows, columns), kind)) for rows, columns, kind in shapes]
    buckets = bucketed(parameters, nbytes, ranks)
    assert [id(p) for bucket in buckets for p in bucket.parameters] == [id(p) for p in reversed(parameters)]
    for bucket in buckets:
        assert {parameter.dtype for parameter in bucket.parameters} == {bucket.dtype}
        assert bucket.length % ranks == 0
        assert bucket.length - sum(parameter.size for parameter in bucket.parameters) in range(ranks)
        assert sum(parameter.nbytes for parameter in bucket.parameters[:-1]) < nbytes, "closed as soon as it is full"
        flat = np.arange(bucket.length, dtype=bucket.dtype)
        seen = np.concatenate([part.ravel() for _, part in bucket.views(flat)])
        np.testing.assert_array_equal(seen, flat[: seen.size])
        assert all(part.shape == parameter.shape for parameter, part in bucket.views(flat))
        shards = [bucket.shard(flat, rank, ranks) for rank in range(ranks)]
        np.testing.assert_array_equal(np.concatenate(shards), flat)


def test_a_view_writes_to_the_flat_array() -> None:
    (bucket,) = bucketed([Parameter(np.zeros((2, 2), np.float32))], 1000, 3)
    flat = np.zeros(bucket.length, np.float32)
    for _, part in bucket.views(flat):
        part[...] = 1
    assert flat.tolist() == [1, 1, 1, 1, 0, 0]
    with pytest.raises(ValueError, match="bucket_bytes"):
        bucketed([], 0, 1)
