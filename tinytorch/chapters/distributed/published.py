"""Published scaling results, each with its source, and what the model says of the same runs. Nothing is fitted to them.

Links are those that the papers or data sheets state, one direction, shared out to the ranks of a node; latencies are
not stated, so they are 0. What runs at one end of a scaling study is what the paper measured there; the model predicts
the other end. FLOPs are the papers': with the second forward of recomputed activations.
"""

from collections.abc import Iterator
from functools import cache
from statistics import median
from typing import Any, NamedTuple

from tinytorch.chapters.distributed.explorer import ModelPreset, modelled
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, given_link
from tinytorch.perf.distributed.cluster_model.prediction import Group, Prediction, Split, possible_splits, predict
from tinytorch.perf.distributed.cluster_model.workload import Part, Workload
from tinytorch.perf.measuring import Counted, Modelled, Quoted

#: 600 GB/s of NVLink for each GPU, both directions together, and eight adapters of 200 Gbit/s for the eight GPUs of a
#: node (NVIDIA DGX A100 data sheet).
DGX_A100 = Cluster(given_link(0.0, 300e9), given_link(0.0, 25e9), 8)
_NOTHING = Part(0.0, 0, 0, 0.0, 0.0)
#: A row of a table: the run, its study, the number as printed, the model's, and the error, None of what was given.
Row = dict[str, Any]


def errors() -> tuple[Modelled, Modelled]:
    """Return the median and the largest error of all predictions, by magnitude."""
    rows = (*imagenet_2017(), *megatron_2019(), *megatron_2021())
    off = [abs(row["error"].value) for row in rows if row["error"]]
    return modelled(median(off), "%", "median error"), modelled(max(off), "%", "largest error")


def _error(predicted: float, published: float) -> Modelled:
    return modelled(predicted / published - 1, "%", "error of the prediction")


def _row(study: str, name: str, published: float, predicted: float, given: bool = False) -> Row:
    """Return a published efficiency and the model's; it is ``given`` if the model was made to meet it."""
    return {
        "study": study,
        "name": name,
        "printed": f"{published * 100:g} %",
        "predicted": modelled(predicted, "%", "scaling efficiency from the smallest run"),
        "error": None if given else _error(predicted, published),
    }


def imagenet_2017() -> Iterator[Row]:
    """Yield the scaling of ResNet-50 from 8 to 256 GPUs with gradients hidden and not.

    Source: P. Goyal et al., 2017 (arXiv:1706.02677): 100 MB of gradients, 120 ms of backward, servers of 8 GPUs with 50
    Gbit/s between them, about 90 % efficiency. Eight GPUs took 29 hours for 90 epochs of 1.28 million images, 256 at a
    time (https://developer.nvidia.com/blog/facebook-trains-imagenet-in-1-hour/).
    """
    step_s = 29 * 3600 / (90 * 1.28e6 / 256)
    whole = Part(step_s / 32, 0, 25_000_000, 0.0, 0.0)
    workload = Workload("ResNet-50", 1, 1, 256 * 32, whole, _NOTHING, 0.120 / step_s, 0.0, 0.0, 0, 0, 4, 4, 4)
    # 160 GB/s of NVLink for each P100, both directions together (NVIDIA Tesla P100 data sheet).
    cluster = Cluster(given_link(0.0, 80e9), given_link(0.0, 50e9 / 8 / 8), 8)
    for overlap, words in ((0.0, "none hidden"), (1.0, "all gradients hidden")):
        found = predict(workload, cluster, Split(data=256, overlap=overlap))
        yield _row("Goyal et al. 2017", f"ResNet-50 on 256 GPUs, {words}", 0.90, step_s / found.seconds)


class _Run(NamedTuple):
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

    def model(self, positions: int) -> ModelPreset:
        """Return the GPT, with as many words as both papers have, a multiple of 1,024."""
        return ModelPreset(self.name, self.layers, self.width, self.heads, positions, 51_200, self.examples, ())


