"""KVCache: what it returns, what it holds in bytes, and that wrong use raises before anything changes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.memoization import KVCache, QuantizedKVCache

SIZES: dict[str, Any] = {"batch_size": 2, "max_seq_len": 6, "num_layers": 3, "num_heads": 4, "head_dim": 5}


def _cache(kind: type[KVCache] = KVCache) -> KVCache:
    return kind(**SIZES)


def _drawn(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((2, 4, count, 5), dtype=np.float32)


def test_update_get_and_advance_keep_positions_in_order_and_reset_forgets() -> None:
    cache = _cache()
    keys, values = _drawn(6, 0), _drawn(6, 1)
    for start, stop in ((0, 3), (3, 4), (4, 6)):
        for layer in range(3):
            with pytest.raises(ValueError, match="written"):
                cache.advance(stop - start)  # not by every layer
            part = np.s_[:, :, start:stop]
            seen, _ = cache.update(layer, Tensor(keys[part] + layer), values[part] - layer)
            np.testing.assert_array_equal(seen.data, keys[:, :, :stop] + layer)
            assert cache.get(layer)[0].shape == (2, 4, start, 5)  # not counted in yet
        cache.advance(stop - start)
        assert (cache.seq_pos, cache.get_memory_usage()["used_bytes"]) == (stop, cache.nbytes * stop // 6)
        for layer in range(3):
            found = cache.get(layer)
            np.testing.assert_array_equal(found[0].data, keys[:, :, :stop] + layer)
            np.testing.assert_array_equal(found[1].data, values[:, :, :stop] - layer)
    cache.reset()
    assert (cache.seq_pos, cache.get(0)[0].shape[2]) == (0, 0)
    for layer in (-1, 3):
        with pytest.raises(IndexError, match="layer_idx"):
            cache.update(layer, keys, values)
        with pytest.raises(IndexError, match="layer_idx"):
            cache.get(layer)


@given(
    sizes=st.fixed_dictionaries(dict.fromkeys(SIZES, st.integers(1, 5))),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_bytes_are_two_for_each_layer_head_dimension_and_position(sizes: dict[str, Any], dtype: Any) -> None:
    batch, positions, layers, heads, depth = (sizes[name] for name in SIZES)
    cache, quantized = KVCache(**sizes, dtype=dtype), QuantizedKVCache(**sizes)
    wanted = 2 * batch * layers * heads * depth * positions * np.dtype(dtype).itemsize
    usage = cache.get_memory_usage()
    assert cache.nbytes == usage["total_bytes"] == wanted == sum(each.nbytes for each in cache.arrays)
    assert (usage["total_mb"], usage["used_bytes"]) == (wanted / 2**20, 0)
    assert usage["per_layer_mb"] == pytest.approx(wanted / 2**20 / layers)
    assert usage["total_elements"] == wanted / np.dtype(dtype).itemsize
    assert quantized.nbytes == 2 * batch * layers * heads * positions * (depth + 4)
    assert quantized.nbytes == sum(each.nbytes for each in quantized.arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda k: (0, k[:1], k[:1]), "key must have shape"),
        (lambda k: (0, k[:, :3], k), "key must have shape"),
        (lambda k: (0, k, k[..., :4]), "value must have shape"),
        (lambda k: (0, k[0], k), "key must have shape"),
        (lambda k: (0, k[:, :, :0], k), "T at least 1"),
        (lambda k: (0, k, k[:, :, :1]), "value must have the key's shape"),
        (lambda k: (0, np.repeat(k, 4, 2), np.repeat(k, 4, 2)), "cannot take 8 more"),
    ],
)
def test_wrong_updates_raise_and_write_nothing(change: Any, message: str) -> None:
    cache = _cache()
    before = cache.update(0, _drawn(2, 0), _drawn(2, 0))[0].data.copy()
    with pytest.raises(ValueError, match=message):
        cache.update(*change(_drawn(2, 3)))
    cache.update(1, _drawn(2, 1), _drawn(2, 1))
    cache.update(2, _drawn(2, 2), _drawn(2, 2))
    cache.advance(2)
    np.testing.assert_array_equal(cache.get(0)[0].data, before)


@pytest.mark.parametrize(("name", "wrong"), [*((name, 0) for name in SIZES), ("dtype", np.int8)])
def test_sizes_must_be_whole_and_positive(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must"):
        KVCache(**{**SIZES, name: wrong})


@pytest.mark.parametrize("size", [1.0, 100.0, 1e-30, 1e37])
def test_quantized_cache_returns_what_its_codes_stand_for(size: float) -> None:
    cache = _cache(QuantizedKVCache)
    keys, values = _drawn(3, 0), _drawn(3, 1) * np.float32(size)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="value"):
            cache.update(1, keys, values * np.float32(bad))
    seen = cache.update(1, keys, values)
    for made, true in zip(seen, (keys, values), strict=True):
        step = np.abs(true).max(axis=3, keepdims=True) / 127
        assert (np.abs(made.data - true) <= 0.5001 * step).all()
        assert (np.abs(made.data - true) > 0).any()
