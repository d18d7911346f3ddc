"""What the page on profiling counts, and what formulas say of it: arithmetic and memory of models, and of blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tinytorch import models
from tinytorch.chapters.gpt2 import GPT2
from tinytorch.core.module import Module
from tinytorch.perf.events.array_life import CATEGORIES, Category, MemoryProfile
from tinytorch.perf.measuring import Counted, Derived, Modelled
from tinytorch.perf.profiling.passes import count_flops, count_parameters
from tinytorch.report.colors import color
from tinytorch.report.figures import subplots


@dataclass(frozen=True)
class StudiedModel:
    """A trained model of the zoo: its contractions in a forward pass of one example, and its score on unseen ones."""

    label: str
    parameters: Counted
    flops: Counted
    score: Counted
    scored_as: str


def studied(trained: Mapping[str, Module]) -> dict[str, StudiedModel]:
    """Return each of the ``trained`` models of the zoo in numbers."""
    found = {}
    for name, model in trained.items():
        entry, label, right = models.entry(name), name.upper(), models.correct(model, name)
        flops = count_flops(model, entry.example_input(1).shape)
        found[name] = StudiedModel(
            label,
            Counted(count_parameters(model), "parameters", f"parameters of the {label}"),
            Counted(flops, "FLOP", f"contractions of one forward pass of the {label}"),
            Counted(right.mean(), "%", f"{entry.score} of {len(right)}"),
            f"{entry.score}, {len(right)} examples",
        )
    return found


def cnn_over_mlp(studied: Mapping[str, StudiedModel]) -> Counted:
    """Return the arithmetic of the CNN over the MLP's."""
    return Counted(studied["cnn"].flops.value / studied["mlp"].flops.value, "", "arithmetic of the CNN over the MLP's")


def conventions(counts: Mapping[str, int], ours: int) -> dict[str, dict[str, Any]]:
    """Return each of the counts beside ``ours``, as rows."""
    return {
        name: {"count": count, "relative": Counted(count / ours, "", "count over this book's")}
        for name, count in counts.items()
    }


@dataclass(frozen=True)
class Doubling:
    """What twice the positions make of a block's arithmetic, by its width: by formula, counted, of attention alone."""

    positions: str
    formula: dict[str, Modelled]
    counted: dict[str, Counted]
    attention: dict[str, Counted]


def doublings(lengths: Sequence[int], by_width: Mapping[int, Sequence[Mapping[str, int]]]) -> list[Doubling]:
    """Return the growth from each length to the next, twice as long, by the FLOPs of blocks by op at each length."""

    def formula(length: int, width: int) -> Modelled:
        """Divide 4nd (6d + n) at twice the length by that at the length."""
        grown = 2 * (6 * width + 2 * length) / (6 * width + length)
        return Modelled(grown, "", "growth of a block", "arithmetic")

    made = []
    for at, (before, after) in enumerate(pairwise(lengths)):
        pairs = {str(width): flops[at : at + 2] for width, flops in by_width.items()}
        whole = {width: sum(many.values()) / sum(few.values()) for width, (few, many) in pairs.items()}
        attention = {width: many["self_attention"] / few["self_attention"] for width, (few, many) in pairs.items()}
        made.append(
            Doubling(
                f"{before:,} to {after:,}",
                {str(width): formula(before, width) for width in by_width},
                {width: Counted(each, "", "growth of a block's arithmetic") for width, each in whole.items()},
                {width: Counted(each, "", "growth of attention's arithmetic") for width, each in attention.items()},
            )
        )
    return made


def attention_over_linear(numbers: int, width: int) -> Counted:
    """Return attention's arithmetic over that of a linear layer from d to d features: 2n/d on n positions."""
    return Counted(2 * numbers / width**2, "", f"arithmetic of attention over that of a linear layer, {width} wide")


