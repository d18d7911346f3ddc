"""Published scaling results, each with its source, and what the model says of the same runs. Nothing is fitted to them.

Links are those that the papers or data sheets state, one direction, shared out to the ranks of a node; latencies are
not stated, so they are 0. What runs at one end of a scaling study is what the paper measured there; the model predicts
the other end. FLOPs are the papers': with the second forward of recomputed activations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tinytorch.chapters.distributed.gpt_workload import transformer_flops, transformer_workload
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, given_link
from tinytorch.perf.distributed.cluster_model.prediction import Prediction, Split, possible_splits, predict
from tinytorch.perf.distributed.cluster_model.workload import Part, Workload


@dataclass(frozen=True)
class PublishedResult:
    """A published number beside the model's.

    Attributes:
        study: authors and year. address: where it is published.
        name: of the run. quantity: what was published, in ``unit``.
        published: as printed. predicted: modelled.
        assumed: what the model took from the paper or had to assume, in one sentence.
        given: whether the prediction was made to meet this number, as another one is predicted from it.
    """

    study: str
    address: str
    name: str
    quantity: str
    unit: str
    published: float
    predicted: float
    assumed: str
    given: bool = False

    @property
    def printed(self) -> str:
        """The published number with its unit, with as many digits as it has."""
        if self.unit == "%":
            return f"{self.published * 100:g} %"
        if self.unit == "FLOP/s":
            return f"{self.published / 1e12:g} TFLOP/s"
        return f"{self.published:g} {self.unit}"

    @property
    def error(self) -> float:
        """Predicted over published, minus 1."""
        return self.predicted / self.published - 1


@cache
def published_results() -> tuple[PublishedResult, ...]:
    """Return all results of speed, by study, in the order of years."""
    return (*imagenet_2017(), *megatron_2019(), *megatron_2021())


def imagenet_2017() -> Iterator[PublishedResult]:
    """Yield the scaling of ResNet-50 from 8 to 256 GPUs with gradients hidden and not.

    Source: P. Goyal et al., 2017 (arXiv:1706.02677): 100 MB of gradients, 120 ms of backward, servers of 8 GPUs with 50
    Gbit/s between them, about 90 % efficiency. Eight GPUs took 29 hours for 90 epochs of 1.28 million images, 256 at a
    time (https://developer.nvidia.com/blog/facebook-trains-imagenet-in-1-hour/).
    """
    hours = 29
    step_s = hours * 3600 / (90 * 1.28e6 / 256)
    gpus, images, parameters = 256, 256 * 32, 25_000_000
    whole = Part(step_s / 32, 0, parameters, 0.0, 0.0)
    nothing = Part(0.0, 0, 0, 0.0, 0.0)
    workload = Workload("ResNet-50", 1, 1, images, whole, nothing, 0.120 / step_s, 0.0, 0.0, 0, 0, 4, 4, 4)
    # 160 GB/s of NVLink for each P100, both directions together (NVIDIA Tesla P100 data sheet).
    cluster = Cluster(given_link(0.0, 80e9), given_link(0.0, 50e9 / 8 / 8), 8)
    for overlap, words in ((0.0, "nothing hidden"), (1.0, "all of the backward hides")):
        found = predict(workload, cluster, Split(data=gpus, overlap=overlap))
        yield PublishedResult(
            "Goyal et al. 2017",
            "https://arxiv.org/abs/1706.02677",
            f"ResNet-50 on 256 GPUs, {words}",
            "scaling efficiency from 8 GPUs",
            "%",
            0.90,
            step_s / found.seconds,
            f"a step on 8 GPUs is what {hours} hours of training make it",
        )


#: Words that both papers train with, a multiple of 1,024.
_VOCABULARY = 51_200


class _Row(NamedTuple):
    """A run of a GPT: the printed name, sizes, split, and the published number."""

    name: str
    width: int
    heads: int
    layers: int
    data: int
    tensor: int
    pipeline: int
    examples: int
    published: float


#: The runs whose result the paper's text states; others stand in its figure 5 alone.
_MEGATRON_2019 = (
    _Row("1.2 billion on 1 GPU", 1536, 16, 40, 1, 1, 1, 8, 1.00),
    _Row("8.3 billion on 8 GPUs", 3072, 32, 72, 1, 8, 1, 8, 0.77),
    _Row("8.3 billion on 512 GPUs", 3072, 32, 72, 64, 8, 1, 512, 0.74),
)


def megatron_2019() -> Iterator[PublishedResult]:
    """Yield the weak scaling of tensor, and of tensor and data parallelism from one GPU.

    Source: M. Shoeybi et al., 2019 (arXiv:1909.08053), table 1 and section 5.1: 39 TFLOP/s on one GPU, sequences of
    1,024, 51,200 words, servers of 16 V100 with 300 GB/s between GPUs, both directions together, and 100 GB/s between
    servers.
    """
    cluster = Cluster(given_link(0.0, 150e9), given_link(0.0, 100e9 / 16), 16)
    rate = 39e12
    for row in _MEGATRON_2019:
        found = predict(_workload(row, 1024, rate), cluster, Split(row.data, row.tensor))
        yield PublishedResult(
            "Shoeybi et al. 2019",
            "https://arxiv.org/abs/1909.08053",
            row.name,
            "weak scaling efficiency from one GPU",
            "%",
            row.published,
            _flops(row, 1024) / found.seconds / found.split.ranks / rate,
            "every GPU computes at the rate that one alone reached",
            given=row.data * row.tensor == 1,
        )


def zero_2020() -> Iterator[PublishedResult]:
    """Yield the memory of model states by stage of sharding.

    Source: S. Rajbhandari et al., 2020 (arXiv:1910.02054), sections 5.1 to 5.3 and table 1: 7.5 billion parameters on
    64 GPUs, 16 bytes each.
    """
    part = Part(0.0, 0, 7_500_000_000, 0.0, 0.0)
    none = Part(0.0, 0, 0, 0.0, 0.0)
    workload = Workload("7.5 billion", 1, 1, 64, part, none, 0.5, 0.0, 0.0, 0, 0, 2, 2, 12)
    cluster = Cluster(given_link(0.0, 1e9), given_link(0.0, 1e9), 16)
    names = ("nothing", "the optimizer's state", "gradients as well", "parameters as well")
    for stage, (name, published) in enumerate(zip(names, (120.0, 31.4, 16.6, 1.9), strict=True)):
        found = predict(workload, cluster, Split(data=64, sharding=stage))
        yield PublishedResult(
            "Rajbhandari et al. 2020",
            "https://arxiv.org/abs/1910.02054",
            name,
            "memory of model states on a GPU",
            "GB",
            published,
            found.memory.total / 1e9,
            f"mixed precision with Adam: {workload.weight_bytes} bytes of weight, {workload.gradient_bytes} of "
            f"gradient and {workload.state_bytes} of state for each parameter",
        )


_MEGATRON_2021 = (
    _Row("1.7 billion on 32 GPUs", 2304, 24, 24, 32, 1, 1, 512, 137e12),
    _Row("3.6 billion on 64 GPUs", 3072, 32, 30, 32, 2, 1, 512, 138e12),
    _Row("7.5 billion on 128 GPUs", 4096, 32, 36, 32, 4, 1, 512, 142e12),
    _Row("18.4 billion on 256 GPUs", 6144, 48, 40, 32, 8, 1, 1024, 135e12),
    _Row("39.1 billion on 512 GPUs", 8192, 64, 48, 32, 8, 2, 1536, 138e12),
    _Row("76.1 billion on 1,024 GPUs", 10240, 80, 60, 32, 8, 4, 1792, 140e12),
    _Row("145.6 billion on 1,536 GPUs", 12288, 96, 80, 24, 8, 8, 2304, 148e12),
    _Row("310.1 billion on 1,920 GPUs", 16384, 128, 96, 15, 8, 16, 2160, 155e12),
    _Row("529.6 billion on 2,520 GPUs", 20480, 128, 105, 9, 8, 35, 2520, 163e12),
    _Row("1,008 billion on 3,072 GPUs", 25600, 160, 128, 6, 8, 64, 3072, 163e12),
)


def selene() -> Cluster:
    """Return the links of the cluster of D. Narayanan et al., 2021: DGX A100, in one direction, without latency.

    600 GB/s of NVLink for each GPU, both directions together, and eight adapters of 200 Gbit/s for the eight GPUs of a
    node (NVIDIA DGX A100 data sheet).
    """
    return Cluster(given_link(0.0, 300e9), given_link(0.0, 25e9), 8)


def megatron_2021() -> Iterator[PublishedResult]:
    """Yield the rate of each GPU for models of 1.7 billion to a trillion parameters.

    Source: D. Narayanan et al., 2021 (doi:10.1145/3458817.3476209), table 1. All GPUs compute at the rate that the
    model finds behind the first row. Micro-batches are the fastest that fit into 80 GB. The pipelines of the paper are
    interleaved, in a depth that it does not state, and have a smaller bubble than the model's.
    """
    rate = _rate_behind(_MEGATRON_2021[0])
    for row in _MEGATRON_2021:
        found = _fastest(row, rate)
        yield PublishedResult(
            "Narayanan et al. 2021",
            "https://doi.org/10.1145/3458817.3476209",
            row.name,
            "rate of a GPU",
            "FLOP/s",
            row.published,
            _flops(row, 2048) / found.seconds / found.split.ranks,
            "every GPU computes at the rate behind the study's first run; pipelines are not interleaved",
            given=row is _MEGATRON_2021[0],
        )


def _flops(row: _Row, positions: int) -> float:
    return transformer_flops(
        layers=row.layers,
        width=row.width,
        positions=positions,
        vocabulary=_VOCABULARY,
        examples=row.examples,
        recompute=True,
    )


def _workload(row: _Row, positions: int, rate: float) -> Workload:
    return transformer_workload(
        layers=row.layers,
        width=row.width,
        heads=row.heads,
        positions=positions,
        vocabulary=_VOCABULARY,
        examples=row.examples,
        flops_per_second=rate,
        recompute=True,
        name=row.name,
    )


def _fastest(row: _Row, rate: float) -> Prediction:
    """Return the prediction for a row's split with the number of micro-batches that is the fastest in 80 GB."""
    workload = _workload(row, 2048, rate)
    wanted = (row.data, row.tensor, row.pipeline)
    found = (
        predict(workload, selene(), split)
        for split in possible_splits(workload, row.data * row.tensor * row.pipeline)
        if (split.data, split.tensor, split.pipeline) == wanted
    )
    return min((one for one in found if one.memory.total <= 80e9), key=lambda one: one.seconds)


def _rate_behind(row: _Row) -> float:
    """Return the rate of computing alone with which the model meets a published rate that includes communication."""
    share = _flops(row, 2048) / (row.data * row.tensor * row.pipeline)
    communicating = _fastest(row, row.published).gradients  # all that a data split has besides computing
    return share / (share / row.published - communicating)
