"""Memoization: keep what does not change, foremost the keys and values of a text that grows token by token."""

from tinytorch.perf.memoization.cache import (
    KVCache,
    QuantizedKVCache,
    cache_of,
    disable_kv_cache,
    empty_cache,
    enable_kv_cache,
)
from tinytorch.perf.memoization.decoding import fuse_decoding
from tinytorch.perf.memoization.generation import generate

__all__ = [
    "KVCache",
    "QuantizedKVCache",
    "cache_of",
    "disable_kv_cache",
    "empty_cache",
    "enable_kv_cache",
    "fuse_decoding",
    "generate",
]
