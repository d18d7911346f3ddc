"""Checks for the exercises on several ranks: each passes or fails a reader's function, and says on what it failed."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tinytorch.chapters.checking import exercise_check
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, GivenLink, given_link, ring_all_reduce
from tinytorch.perf.distributed.cluster_model.prediction import Prediction, Split, possible_splits, predict
from tinytorch.perf.distributed.cluster_model.workload import Workload, transformer_workload


class Entry(NamedTuple):
    """One line of a trace: which rank was in which op from when to when, in seconds on one clock.

    ``sequence`` counts the collectives, 1 for the first; it is 0 for an op that needs no other rank.
    """

    rank: int
    op: str
    sequence: int
    start: float
    end: float


@exercise_check
def check_straggler(function: Callable[[list[Entry]], int]) -> None:
    """Return "... passed" if ``function(trace)`` names the rank for which the others waited longest, in all.

    In each collective all ranks wait for the one that arrives last; moving the data takes time of its own.
    """
    draw = np.random.default_rng(0)
    for _ in range(40):
        trace, truth, caused = _made_trace(draw)
        answer = function([trace[index] for index in draw.permutation(len(trace))])
        told = ", ".join(f"{seconds * 1e3:.1f} ms for rank {rank}" for rank, seconds in enumerate(caused))
        assert answer == truth, f"the others waited {told}: the straggler is rank {truth}, not {answer!r}"


def _made_trace(draw: np.random.Generator) -> tuple[list[Entry], int, list[float]]:
    """Return a trace, its straggler, and the seconds that others waited for each rank.

    After the last collective a rank that is not the straggler computes longest of all, and nobody waits for it.
    """
    ranks, steps = int(draw.integers(2, 6)), 8
    now = np.zeros(ranks)
    trace: list[Entry] = []
    caused = [0.0] * ranks
    for step in range(steps):
        for rank, seconds in enumerate(draw.uniform(0.010, 0.012, ranks) + draw.exponential(0.003, ranks)):
            trace += _computed(rank, float(now[rank]), float(seconds), draw)
            now[rank] += seconds
        starts = now.tolist()
        now[:] = now.max() + draw.uniform(0.001, 0.004)
        trace += [Entry(rank, "all_reduce", step + 1, starts[rank], float(now[rank])) for rank in range(ranks)]
        caused[int(np.argmax(starts))] += sum(max(starts) - start for start in starts)
    straggler = int(np.argmax(caused))
    trace += _computed((straggler + 1) % ranks, float(now[0]), 0.2, draw)
    return trace, straggler, caused


def _computed(rank: int, start: float, seconds: float, draw: np.random.Generator) -> list[Entry]:
    """Return three ops of one rank that take ``seconds`` together."""
    ends = [start, *(start + seconds * np.cumsum(draw.dirichlet(np.ones(3)))).tolist()]
    return [Entry(rank, op, 0, *ends[place : place + 2]) for place, op in enumerate(("linear", "gelu", "layer_norm"))]


@exercise_check
def check_most_ranks(function: Callable[[float, float, float, float, float], int]) -> None:
    """Return "... passed" if ``function(seconds, nbytes, alpha, beta, least)`` is how far weak scaling pays.

    Each rank computes ``seconds`` a step whatever their number, then a ring sums ``nbytes`` of gradients: nothing is
    hidden. The answer is the largest number of ranks up to 4,096 with which at least the share ``least`` of a step is
    computation.
    """
    draw = np.random.default_rng(0)
    for _ in range(60):
        seconds, nbytes = (float(10**value) for value in draw.uniform((-3, 4), (0, 9)))
        alpha, beta = (float(10**value) for value in draw.uniform((-7, -11), (-4, -9)))
        least = float(draw.uniform(0.5, 0.95))
        line = GivenLink(alpha, beta)
        efficiency = [seconds / (seconds + ring_all_reduce(nbytes, ranks, line)) for ranks in range(1, 4097)]
        truth = max(ranks for ranks, share in enumerate(efficiency, 1) if share >= least)
        answer = function(seconds, nbytes, alpha, beta, least)
        shown = (
            f"{seconds:.3g} s a step, {nbytes:.3g} B, alpha {alpha:.3g} s, beta {beta:.3g} s/B, at least {least:.3f}"
        )
        assert answer == truth, f"{shown}: {truth} ranks have {efficiency[truth - 1]:.4f}, so not {answer!r}"


@exercise_check
def check_choose_split(function: Callable[[Workload, Cluster, int, float], Split | None]) -> None:
    """Return "... passed" if ``function(workload, cluster, ranks, memory)`` is a fastest split that fits.

    Speed and bytes are those of `predict`, without sharding or overlap; the answer is None if no split of all ranks
    fits the ``memory`` bytes of a rank.
    """
    draw = np.random.default_rng(0)
    for ranks in (4, 8, 16, 32, 64):
        workload, cluster = _made_workload(draw), _made_cluster(draw)
        possible = [predict(workload, cluster, split) for split in possible_splits(workload, ranks)]
        needed = np.quantile([one.memory.total for one in possible], (0, 0.1, 0.5, 1))
        for memory in (0.99 * needed[0], *(1.001 * needed)):
            fit = [one for one in possible if one.memory.total <= memory]
            best = min(fit, key=lambda one: one.seconds) if fit else None
            answer = function(workload, cluster, ranks, float(memory))
            shown = f"{ranks} ranks, {cluster.ranks_per_node} a node, of {memory / 1e9:.2f} GB each: the fastest split"
            _check_split(answer, best, fit, f"{shown} is {_described(best)}")


def _check_split(answer: Split | None, best: Prediction | None, fit: list[Prediction], shown: str) -> None:
    """Raise AssertionError unless ``answer`` is a split of ``fit`` that takes as long as the best, or both are None."""
    if best is None:
        assert answer is None, f"{shown}, not {answer}"
        return
    found = next((one for one in fit if one.split == answer), None)
    assert found is not None, f"{shown}; {answer!r} is none, does not fit, or is no split of so many ranks"
    assert found.seconds <= best.seconds * (1 + 1e-9), f"{shown}; {_described(found)} takes longer"


def _described(prediction: Prediction | None) -> str:
    if prediction is None:
        return "none"
    return f"{prediction.split} with {prediction.seconds:.3f} s and {prediction.memory.total / 1e9:.2f} GB"


def _made_workload(draw: np.random.Generator) -> Workload:
    heads = int(2 ** draw.integers(3, 6))
    return transformer_workload(
        layers=int(draw.integers(12, 49)),
        width=128 * heads,
        heads=heads,
        positions=2048,
        vocabulary=51200,
        examples=256,
        flops_per_second=float(10 ** draw.uniform(12, 14)),
    )


def _made_cluster(draw: np.random.Generator) -> Cluster:
    inside, between = (float(10**value) for value in draw.uniform((10, 9), (11.5, 10.5)))
    return Cluster(given_link(2e-6, inside), given_link(5e-6, between), int(2 ** draw.integers(1, 4)))
