"""Explorer of clusters: published clusters and models, each number with its source, and the modelled grid over them.

Nothing of them was measured here. The grid is all that the page's script knows: it computes no step of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, GivenLink, Line
from tinytorch.perf.distributed.cluster_model.prediction import Prediction, Split, best_splits, predict
from tinytorch.perf.distributed.cluster_model.workload import Workload, transformer_workload
from tinytorch.perf.measuring import Modelled
from tinytorch.report import points

#: Who published what, and where.
Sources = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ClusterPreset:
    """A published cluster: links in one direction, shared out to a node's ranks; a rank's rate, and memory if known."""

    name: str
    links: Cluster
    flops_per_second: float
    memory_bytes: float | None
    sources: Sources


@dataclass(frozen=True)
class ModelPreset:
    """A published GPT and the batch that it was trained with, in sequences; activations are computed twice."""

    name: str
    layers: int
    width: int
    heads: int
    positions: int
    vocabulary: int
    examples: int
    sources: Sources

    @property
    def flops(self) -> float:
        """FLOPs of a step: the seconds that it takes at one of them a second."""
        work = self.workload(1.0)
        return work.examples * (work.blocks * work.block.divided_s + work.ends.divided_s)

    def workload(self, flops_per_second: float) -> Workload:
        """Return the workload on ranks of a rate, in mixed precision."""
        return transformer_workload(
            name=self.name, layers=self.layers, width=self.width, heads=self.heads, positions=self.positions,
            vocabulary=self.vocabulary, examples=self.examples, flops_per_second=flops_per_second, recompute=True,
        )  # fmt: skip


def modelled(value: float, unit: str, what: str) -> Modelled:
    """Return a number that the model of larger machines says."""
    return Modelled(value, unit, what, "the model of larger machines")


#: Latencies in seconds that NCCL reckons with for a ring's step: its source, src/graph/tuning.cc, ring and "Simple".
_NVLINK_ALPHA, _NETWORK_ALPHA = 3.4e-6, 14.0e-6
_NCCL = ("NVIDIA, NCCL, src/graph/tuning.cc (latencies)", "https://github.com/NVIDIA/nccl")
_NARAYANAN_ADDRESS = "https://doi.org/10.1145/3458817.3476209"
_NARAYANAN = (("Narayanan et al. 2021", _NARAYANAN_ADDRESS),)
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
    ModelPreset("GPT of 7.5 billion", 36, 4096, 32, 2048, 51_200, 512, _NARAYANAN),
    ModelPreset("GPT of 1.7 billion", 24, 2304, 24, 2048, 51_200, 512, _NARAYANAN),
    ModelPreset("GPT of 145.6 billion", 80, 12288, 96, 2048, 51_200, 2304, _NARAYANAN),
    ModelPreset("GPT of a trillion", 128, 25600, 160, 2048, 51_200, 3072, _NARAYANAN),
)
#: Ranks, and what their data split shares out, that go with the first of each.
RANKS, SHARDING = 128, 1
#: The grid's numbers of ranks, its batches as multiples of the published one, and sequences of a rank where they grow.
GRID_RANKS = tuple(2**power for power in range(13))
BATCHES, EACH = (0.25, 1, 4), 4
#: Splits of a cell, the fastest ones, and significant digits of its shares, of which a page shows as many, and of times
#: and bytes, which it shows in other units.
_KEPT, _DIGITS_OF_SHARES, _DIGITS = 3, 3, 4


def fitting(workload: Workload, cluster: ClusterPreset, ranks: int, examples_per_rank: int | None) -> list[Prediction]:
    """Return the splits of ``ranks`` that fit, the fastest first, where the optimizer's state is shared out.

    The batch grows with ``examples_per_rank``, weak scaling; None keeps the workload's, strong scaling.
    """
    wanted = workload if examples_per_rank is None else workload.of_examples(examples_per_rank * ranks)
    return best_splits(wanted, cluster.links, ranks, memory_bytes=cluster.memory_bytes, sharding=SHARDING)


def split_row(found: Prediction, one: Prediction) -> dict[str, Any]:
    """Return a split: its step, its efficiency against one rank, whose memory may be larger than any, and its parts."""
    return {
        "split": f"{found.split.data} × {found.split.tensor} × {found.split.pipeline}",
        "seconds": modelled(found.seconds, "s", "a step"),
        "efficiency": modelled(found.efficiency(one), "%", "efficiency"),
        "memory": modelled(found.memory.total, "B", "memory of a rank"),
        "bubble": modelled(found.bubble / found.seconds, "%", "time in the bubble"),
        "messages": modelled(found.messages / found.seconds, "%", "time of messages"),
    }


def fastest(best: Sequence[Prediction], one: Prediction) -> list[dict[str, Any]]:
    """Return rows of the first six of the splits that fit, which come the fastest first."""
    return [split_row(each, one) for each in best[:6]]


def efficiencies(
    one: Prediction, cluster: ClusterPreset, batches: Mapping[str, int | None], ranks: Sequence[int] = GRID_RANKS[3:]
) -> list[dict[str, Any]]:
    """Return the efficiency of the best split by the number of ranks, where one fits, as `points`.

    It is against ``one`` rank, whose memory may be larger than any. ``batches`` are examples of a rank, or None, as
    `fitting` has them, by name.
    """

    def line(each: int | None) -> dict[int, Modelled]:
        found = {p: fitting(one.workload, cluster, p, each) for p in ranks}
        return {p: modelled(best[0].efficiency(one), "%", "efficiency") for p, best in found.items() if best}

    return points({"": {name: line(each) for name, each in batches.items()}})


def grid(clusters: Sequence[ClusterPreset] = CLUSTERS) -> dict[str, Any]:
    """Return every modelled number that the page's explorer shows.

    ``cells[cluster][model]`` has ``stays``, by batch and number of ranks, and ``grows``, by number of ranks. A cell is
    the number of splits that fit and rows of the fastest: data, tensor, pipeline, micro-batches, seconds, efficiency
    against one rank that had memory enough, bytes of a rank, and the shares of bubble and messages in the step. Where
    the batch grows, only the fastest is shown.
    """
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
                "sources": one.sources,
            }
            for one in clusters
        ],
        "models": [
            {"name": one.name, "batches": [int(one.examples * each) for each in BATCHES], "sources": one.sources}
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


def _cell(found: Sequence[Prediction], one: Prediction, kept: int = _KEPT) -> list[Any]:
    """Return the number of splits that fit, then the numbers of the fastest ones."""
    cell: list[Any] = [len(found)]
    for each in found[:kept]:
        split, row = each.split, split_row(each, one)
        sizes = [_rounded(row[key].value) for key in ("seconds", "memory")]
        shares = [_rounded(row[key].value, _DIGITS_OF_SHARES) for key in ("efficiency", "bubble", "messages")]
        where = [split.data, split.tensor, split.pipeline, split.micro]
        cell.append([*where, sizes[0], shares[0], sizes[1], *shares[1:]])
    return cell


def _rounded(number: float, digits: int = _DIGITS) -> float:
    """Return a number with so many digits; a whole one without a point, which JSON would spell out."""
    found = float(f"{number:.{digits}g}")
    return int(found) if found == int(found) else found
