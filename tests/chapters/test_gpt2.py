"""GPT-2's formulas against its published count, the package's own GPT, and what its ops count as they run."""

from collections import Counter

import numpy as np
import pytest

from tests.perf.made_ceilings import OP, made_ceilings
from tinytorch.chapters.gpt2 import CODES, GPT2, Shape, call_seconds, read_seconds, step_calls
from tinytorch.core.dispatch import no_grad
from tinytorch.core.optimizers import Adam
from tinytorch.core.transformers import GPT, TransformerBlock
from tinytorch.perf.compression import low_rank_model
from tinytorch.perf.events.stream import recording
from tinytorch.perf.memoization import KVCache, enable_kv_cache
from tinytorch.perf.quantization import Plan, quantize_model
from tinytorch.perf.quantization.convert import stored_bytes

SMALL = Shape(layers=3, width=24, heads=2, positions=16, vocabulary=50)


def made(shape: Shape) -> GPT:
    return GPT(shape.vocabulary, shape.width, shape.layers, shape.heads, shape.positions, seed=0).eval()


def flops_of(model: GPT, tokens: int, last: bool = False) -> int:
    """Return the FLOPs of the contractions of one pass, as its ops count them."""
    with no_grad(), recording() as recorded:
        model(np.zeros((1, tokens), np.int64), last=last)
    return sum(event.flops or 0 for event in recorded.profile.events)


@pytest.mark.parametrize("shape", [SMALL, Shape(layers=1, width=8, heads=1, positions=4, vocabulary=11)])
def test_parameters_are_those_of_the_package_s_own_gpt(shape: Shape) -> None:
    model = made(shape)
    assert shape.parameters == sum(each.size for each in model.parameters())
    block = TransformerBlock(shape.width, shape.heads, seed=0)
    assert GPT2.parameters == 124_439_808, "as published"
    assert shape.step_bytes == sum(each.data.nbytes for each in model.parameters()) - 4 * shape.width * (
        shape.positions - 1
    )
    cache = KVCache(1, shape.positions, shape.layers, shape.heads, shape.width // shape.heads)
    assert shape.cache_bytes(shape.positions) == cache.nbytes
    assert shape.block_parameters == sum(each.size for each in block.parameters())
    assert shape.block_matrices == sum(each.size for each in block.parameters() if each.data.ndim == 2)
    mlps = [each.mlp for each in model.blocks]
    assert shape.mlp_matrices == sum(each.size for mlp in mlps for each in mlp.parameters() if each.data.ndim == 2)


@pytest.mark.parametrize("count", [1, 5, 16])
def test_a_text_does_the_flops_that_its_ops_count(count: int) -> None:
    assert SMALL.text_flops(count) == flops_of(made(SMALL), count)
    assert SMALL.reread_flops(count) == flops_of(made(SMALL), count, last=True)
    model = made(SMALL)
    enable_kv_cache(model)
    assert [flops_of(model, 1) for _ in range(count)][-1] == SMALL.step_flops(count)


def test_training_does_three_forwards_as_narayanan_counts_it() -> None:
    s, h, blocks, v = 1024, 768, 12, 50_257
    by_paper = 72 * s * blocks * h**2 * (1 + s / (6 * h) + v / (12 * blocks * h))
    assert 3 * GPT2.text_flops(GPT2.positions) == pytest.approx(by_paper)


def test_training_keeps_what_adam_does() -> None:
    model = made(SMALL).train()
    optimizer = Adam(model.parameters())
    model(np.zeros((1, 2), np.int64)).sum().backward()
    optimizer.step()
    kept = sum(each.data.nbytes for each in model.parameters())
    gradients = sum(each.grad.data.nbytes for each in model.parameters() if each.grad is not None)
    assert SMALL.training_bytes == kept + gradients + optimizer.state_nbytes()


def test_two_factors_of_the_largest_rank_hold_at_most_half() -> None:
    rank, whole = GPT2.halving_rank, 768 * 3072
    assert rank * (768 + 3072) <= whole / 2 < (rank + 1) * (768 + 3072)
    ranks = {f"blocks.{i}.mlp.{name}": SMALL.halving_rank for i in range(3) for name in ("expand", "contract")}
    left = sum(each.size for each in low_rank_model(made(SMALL), ranks).parameters())
    assert SMALL.parameters - SMALL.halving_saves == SMALL.halved_parameters == left


def test_codes_take_the_bytes_of_the_book_s_quantized_model() -> None:
    shape = Shape(layers=2, width=32, heads=2, positions=8, vocabulary=40)
    stored = stored_bytes(quantize_model(made(shape), plan=Plan("weight-only", CODES)))
    row = shape.width * 9 // 8
    assert shape.coded_bytes == stored - (shape.positions - 1) * row
    assert GPT2.halved_coded_bytes == GPT2.coded_bytes - GPT2.halving_saves * 9 // 8


def test_calls_are_those_of_any_step_of_as_many_layers() -> None:
    """Per block ten: two normalizations, four products, attention, GELU, two sums; six at the ends."""
    ops = Counter(event.op for event in step_calls())
    assert ops["linear"] == 4 * 12 + 1
    assert ops["layer_norm"] == 2 * 12 + 1
    assert ops.total() == 10 * 12 + 6
    model = made(Shape(layers=12, width=48, heads=12, positions=4, vocabulary=7))
    with no_grad(), recording() as recorded:
        model(np.zeros((1, 1), np.int64))
    assert Counter(event.op for event in recorded.profile.events) == ops


def test_seconds_are_calls_at_their_cost_and_bytes_at_the_bandwidth_of_their_level() -> None:
    machine = made_ceilings()
    assert call_seconds(machine).measurement("calls").median == pytest.approx(126 * OP)
    assert read_seconds(GPT2.step_bytes, machine).measurement("read").median == pytest.approx(GPT2.step_bytes / 10e9)
    assert read_seconds(1000, machine).measurement("read").median == pytest.approx(1000 / 400e9), (
        "they fit the first cache"
    )