#: The runs whose result the paper's text states; others stand in its figure 5 alone.
_MEGATRON_2019 = (
    _Run("1.2 billion on 1 GPU", 1536, 16, 40, 1, 1, 1, 8, 1.00),
    _Run("8.3 billion on 8 GPUs", 3072, 32, 72, 1, 8, 1, 8, 0.77),
    _Run("8.3 billion on 512 GPUs", 3072, 32, 72, 64, 8, 1, 512, 0.74),
)


def megatron_2019() -> Iterator[Row]:
    """Yield the weak scaling of tensor, and of tensor and data parallelism from one GPU.

    Source: M. Shoeybi et al., 2019 (arXiv:1909.08053), table 1 and section 5.1: 39 TFLOP/s on one GPU, sequences of
    1,024, 51,200 words, servers of 16 V100 with 300 GB/s between GPUs, both directions together, and 100 GB/s between
    servers.
    """
    cluster, rate = Cluster(given_link(0.0, 150e9), given_link(0.0, 100e9 / 16), 16), 39e12
    for run in _MEGATRON_2019:
        found = predict(run.model(1024).workload(rate), cluster, Split(run.data, run.tensor))
        efficiency = run.model(1024).flops / found.seconds / found.split.ranks / rate
        yield _row("Shoeybi et al. 2019", run.name, run.published, efficiency, given=found.split.ranks == 1)


_MEGATRON_2021 = (
    _Run("1.7 billion on 32 GPUs", 2304, 24, 24, 32, 1, 1, 512, 137e12),
    _Run("3.6 billion on 64 GPUs", 3072, 32, 30, 32, 2, 1, 512, 138e12),
    _Run("7.5 billion on 128 GPUs", 4096, 32, 36, 32, 4, 1, 512, 142e12),
    _Run("18.4 billion on 256 GPUs", 6144, 48, 40, 32, 8, 1, 1024, 135e12),
    _Run("39.1 billion on 512 GPUs", 8192, 64, 48, 32, 8, 2, 1536, 138e12),
    _Run("76.1 billion on 1,024 GPUs", 10240, 80, 60, 32, 8, 4, 1792, 140e12),
    _Run("145.6 billion on 1,536 GPUs", 12288, 96, 80, 24, 8, 8, 2304, 148e12),
    _Run("310.1 billion on 1,920 GPUs", 16384, 128, 96, 15, 8, 16, 2160, 155e12),
    _Run("529.6 billion on 2,520 GPUs", 20480, 128, 105, 9, 8, 35, 2520, 163e12),
    _Run("1,008 billion on 3,072 GPUs", 25600, 160, 128, 6, 8, 64, 3072, 163e12),
)


@cache
def megatron_2021() -> tuple[Row, ...]:
    """Return the rate of each GPU for models of 1.7 billion to a trillion parameters, published and predicted.

    Source: D. Narayanan et al., 2021 (doi:10.1145/3458817.3476209), table 1. All GPUs compute at the rate that the
    model finds behind the first row. Micro-batches are the fastest that fit into 80 GB. The pipelines of the paper are
    interleaved, in a depth that it does not state, and have a smaller bubble than the model's: "without bubble" is what
    no interleaving exceeds.
    """
    first, found = _MEGATRON_2021[0], []
    share = first.model(2048).flops / (first.data * first.tensor * first.pipeline)
    # All that a data split has besides computing are gradients.
    rate = share / (share / first.published - _fastest(first, first.published).gradients)
    for run in _MEGATRON_2021:
        step = _fastest(run, rate)
        each = run.model(2048).flops / step.split.ranks
        found.append(
            {
                "billions": f"{run.model(2048).workload(1.0).parameters / 1e9:,.{0 if run.width > 12_000 else 1}f}",
                "published": Quoted(run.published, "FLOP/s", "rate of a GPU", "Narayanan et al. 2021"),
                "predicted": modelled(each / step.seconds, "FLOP/s", "rate of a GPU"),
                "without bubble": modelled(each / (step.seconds - step.bubble), "FLOP/s", "rate without the bubble"),
                "computing": modelled(rate, "FLOP/s", "rate of a GPU while it computes, from the smallest run"),
                "error": None if run is first else _error(each / step.seconds, run.published),
            }
        )
    return tuple(found)


