"""Bytes of NumPy's operators are counted operand by operand."""

import numpy as np

from tinytorch.perf.measuring.moved_bytes import passes_bytes


def test_passes_are_counted_operand_by_operand() -> None:
    x = np.ones(1000, np.float32)
    assert passes_bytes(lambda x: x + x, x) == 3 * 4000
    assert passes_bytes(lambda x: x + np.float32(1), x) == 2 * 4000
    assert passes_bytes(lambda x: np.tanh(x * 2, out=np.empty(1000, np.float32)), x) == 4 * 4000
