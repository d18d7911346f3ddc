"""What a forward of a quantized model holds, packed weights included, against the float model's: by the byte."""

import gc
import tracemalloc

import numpy as np
import pytest

from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.int8.matmul import BLOCK_BYTES
from tinytorch.perf.measuring import blas_threads
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import Plan, QuantizedLinear, Scheme


def peak(model: object, x: object) -> int:
    with no_grad(), Profiler(memory=True) as profiler:
        model(x)  # type: ignore[operator]
    return profiler.memory.peak


def test_a_product_holds_a_block_of_quantized_rows_and_never_all() -> None:
    layer = QuantizedLinear(Linear(512, 16, bias=False, seed=0))
    x = Tensor(np.ones((8192, 512), np.float32))
    packed = 2 * 16 * 4
    held = x.nbytes + 8192 * 16 * 4 + 512 * 16 + 16 * 4 + packed
    layer(x)
    # What is left is one row, a scale and a zero point for each row of the block, and Python's own objects.
    with blas_threads(1):
        assert peak(layer, x) < held + BLOCK_BYTES + 16_384


@pytest.mark.parametrize(("scheme", "most"), [(Scheme(per="channel"), 0.27), (Scheme(4, per="channel"), 0.15)])
def test_a_layer_that_ran_holds_its_codes_once(scheme: Scheme, most: float) -> None:
    """Measured, not asked of it: what is left allocated after it was made and called."""
    linear, x = Linear(512, 272, seed=0), Tensor(np.ones((3, 512), np.float32))

    def made_and_called() -> QuantizedLinear:
        layer = QuantizedLinear(linear, Plan(weights=scheme))
        with no_grad():
            layer(x)
        return layer

    made_and_called()
    gc.collect()
    tracemalloc.start()
    layer = made_and_called()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    usage = layer.memory_usage()
    told = usage["quantized_bytes"] + usage["packed_bytes"]
    assert held <= most * usage["original_bytes"]
    # Beside the arrays there are a few of Python's own objects.
    assert told <= held < told + 8_192
