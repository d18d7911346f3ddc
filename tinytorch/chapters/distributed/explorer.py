"""Explorer of clusters: published clusters and models, each number with its source, and the modelled grid over them.

Nothing of them was measured here. The grid is all that the page's script knows: it computes no step of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tinytorch.chapters.distributed.gpt_workload import transformer_workload
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, GivenLink, Line
from tinytorch.perf.distributed.cluster_model.prediction import Prediction, Split, best_splits, predict
from tinytorch.perf.distributed.cluster_model.workload import Workload

#: Latencies in seconds that NCCL reckons with for a ring's step: its source, src/graph/tuning.cc, ring and "Simple".
_NVLINK_ALPHA, _NETWORK_ALPHA = 3.4e-6, 14.0e-6
_NCCL = ("NVIDIA, NCCL, src/graph/tuning.cc (latencies)", "https://github.com/NVIDIA/nccl")


@dataclass(frozen=True)
class ClusterPreset:
    """A published cluster.

    Attributes:
        name: what it is. links: in one direction, shared out to the ranks of a node.
        flops_per_second: that a rank attained in a training that was published. memory_bytes: of a rank, None for no
            limit.
        sources: who published what of it, and where.
    """

    name: str
    links: Cluster
    flops_per_second: float
    memory_bytes: float | None
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ModelPreset:
    """A published GPT and the batch that it was trained with, in sequences."""

    name: str
    layers: int
    width: int
    heads: int
    positions: int
    vocabulary: int
    examples: int
    sources: tuple[tuple[str, str], ...]

    def workload(self, flops_per_second: float) -> Workload:
        """Return the workload on ranks of a rate, in mixed precision, with activations that are computed twice."""
        return transformer_workload(
            layers=self.layers,
            width=self.width,
            heads=self.heads,
            positions=self.positions,
            vocabulary=self.vocabulary,
            examples=self.examples,
            flops_per_second=flops_per_second,
            recompute=True,
            name=self.name,
        )


_NARAYANAN_ADDRESS = "https://doi.org/10.1145/3458817.3476209"
_NARAYANAN = ("Narayanan et al. 2021", _NARAYANAN_ADDRESS)
_AMPERE = "https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf"
_SHOEYBI_ADDRESS = "https://arxiv.org/abs/1909.08053"

#: The first one is what a page shows without JavaScript.
CLUSTERS: tuple[ClusterPreset, ...] = (
    ClusterPreset(
        "8 A100 a node, 2021",
        Cluster(GivenLink(_NVLINK_ALPHA, 1 / 300e9), GivenLink(_NETWORK_ALPHA, 1 / 25e9), 8),
        142e12,  # of the first model below on 128 ranks, its communication included
        80e9,
        (
            ("Narayanan et al. 2021 (nodes, network, memory, rate)", _NARAYANAN_ADDRESS),
            ("NVIDIA 2020 (NVLink, both ways together)", _AMPERE),
            _NCCL,
        ),
    ),
    ClusterPreset(
        "16 V100 a node, 2019",
        Cluster(GivenLink(_NVLINK_ALPHA, 1 / 150e9), GivenLink(_NETWORK_ALPHA, 1 / 6.25e9), 16),
        39e12,  # of one rank alone
        32e9,
        (("Shoeybi et al. 2019 (nodes, links both ways together, memory, rate)", _SHOEYBI_ADDRESS), _NCCL),
    ),
)
MODELS: tuple[ModelPreset, ...] = (
    ModelPreset("GPT of 7.5 billion", 36, 4096, 32, 2048, 51_200, 512, (_NARAYANAN,)),
    ModelPreset("GPT of 1.7 billion", 24, 2304, 24, 2048, 51_200, 512, (_NARAYANAN,)),
    ModelPreset("GPT of 145.6 billion", 80, 12288, 96, 2048, 51_200, 2304, (_NARAYANAN,)),
    ModelPreset("GPT of a trillion", 128, 25600, 160, 2048, 51_200, 3072, (_NARAYANAN,)),
)
#: Ranks, and what their data split shares out, that go with the first of each.
RANKS, SHARDING = 128, 1
#: The grid's numbers of ranks, its batches as multiples of the published one, and sequences of a rank where they grow.
GRID_RANKS = tuple(2**power for power in range(13))
BATCHES, EACH = (0.25, 1, 4), 4
#: Splits of a cell, the fastest ones, and significant digits of its shares, of which a page shows as many, and of times
#: and bytes, which it shows in other units.
_KEPT, _DIGITS_OF_SHARES, _DIGITS = 3, 3, 4
#: What a rank's step spends on messages.
_MESSAGES = ("tensor", "handing", "gradients")
#: The number of splits that fit, then the numbers of the fastest ones; see `grid`.
Cell = list[Any]


def scaling_curve(
    workload: Workload, cluster: ClusterPreset, ranks: Sequence[int], *, examples_per_rank: int | None = None
) -> list[Prediction | None]:
    """Return the fastest split's prediction for each number of ranks; None where none fits.

    Args:
        examples_per_rank: the batch grows with the ranks: weak scaling. None keeps the workload's: strong scaling.
    """
    curve: list[Prediction | None] = []
    for number in ranks:
        found = fitting(workload, cluster, number, examples_per_rank)
        curve.append(found[0] if found else None)
    return curve


def fitting(workload: Workload, cluster: ClusterPreset, ranks: int, examples_per_rank: int | None) -> list[Prediction]:
    """Return the splits of ``ranks`` that fit, the fastest first, where the optimizer's state is shared out."""
    wanted = workload if examples_per_rank is None else workload.of_examples(examples_per_rank * ranks)
    return best_splits(wanted, cluster.links, ranks, memory_bytes=cluster.memory_bytes, sharding=SHARDING)


