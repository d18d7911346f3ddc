"""Worked numbers of the page on several ranks: what it ran on, GPT-3 against that, and the answers to its questions."""

from dataclasses import dataclass

from tinytorch.chapters.gpt2 import GPT2, NUMBER
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, GivenLink, ring_all_reduce
from tinytorch.perf.host.pinned_threads import may_pin
from tinytorch.perf.machine import identity
from tinytorch.perf.measuring import Counted, Measurement, Modelled
from tinytorch.perf.profiling.breakdown import amdahl

#: What says the years and seconds that no machine here took.
_AT_PEAK = "the operations, at the peak"
#: Machines that train GPT-2 in the last question.
_MACHINES = 8


def _by_arithmetic(value: float, unit: str, what: str) -> Modelled:
    return Modelled(value, unit, what, "arithmetic")


def gustafson(serial: float, ranks: int) -> float:
    """Return the speedup of work that grows with p ranks, s + (1 - s) p: weak scaling's, as `amdahl` is strong one's.

    ``serial`` is the share s of the time on all ranks, not on one, in which only one could work. Source: J. L.
    Gustafson, 1988 (doi:10.1145/42411.42415).
    """
    return serial + (1 - serial) * ranks


def cores_and_ranks() -> tuple[int, int]:
    """Return the usable cores, and the ranks of the page's programs: more than four would not fit a small server."""
    cores = identity().cores_usable
    return cores, min(4, max(2, cores))


def published_gustafson() -> Modelled:
    """Return the share of linear scaling on 512 GPUs by Gustafson's law, with the serial share of a run on 8: 77 %."""
    serial = (1 - 0.77) / (1 - 1 / 8)
    return _by_arithmetic(gustafson(serial, 512) / 512, "%", "share of linear scaling, by Gustafson's law")


@dataclass(frozen=True)
class Walls:
    """This machine, how ranks are placed on it, and how many years and memories it is from a training."""

    cores: Counted
    placing: str
    memory: Counted
    years: Modelled
    state: Modelled
    memories: Modelled


def walls(cores: int, seconds: Measurement, state_bytes: float) -> Walls:
    """Return what stands against a training of so many seconds at the peak of all cores, and so many bytes of state."""
    memory = identity().memory_bytes
    placing = "each pinned to a core of its own" if may_pin() else "none kept on a core of its own"
    if cores < 2:
        placing = "sharing one core, so that their times say nothing about scaling"
    return Walls(
        Counted(cores, "cores" if cores > 1 else "core", "cores that the process that built this page could use"),
        placing,
        Counted(memory, "B", "memory of this machine, as the system reports it"),
        Modelled.by(_AT_PEAK, seconds.scaled(1 / (365.25 * 86400), "years")),
        _by_arithmetic(state_bytes, "B", "state of the training"),
        _by_arithmetic(state_bytes / memory, "", "bytes of that training's state over this machine's memory"),
    )


@dataclass(frozen=True)
class Rule:
    """What must be larger than the link's ridge by a formula so that arithmetic takes longer than messages do."""

    way: str
    what: str
    formula: str
    near: Modelled
    far: Modelled


def rules(cluster: Cluster, flops: float) -> list[Rule]:
    """Return the rule of each way to split, in a node of the cluster and between nodes, for numbers of two bytes."""
    near, far = (flops * line.beta_s_per_byte for line in (cluster.inside, cluster.between))
    ways = (
        ("data, whole or sharded", "tokens of a rank", "R", 1.0),
        ("tensor, over 8", "width", "(8 − 1) R / 4", 7 / 4),
        ("context", "positions of a rank", "R", 1.0),
        ("experts", "width", "R / 4", 1 / 4),
        ("pipeline", "layers of a stage × width", "R / 12", 1 / 12),
    )
    return [
        Rule(way, what, formula, *(_by_arithmetic(share * ridge, "1", what) for ridge in (near, far)))
        for way, what, formula, share in ways
    ]


def answers(between: GivenLink, parameters: float, peak: Measurement) -> dict[str, Modelled]:
    """Return the numbers in the answers to the questions: of a link, GPT-3's parameters and the peak of all cores."""
    gradients = NUMBER * GPT2.parameters
    reduced = ring_all_reduce(gradients, _MACHINES, between)
    step = 3.0 * GPT2.text_flops(GPT2.positions)
    found = {
        "wait": (between.alpha_s / between.beta_s_per_byte, "B"),
        "straggler": (63 * 0.1, ""),
        "left-out": (1 / 63, "%"),
        "amdahl": (amdahl(1 - 0.01, 1024), ""),
        "amdahl-limit": (1 / 0.01, ""),
        "gustafson": (gustafson(0.01, 1024), ""),
        "floor": (8 * parameters / identity().memory_bytes, ""),
        "bubble": (7 / (32 + 7), "%"),
        "reduced": (reduced, "s"),
        "reduced-bytes": (2 * (_MACHINES - 1) / _MACHINES * gradients, "B"),
        "step-flops": (step, "FLOP"),
        "rank-rate": (step / reduced, "FLOP/s"),
    }
    made = {name: _by_arithmetic(value, unit, name) for name, (value, unit) in found.items()}
    return made | {"step-seconds": Modelled.by(_AT_PEAK, peak.per(step, "s", "step-seconds"))}
