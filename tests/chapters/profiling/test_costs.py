"""Arithmetic and memory on the page on profiling, against what can be worked out by hand."""

from typing import Any

import pytest

from tinytorch import models
from tinytorch.chapters.profiling import costs
from tinytorch.perf.events.array_life import CATEGORIES, MemoryProfile, Step
from tinytorch.perf.events.stream import recording

LENGTHS = [128, 256, 512, 1024]


def block_flops(width: int) -> list[dict[str, int]]:
    """Return the FLOPs of a block by op, layer by layer: four projections, two linear layers, two products."""
    return [
        {"linear": 2 * n * (4 * width * width + 2 * 4 * width * width), "self_attention": 2 * 2 * n * n * width}
        for n in LENGTHS
    ]


def profile(**highest: int) -> MemoryProfile:
    """Return the memory of a step of two ops in which each category held at most so many bytes."""
    with recording() as recorded:
        pass
    held = {category: highest.get(category, 0) for category in CATEGORIES}
    steps = tuple(Step(8, 4, 16, tuple(part * held[category] for category in CATEGORIES)) for part in (0, 1))
    return MemoryProfile(recorded.profile, steps, held, held, 100, 50, 120, True)


def test_a_model_is_studied_on_what_it_has_not_seen() -> None:
    found = costs.studied({"mlp": models.mlp()})["mlp"]
    layers = ((64, 256), (256, 128), (128, 10))
    assert found.parameters.value == sum(m * n + n for m, n in layers)
    assert found.flops.value == sum(2 * m * n for m, n in layers)
    assert 0 <= found.score.value < 0.5  # untrained
    examples = len(models.entry("mlp").data().test_targets)
    assert (found.label, found.scored_as) == ("MLP", f"test accuracy, {examples} examples")


def test_conventions_are_set_beside_ours() -> None:
    found = costs.conventions({"MACs": 50, "ours": 100}, 100)
    assert [(each["count"], each["relative"].value) for each in found.values()] == [(50, 0.5), (100, 1.0)]


def test_the_formula_for_twice_the_length_is_that_of_the_layers_and_attention_grows_fourfold() -> None:
    found = costs.doublings(LENGTHS, {width: block_flops(width) for width in (768, 96)})
    assert [row.positions for row in found] == ["128 to 256", "256 to 512", "512 to 1,024"]
    assert [row.counted["768"].value for row in found][::2] == pytest.approx([2.054, 2.2], abs=1e-3)
    for row in found:
        for width in ("768", "96"):
            assert row.formula[width].value == pytest.approx(row.counted[width].value)
            assert row.attention[width].value == 4


def test_attention_is_held_against_one_linear_layer_and_against_the_block() -> None:
    positions = 1e6 / 768  # a million numbers, 768 at each position: 4 n² d over 2 n d²
    over = 4 * positions**2 * 768 / (2 * positions * 768**2)
    assert costs.attention_over_linear(1_000_000, 768).value == pytest.approx(over)
    assert costs.length_for(1000, 768).value * 2 / 768 == pytest.approx(1000)
    block = dict(zip(LENGTHS, block_flops(768), strict=True))[512]
    core, whole = block["self_attention"], sum(block.values())
    assert costs.attention_share(512, 768).value == pytest.approx((core + 2 * 512 * 4 * 768**2) / whole)
    doubled = costs.activations_over_input({"mlp": {"activation_memory_mb": 6.0, "input_memory_mb": 1.5}})
    assert doubled["mlp"].value == 4
    assert costs.shares_of_memory({"wide": 0.25}, 128)["wide"].value == 0.25


def test_activations_have_a_share_of_what_a_step_keeps_and_grow_with_the_batch() -> None:
    once = profile(parameters=100, gradients=99, optimizer=201, activations=400)
    found = costs.step_memory({"gpt": once}, {"gpt": profile(activations=800)})["gpt"]
    assert {kind: each.value for kind, each in found.held.items()} == {
        "parameters": 100,
        "gradients": 99,
        "optimizer": 201,
        "activations": 400,
    }
    assert (found.share.value, found.growth.value, found.doubled.value) == (0.5, 2, 800)
    assert found.gradients.value == 0.99


def test_areas_of_memory_stand_on_one_another() -> None:
    held = profile(parameters=2**20, optimizer=2**21, gradients=2**20, activations=2**22)
    looks: Any = {"parameters": "teal", "optimizer": "blue", "gradients": "orange", "activations": "rose"}
    areas: Any = costs.memory_timeline(held, looks, xlabel="op", ylabel="memory (MiB)").axes[0].collections
    tops = {area.get_label(): area.get_paths()[0].vertices[:, 1].max() for area in areas}
    assert tops == {"parameters": 1, "optimizer": 3, "gradients": 4, "activations": 8}


def test_networks_and_gpt2_have_the_parameters_of_their_layers() -> None:
    networks = costs.feed_forward(12, 768)
    assert networks.value == 12 * (768 * 3072 + 3072 + 3072 * 768 + 768)
    assert costs.bytes_of(networks, 4).value == 16 * networks.value
    assert costs.gpt2_in_blocks().value == pytest.approx(12 * (12 * 768**2 + 13 * 768) / 124_439_808)