def grid(own: ClusterPreset | None = None) -> dict[str, Any]:
    """Return every modelled number that the page's explorer shows, as JSON holds it.

    ``cells[cluster][model]`` has ``stays``, by batch and number of ranks, and ``grows``, by number of ranks. A cell is
    the number of splits that fit and rows of the fastest: data, tensor, pipeline, micro-batches, seconds, efficiency
    against one rank that had memory enough, bytes of a rank, and the shares of bubble and messages in the step. Where
    the batch grows, only the fastest is shown.

    Args:
        own: the machine that built the page, the last of the clusters.
    """
    clusters = [*CLUSTERS, *([own] if own else [])]
    return {
        "ranks": list(GRID_RANKS),
        "each": EACH,
        "start": GRID_RANKS.index(RANKS),
        "clusters": [
            {
                "name": one.name,
                "ranks_per_node": one.links.ranks_per_node,
                "flops_per_second": one.flops_per_second,
                "memory_bytes": one.memory_bytes,
                "inside": _link(one.links.inside),
                "between": _link(one.links.between),
                "sources": [list(source) for source in one.sources],
            }
            for one in clusters
        ],
        "models": [
            {
                "name": one.name,
                "batches": [int(one.examples * factor) for factor in BATCHES],
                "sources": [list(source) for source in one.sources],
            }
            for one in MODELS
        ],
        "cells": [[_cells(cluster, model) for model in MODELS] for cluster in clusters],
    }


def _link(line: Line) -> list[float | None]:
    """Return latency in seconds and bytes a second, None where bytes cost nothing that could be told."""
    beta = line.beta_s_per_byte
    return [_rounded(line.alpha_s), _rounded(1 / beta) if beta else None]


@cache
def _cells(cluster: ClusterPreset, model: ModelPreset) -> dict[str, Any]:
    work = model.workload(cluster.flops_per_second)
    one = predict(work, cluster.links, Split())
    batches = [work.of_examples(int(work.examples * factor)) for factor in BATCHES]
    return {
        "stays": [[_cell(fitting(each, cluster, ranks, None), one) for ranks in GRID_RANKS] for each in batches],
        "grows": [_cell(fitting(work, cluster, ranks, EACH), one, 1) for ranks in GRID_RANKS],
    }


def _cell(found: Sequence[Prediction], one: Prediction, kept: int = _KEPT) -> Cell:
    return [len(found), *(_row(each, one) for each in found[:kept])]


def _row(found: Prediction, one: Prediction) -> list[float]:
    split, seconds = found.split, found.seconds
    messages = sum(getattr(found, part) for part in _MESSAGES)
    return [
        split.data,
        split.tensor,
        split.pipeline,
        split.micro,
        _rounded(seconds),
        _rounded(found.efficiency(one), _DIGITS_OF_SHARES),
        _rounded(found.memory.total),
        _rounded(found.bubble / seconds, _DIGITS_OF_SHARES),
        _rounded(messages / seconds, _DIGITS_OF_SHARES),
    ]


def _rounded(number: float, digits: int = _DIGITS) -> float:
    """Return a number with so many digits; a whole one without a point, which JSON would spell out."""
    found = float(f"{number:.{digits}g}")
    return int(found) if found == int(found) else found
