"""Clusters and models to begin a prediction with, each number with its source. Nothing of them was measured here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinytorch.perf.distributed.larger.links import Cluster, GivenLink
from tinytorch.perf.distributed.larger.workload import Workload, transformer_workload

#: Latencies in seconds that NCCL reckons with for a ring's step: its source, src/graph/tuning.cc, ring and "Simple".
_NVLINK_ALPHA, _NETWORK_ALPHA = 3.4e-6, 14.0e-6
NCCL = ("NVIDIA, NCCL", "https://github.com/NVIDIA/nccl")


@dataclass(frozen=True)
class ClusterPreset:
    """A published cluster.

    Attributes:
        name: what it is. links: in one direction, shared out to the ranks of a node.
        flops_per_second: that a rank attained in training. memory_bytes: of a rank.
        sources: names and addresses of who published that.
    """

    name: str
    links: Cluster
    flops_per_second: float
    memory_bytes: float
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

    def workload(self, flops_per_second: float, *, recompute: bool = True) -> Workload:
        """Return the workload on ranks of a rate, in mixed precision."""
        return transformer_workload(
            layers=self.layers,
            width=self.width,
            heads=self.heads,
            positions=self.positions,
            vocabulary=self.vocabulary,
            examples=self.examples,
            flops_per_second=flops_per_second,
            recompute=recompute,
            name=self.name,
        )


_NARAYANAN = ("Narayanan et al. 2021", "https://doi.org/10.1145/3458817.3476209")
_SHOEYBI = ("Shoeybi et al. 2019", "https://arxiv.org/abs/1909.08053")

#: The first one is what a page shows without JavaScript.
CLUSTERS: tuple[ClusterPreset, ...] = (
    ClusterPreset(
        "8 A100 a node, 2021",
        Cluster(GivenLink(_NVLINK_ALPHA, 1 / 300e9), GivenLink(_NETWORK_ALPHA, 1 / 25e9), 8),
        137e12,
        80e9,
        (_NARAYANAN, NCCL),
    ),
    ClusterPreset(
        "16 V100 a node, 2019",
        Cluster(GivenLink(_NVLINK_ALPHA, 1 / 150e9), GivenLink(_NETWORK_ALPHA, 1 / 6.25e9), 16),
        39e12,
        32e9,
        (_SHOEYBI, NCCL),
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


def as_json() -> dict[str, Any]:
    """Return all presets as a page hands them to its script."""
    return {
        "clusters": [
            {
                "name": one.name,
                "ranks_per_node": one.links.ranks_per_node,
                "inside": {"alpha_s": one.links.inside.alpha_s, "beta_s_per_byte": one.links.inside.beta_s_per_byte},
                "between": {"alpha_s": one.links.between.alpha_s, "beta_s_per_byte": one.links.between.beta_s_per_byte},
                "flops_per_second": one.flops_per_second,
                "memory_bytes": one.memory_bytes,
                "sources": [list(source) for source in one.sources],
            }
            for one in CLUSTERS
        ],
        "models": [
            {
                "name": one.name,
                "layers": one.layers,
                "width": one.width,
                "heads": one.heads,
                "positions": one.positions,
                "vocabulary": one.vocabulary,
                "examples": one.examples,
                "sources": [list(source) for source in one.sources],
            }
            for one in MODELS
        ],
        "ranks": RANKS,
        "sharding": SHARDING,
    }