def _fastest(run: _Run, rate: float) -> Prediction:
    """Return the prediction for a run's split with the number of micro-batches that is the fastest in 80 GB."""
    workload, wanted = run.model(2048).workload(rate), (run.data, run.tensor, run.pipeline)
    found = (
        predict(workload, DGX_A100, split)
        for split in possible_splits(workload, run.data * run.tensor * run.pipeline)
        if (split.data, split.tensor, split.pipeline) == wanted
    )
    return min((one for one in found if one.memory.total <= 80e9), key=lambda one: one.seconds)


class _Sharded(NamedTuple):
    """A run with parameters, gradients and state shared out: billions, GPUs, sequences, rate and days as printed."""

    billions: float
    ranks: int
    examples: int
    published: float
    days: int


#: Without model parallelism; of the larger model on 640 GPUs the batch was another.
_ZERO_2021 = (
    _Sharded(174.6, 384, 1536, 144e12, 90),
    _Sharded(174.6, 768, 1536, 88e12, 74),
    _Sharded(174.6, 1536, 1536, 44e12, 74),
    _Sharded(529.6, 1120, 2240, 98e12, 137),
    _Sharded(529.6, 2240, 2240, 48e12, 140),
)


def sharded_2021() -> list[dict[str, Any]]:
    """Return days of trainings of 300 billion tokens that shard everything over all ranks, and those printed.

    Source: D. Narayanan et al., 2021 (doi:10.1145/3458817.3476209), table 2. Arithmetic counts 8 operations for each
    parameter and token, as activations are computed twice, at the rate of the study's first run. Messages are three
    gathers of all parameters, in two bytes; those between nodes use all adapters of each node.
    """
    found = []
    for run in _ZERO_2021:
        tokens, parameters = run.examples * 2048, run.billions * 1e9
        steps = 300e9 / tokens / 86400
        arithmetic = 8 * parameters * tokens / (run.ranks * _ZERO_2021[0].published)
        messages = 3 * Group(run.ranks, stride=1).all_gather(2 * parameters, DGX_A100)
        found.append(
            {
                "name": f"{run.billions:g} billion on {run.ranks:,} GPUs",
                "tokens": tokens // run.ranks,
                "arithmetic": modelled(steps * arithmetic, "days", "arithmetic of a training"),
                "messages": modelled(steps * messages, "days", "messages of a training"),
                "sent": modelled(
                    6 * parameters / (run.days / steps), "B/s", "bytes of messages over the time of a step"
                ),
                "printed": f"{run.days} days",
            }
        )
    return found


def zero_2020() -> list[dict[str, Any]]:
    """Return what each of 64 ranks keeps of 7.5 billion parameters, by what is cut, in mixed precision with Adam.

    Source: S. Rajbhandari et al., 2020 (arXiv:1910.02054), sections 5.1 to 5.3 and table 1.
    """
    stages = (
        ("nothing", "2 + 2 + 12", 2 + 2 + 12, 120.0),
        ("the optimizer's state", "2 + 2 + 12/N", 2 + 2 + 12 / 64, 31.4),
        ("gradients as well", "2 + (2 + 12)/N", 2 + (2 + 12) / 64, 16.6),
        ("parameters as well", "(2 + 2 + 12)/N", (2 + 2 + 12) / 64, 1.9),
    )
    what = "bytes that each of 64 ranks keeps of 7.5 billion parameters"
    return [
        {"name": name, "each": each, "counted": Counted(7.5 * count, "GB", what), "printed": f"{published:g} GB"}
        for name, each, count, published in stages
    ]
