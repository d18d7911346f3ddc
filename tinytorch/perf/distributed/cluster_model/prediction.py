"""Prediction of a training step on a cluster by closed forms, for one split or all, the fastest first. Modelled.

A step is what the busiest rank computes, what it waits for while the pipeline fills and drains, and the communication
that nothing hides.

The ranks of a tensor split are neighbours, then come those of the data split, then a pipeline's stages (D. Narayanan et
al., 2021, doi:10.1145/3458817.3476209, section 3). What the model leaves out: arithmetic that slows down as ranks share
a memory, links that others use, uneven ranks, the host's work for each call, loading of data, what adding up costs
beyond messages, and the sums of a tensor split outside of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tinytorch.core.op import whole_numbers
from tinytorch.perf.distributed.cluster_model import collective_costs as costs
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, Line
from tinytorch.perf.distributed.cluster_model.workload import Workload

#: Bytes of gradients that are sent together, as PyTorch's data parallelism does by default.
BUCKET_BYTES = 25 * 2**20


@whole_numbers
@dataclass(frozen=True)
class Split:
    """Partition of a training step over ranks.

    Attributes:
        data, tensor, pipeline: ranks of each kind; their product is the number of ranks.
        micro: parts of each rank's examples that follow each other through a pipeline, or whose gradients are added up.
        sharding: what the ranks of the data split share out: 0 nothing, 1 the optimizer's state, 2 gradients too, 3
            parameters too (the stages of S. Rajbhandari et al., 2020, arXiv:1910.02054).
        overlap: share of the backward's time in which gradients travel at no cost, 0 to 1.
        bucket_bytes: of gradients that are sent together, above 0.

    Raises:
        ValueError: if a number is out of its range.

    Examples:
        >>> from tinytorch.perf.distributed import Split
        >>> Split(data=4, tensor=2, pipeline=2, micro=8).ranks
        16
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    micro: int = 1
    sharding: int = 0
    overlap: float = 0.0
    bucket_bytes: float = BUCKET_BYTES

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "micro"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.sharding not in (0, 1, 2, 3):
            raise ValueError(f"sharding must be 0, 1, 2 or 3, not {self.sharding}")
        if not 0 <= self.overlap <= 1:
            raise ValueError(f"overlap must be a share of 0 to 1, not {self.overlap}")
        if not self.bucket_bytes > 0:
            raise ValueError(f"bucket_bytes must be above 0, not {self.bucket_bytes}")

    @property
    def ranks(self) -> int:
        """How many there are in all."""
        return self.data * self.tensor * self.pipeline

    def __str__(self) -> str:
        cut = f", {self.micro} micro-batches" if self.micro > 1 else ""
        return f"data {self.data} × tensor {self.tensor} × pipeline {self.pipeline}{cut}"


@dataclass(frozen=True)
class MemoryPrediction:
    """Bytes on the rank that holds most, without what libraries and the allocator take besides.

    In a pipeline the activations are a bound from above: one rank has the micro-batches of the first stage here, and
    the logits of the last.
    """

    weights: float
    gradients: float
    state: float
    activations: float

    @property
    def total(self) -> float:
        """Bytes in all."""
        return self.weights + self.gradients + self.state + self.activations


@dataclass(frozen=True)
class Prediction:
    """Prediction of a step: the seconds of the busiest rank in parts that add up, and its memory.

    Attributes:
        computing: forward and backward.
        bubble: waiting while a pipeline fills and drains.
        tensor: sums of activations over the ranks of a tensor split.
        handing: messages between stages, with the sum of a tied parameter's gradients.
        gradients: summing them over the ranks of the data split, as far as nothing hides it, with the gathering of
            parameters that are shared out.
        hidden: communication that overlaps with computation, and so costs no time.
        updating: the optimizer's step.

    Examples:
        >>> from tinytorch.perf.distributed.cluster_model.workload import transformer_workload
        >>> from tinytorch.perf.distributed import Cluster, Split, given_link, predict
        >>> work = transformer_workload(
        ...     layers=24, width=2048, heads=16, positions=2048, vocabulary=51200, examples=512, flops_per_second=1e14
        ... )
        >>> cluster = Cluster(given_link(1e-6, 100e9), given_link(5e-6, 10e9), ranks_per_node=8)
        >>> one, many = predict(work, cluster, Split()), predict(work, cluster, Split(data=64))
        >>> 0 < many.efficiency(one) < 1  # each of the ranks does less than the one did
        True
    """

    workload: Workload
    split: Split
    computing: float
    bubble: float
    tensor: float
    handing: float
    gradients: float
    updating: float
    hidden: float
    memory: MemoryPrediction

    @property
    def seconds(self) -> float:
        """Seconds of a step."""
        return self.computing + self.bubble + self.tensor + self.handing + self.gradients + self.updating

    @property
    def messages(self) -> float:
        """Seconds of all messages that nothing hides."""
        return self.tensor + self.handing + self.gradients

    def efficiency(self, one: Prediction) -> float:
        """Return the examples per second and rank, divided by those of another prediction, usually for one rank."""
        each = self.workload.examples / self.seconds / self.split.ranks
        return each * one.seconds / one.workload.examples * one.split.ranks