def length_for(times: int, width: int) -> Counted:
    """Return the positions from which attention does so many times the arithmetic of a linear layer."""
    return Counted(times * width // 2, "positions", f"length from which attention does {times} times a linear layer")


def attention_share(length: int, width: int) -> Counted:
    """Return attention's share of a block's arithmetic, with its four projections: (2d + n) / (6d + n)."""
    what = f"attention's share of a block's arithmetic at {length} positions, projections included"
    return Counted((2 * width + length) / (6 * width + length), "%", what)


def shares_of_memory(found: Mapping[str, float], positions: int) -> dict[str, Counted]:
    """Return attention's shares of the memory of blocks, by their names."""
    what = f"attention's share of a block's parameters and activations at {positions} positions"
    return {name: Counted(share, "%", f"{what}, the {name} one") for name, share in found.items()}


def activations_over_input(found: Mapping[str, Mapping[str, float]]) -> dict[str, Counted]:
    """Return the memory of activations over that of the input, by ``measure_memory`` of each model."""
    what = "memory of the activations over that of the input"
    return {
        name: Counted(keys["activation_memory_mb"] / keys["input_memory_mb"], "", f"{what}, {name.upper()}")
        for name, keys in found.items()
    }


@dataclass(frozen=True)
class StepMemory:
    """Memory of a training step: the most bytes of each kind, and the activations of a batch twice as large.

    Attributes:
        share: activations of all four kinds.
        growth: activations of the larger batch over those of the smaller.
    """

    label: str
    held: Mapping[str, Counted]
    doubled: Counted
    share: Counted
    growth: Counted

    @property
    def gradients(self) -> Derived:
        """Bytes of gradients for each byte of parameters."""
        return self.held["gradients"].over(self.held["parameters"], "gradients over parameters")


def step_memory(memory: Mapping[str, MemoryProfile], doubled: Mapping[str, MemoryProfile]) -> dict[str, StepMemory]:
    """Return what steps of each model on 64 examples and on 128 hold."""
    found = {}
    kinds: tuple[Category, ...] = ("parameters", "gradients", "optimizer", "activations")
    what = "activations saved for backward, of parameters, gradients, optimizer state and activations of the"
    for name, profile in memory.items():
        label, held = name.upper(), {kind: profile.highest[kind] for kind in kinds}
        once, twice = held["activations"], doubled[name].highest["activations"]
        found[name] = StepMemory(
            label,
            {kind: Counted(size, "B", f"{kind} of the {label}") for kind, size in held.items()},
            Counted(twice, "B", f"activations of the {label}, 128 examples"),
            Counted(once / sum(held.values()), "%", f"{what} {label}"),
            Counted(twice / once, "", f"activations for 128 examples over 64, {label}"),
        )
    return found


def memory_timeline(found: MemoryProfile, variants: Mapping[Category, str], xlabel: str, ylabel: str) -> Figure:
    """Return stacked areas of the mebibytes that are alive after each op, those of the first category lowest."""
    figure, ax = subplots(height=2.8)
    live = np.array([step.live for step in found.steps]) / 2**20
    below = np.zeros(len(live))
    for category, variant in variants.items():
        above = below + live[:, CATEGORIES.index(category)]
        ax.fill_between(range(len(live)), below, above, color=color(variant), label=category, linewidth=0)
        below = above
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_ylim(0, 1.05 * float(below.max()))
    ax.legend()
    return figure


def feed_forward(layers: int, width: int) -> Counted:
    """Return the parameters of so many networks of two linear layers, from d to 4d and back."""
    return Counted(layers * (8 * width**2 + 5 * width), "parameters", f"{layers} feed-forward networks, {width} wide")


def bytes_of(parameters: Counted, numbers: int) -> Counted:
    """Return the bytes of so many float32 numbers for each parameter."""
    return Counted(4 * numbers * parameters.value, "B", f"{numbers} numbers for each of the {parameters.name}")


def gpt2_in_blocks() -> Counted:
    """Return what share of GPT-2's parameters its blocks hold."""
    share = GPT2.layers * GPT2.block_parameters / GPT2.parameters
    return Counted(share, "%", "share of GPT-2's parameters that its blocks hold")