@dataclass(frozen=True)
class Group:
    """Ranks of one kind: how many, and how many ranks lie between two of them."""

    members: int
    stride: int

    def inside_node(self, cluster: Cluster) -> int:
        """Return how many of them share a node; 1 if they are not the same number on every node."""
        if cluster.ranks_per_node % self.stride:
            return 1
        room = cluster.ranks_per_node // self.stride
        if self.members <= room:
            return self.members if room % self.members == 0 else 1
        return room if self.members % room == 0 else 1

    def line(self, cluster: Cluster) -> Line:
        """Return the slowest link between neighbours of the group."""
        return cluster.inside if self.inside_node(cluster) == self.members else cluster.between

    def all_reduce(self, nbytes: float, cluster: Cluster) -> float:
        """Return the seconds of the cheaper of an all-reduce over all alike, and one in two levels.

        In two levels each node scatters its sum over its ranks, these add up their parts over nodes, and gather them.
        """
        if self.members == 1:
            return 0.0
        near = self.inside_node(cluster)
        flat = costs.all_reduce(nbytes, self.members, self.line(cluster))
        if near in (1, self.members):
            return flat
        far = costs.all_reduce(nbytes / near, self.members // near, cluster.between)
        return min(flat, 2 * costs.all_gather(nbytes, near, cluster.inside) + far)

    def all_gather(self, nbytes: float, cluster: Cluster) -> float:
        """Return the seconds of the cheaper all-gather to ``nbytes`` on each; a reduce-scatter costs the same."""
        near = self.inside_node(cluster)
        flat = costs.all_gather(nbytes, self.members, self.line(cluster))
        if near in (1, self.members):
            return flat
        far = costs.all_gather(nbytes / near, self.members // near, cluster.between)
        return min(flat, far + costs.all_gather(nbytes, near, cluster.inside))


def predict(workload: Workload, cluster: Cluster, split: Split) -> Prediction:
    """Return the predicted time and memory of a step of ``workload`` on ``cluster``, partitioned as ``split`` says.

    Raises:
        ValueError: unless each rank gets whole examples, heads and blocks.

    Examples:
        >>> from tinytorch.perf.distributed.cluster_model.workload import transformer_workload
        >>> from tinytorch.perf.distributed import Cluster, Split, given_link, predict
        >>> work = transformer_workload(
        ...     layers=24, width=2048, heads=16, positions=2048, vocabulary=51200, examples=512, flops_per_second=1e14
        ... )
        >>> cluster = Cluster(given_link(1e-6, 100e9), given_link(5e-6, 10e9), ranks_per_node=8)
        >>> one, many = predict(work, cluster, Split()), predict(work, cluster, Split(data=64))
        >>> 1 < one.seconds / many.seconds < 64
        True
    """
    _check_fits(workload, split)
    if split.ranks <= cluster.ranks_per_node:
        cluster = Cluster(cluster.inside, cluster.inside, cluster.ranks_per_node)
    micro = workload.examples / (split.data * split.micro)
    block_s, ends_s = workload.block.seconds(micro, split.tensor), workload.ends.seconds(micro, split.tensor)
    here = _blocks_here(workload, split)
    sums_s = workload.sums_per_block * Group(split.tensor, 1).all_reduce(micro * workload.message_bytes, cluster)
    bubble, handing = _flow(workload, cluster, split, block_s + sums_s, ends_s)
    stage_s = here * block_s + ends_s
    parameters = _parameters_here(workload, split)
    exposed, hidden = _gradients(workload, cluster, split, parameters, stage_s)
    return Prediction(
        workload,
        split,
        computing=split.micro * stage_s,
        bubble=bubble,
        tensor=split.micro * here * sums_s,
        handing=handing,
        gradients=exposed,
        updating=parameters * workload.update_s / (split.data if split.sharding else 1),
        hidden=hidden,
        memory=_memory(workload, split),
    )


def _check_fits(workload: Workload, split: Split) -> None:
    if workload.examples % (split.data * split.micro):
        raise ValueError(
            f"data × micro must divide the batch of {workload.examples} examples, but they are {split.data} and "
            f"{split.micro}"
        )
    if workload.heads % split.tensor:
        raise ValueError(f"tensor must divide the {workload.heads} heads, but is {split.tensor}")
    if split.pipeline > workload.blocks:
        raise ValueError(f"pipeline must be at most the {workload.blocks} blocks, not {split.pipeline}")


def _blocks_here(workload: Workload, split: Split) -> int:
    """Return how many blocks the last stage has; no stage has more."""
    return math.ceil(workload.blocks / split.pipeline)


def _flow(workload: Workload, cluster: Cluster, split: Split, block_s: float, ends_s: float) -> tuple[float, float]:
    """Return the seconds of bubble and of messages between stages, beyond the slowest stage's own work.

    The first of m micro-batches passes all S stages and S - 1 links, there and back; each further one comes a turn of
    the slowest stage later. With equal stages and free messages that is the bubble of Y. Huang et al., 2019
    (arXiv:1811.06965): (S - 1) / (m + S - 1) of the step. With one forward and one backward in turns at most n
    micro-batches are under way in the last n stages, so that a turn also waits for a way there and back, for two
    messages less what the slowest stage takes longer than the others, but for one of every S further micro-batches.
    Where each stage has as many blocks that is what the schedule takes, to the rounding; else about that.
    """
    stages, micro = split.pipeline, split.micro
    if stages == 1:
        return 0.0, 0.0
    slowest = _blocks_here(workload, split) * block_s + ends_s
    passage = workload.blocks * block_s + ends_s
    line = Group(stages, split.tensor * split.data).line(cluster)
    nbytes = workload.examples / (split.data * micro) * workload.message_bytes
    message = line.alpha_s + nbytes * line.beta_s_per_byte
    slack = (stages * slowest - passage) / (stages - 1)
    late = (micro - 1 - math.ceil((micro - 1) / stages)) * max(0.0, 2 * message - slack)
    tied = workload.tied_parameters * workload.gradient_bytes / split.tensor
    return passage - slowest, 2 * (stages - 1) * message + late + costs.all_reduce(tied, 2, line)


def _gradients(
    workload: Workload, cluster: Cluster, split: Split, parameters: float, stage_s: float
) -> tuple[float, float]:
    """Return exposed and hidden seconds of the data split's communication.

    Gradients that every rank keeps are summed once a step, and hide behind the backward of the last micro-batch. Shared
    out, they are summed after each micro-batch. Shared-out parameters are gathered before each forward and each
    backward, and hide behind both; otherwise the new ones are gathered after the update, which nothing hides.
    """
    group = Group(split.data, split.tensor)
    if split.data == 1:
        return 0.0, 0.0
    sent, weights = parameters * workload.gradient_bytes, parameters * workload.weight_bytes
    buckets = max(1, math.ceil(sent / split.bucket_bytes))
    backward_s = workload.backward_share * stage_s
    if split.sharding == 0:
        communicated, room, after = buckets * group.all_reduce(sent / buckets, cluster), backward_s, 0.0
    else:
        scatter = buckets * group.all_gather(sent / buckets, cluster)
        gather = buckets * group.all_gather(weights / buckets, cluster)
        turns = split.micro if split.sharding > 1 else 1
        if split.sharding == 3:
            communicated, room, after = turns * (scatter + 2 * gather), turns * stage_s, 0.0
        else:
            communicated, room, after = turns * scatter, turns * backward_s, gather
    hidden = min(communicated, split.overlap * room)
    return communicated - hidden + after, hidden


def _parameters_here(workload: Workload, split: Split) -> float:
    """Return the parameters of a rank that has the most blocks, and the ends."""
    return _blocks_here(workload, split) * workload.block.parameters(split.tensor) + workload.ends.parameters(
        split.tensor
    )


def _memory(workload: Workload, split: Split) -> MemoryPrediction:
    """Return the bytes of a rank that has the most blocks, the ends and the most micro-batches of any stage."""
    parameters, micro = _parameters_here(workload, split), workload.examples / (split.data * split.micro)
    shares = [split.data if split.sharding >= stage else 1 for stage in (1, 2, 3)]
    here = _blocks_here(workload, split)
    under_way = min(split.pipeline, split.micro)
    blocks = under_way * here * workload.block.kept_bytes(split.tensor)
    return MemoryPrediction(
        weights=parameters * workload.weight_bytes / shares[2],
        gradients=parameters * workload.gradient_bytes / shares[1],
        state=parameters * workload.state_bytes / shares[0],
        activations=micro * (blocks + workload.ends.kept_bytes(split.tensor)),
    )


@whole_numbers
def possible_splits(workload: Workload, ranks: int, *, sharding: int = 0) -> Iterator[Split]:
    """Yield every split of ``ranks`` that fits the workload, with every number of micro-batches.

    Raises:
        ValueError: if ``ranks`` is below 1, or ``sharding`` is none of `Split`.

    Examples:
        >>> from tinytorch.perf.distributed.cluster_model.workload import transformer_workload
        >>> from tinytorch.perf.distributed import possible_splits
        >>> work = transformer_workload(
        ...     layers=24, width=2048, heads=16, positions=2048, vocabulary=51200, examples=512, flops_per_second=1e14
        ... )
        >>> sorted({(split.data, split.tensor, split.pipeline) for split in possible_splits(work, 2)})
        [(1, 1, 2), (1, 2, 1), (2, 1, 1)]
    """
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, not {ranks}")
    for tensor in _divisors(ranks):
        if workload.heads % tensor:
            continue
        for pipeline in _divisors(ranks // tensor):
            data = ranks // tensor // pipeline
            if pipeline > workload.blocks or workload.examples % data:
                continue
            for micro in _divisors(workload.examples // data):
                yield Split(data, tensor, pipeline, micro, sharding)


@whole_numbers
def best_splits(
    workload: Workload, cluster: Cluster, ranks: int, *, memory_bytes: float | None = None, sharding: int = 0
) -> list[Prediction]:
    """Return the prediction for the best number of micro-batches of each split of ``ranks``, the fastest first.

    Of equal ones the one with fewer ranks in its tensor split is first, then in its pipeline, then with fewer
    micro-batches. There is one for each (data, tensor, pipeline), none if nothing fits.

    Args:
        memory_bytes: of a rank; what needs more is left out. None leaves nothing out.

    Raises:
        ValueError: if ``ranks`` is below 1, or ``sharding`` is none of `Split`.

    Examples:
        >>> from tinytorch.perf.distributed.cluster_model.workload import transformer_workload
        >>> from tinytorch.perf.distributed import Cluster, best_splits, given_link
        >>> work = transformer_workload(
        ...     layers=24, width=2048, heads=16, positions=2048, vocabulary=51200, examples=512, flops_per_second=1e14
        ... )
        >>> cluster = Cluster(given_link(1e-6, 100e9), given_link(5e-6, 10e9), ranks_per_node=8)
        >>> found = best_splits(work, cluster, ranks=64)
        >>> found[0].split.ranks, found[0].seconds <= found[-1].seconds
        (64, True)
    """
    best: dict[tuple[int, int, int], Prediction] = {}
    for split in possible_splits(workload, ranks, sharding=sharding):
        if memory_bytes is not None and _memory(workload, split).total > memory_bytes:
            continue
        found = predict(workload, cluster, split)
        key = (split.data, split.tensor, split.pipeline)
        if key not in best or found.seconds < best[key].seconds:
            best[key] = found
    return sorted(best.values(), key=lambda one: one.seconds)


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number, from small to large."""
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return [*small, *(number // divisor for divisor in reversed(small) if divisor**2 != number)]
