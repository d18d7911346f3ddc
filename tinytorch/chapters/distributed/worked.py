"""Worked numbers of the page on several ranks: what it ran on, GPT-3 against that, and the answers to its questions."""

from collections.abc import Mapping
from typing import Any

from tinytorch.chapters.gpt2 import GPT2, NUMBER
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, GivenLink, ring_all_reduce
from tinytorch.perf.distributed.cluster_model.prediction import Group
from tinytorch.perf.host.pinned_threads import may_pin
from tinytorch.perf.machine import identity
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Quoted
from tinytorch.perf.profiling.breakdown import amdahl

#: What says the years and seconds that no machine here took.
_AT_PEAK = "the operations, at the peak"
#: Machines that train GPT-2 in the last question.
_MACHINES = 8


def _by_arithmetic(value: float, unit: str, what: str) -> Modelled:
    return Modelled(value, unit, what, "arithmetic")


def _by_formulas(value: float, unit: str, what: str) -> Modelled:
    return Modelled(value, unit, what, "the formulas of this chapter")


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


def walls(cores: int, seconds: Measurement, state_bytes: float) -> dict[str, Any]:
    """Return what stands against a training of so many seconds at the peak of all cores, and so many bytes of state.

    Ranks have a ``placing``: "pinned" to cores of their own, "not pinned", or "sharing" one core.
    """
    return {
        "cores": Counted(
            cores, "cores" if cores > 1 else "core", "cores that the process that built this page could use"
        ),
        "placing": "sharing" if cores < 2 else "pinned" if may_pin() else "not pinned",
        "years": Modelled.by(_AT_PEAK, seconds.scaled(1 / (365.25 * 86400), "years")),
        "state": _by_arithmetic(state_bytes, "B", "four float32 numbers for each parameter of the training"),
        "memories": _by_arithmetic(state_bytes / identity().memory_bytes, "", "that state over this machine's memory"),
    }


def layer_messages(sharing: int, *, width: int, tokens: int, ranks: int, cluster: Cluster) -> dict[str, Any]:
    """Return the seconds of a layer's messages in a step, if ``sharing`` of the ranks share each layer.

    The other ranks share the batch of ``tokens``, and all parameters are sharded. Values have two bytes.
    """
    tensor, data = Group(sharing, stride=1), Group(ranks // sharing, stride=sharing)
    weights = 3 * data.all_gather(2 * 12 * width**2 / sharing, cluster)
    activations = 4 * tensor.all_reduce(2 * width * tokens / data.members, cluster)
    found = {"weights": weights, "activations": activations, "both": weights + activations}
    return {"sharing": sharing} | {name: _by_formulas(seconds, "s", name) for name, seconds in found.items()}


def layer_arithmetic(width: int, tokens_per_rank: float, flops: float) -> Modelled:
    """Return the seconds of a layer's matrix products with its weights, in a step of so many tokens per rank."""
    return _by_formulas(6 * 12 * width**2 * tokens_per_rank / flops, "s", "arithmetic of a layer in a step")


def best_sharing(width: int, tokens_per_rank: float) -> Modelled:
    """Return how many ranks should share a layer, if all parameters are sharded and a node has enough ranks."""
    return _by_formulas((4.5 * width / tokens_per_rank) ** 0.5, "GPUs", "number of GPUs that share a layer, N_tensor")


def link_ridges(clusters: Mapping[str, tuple[float, float, float, str, str]]) -> list[dict[str, Any]]:
    """Return a row for each cluster: peak and links as published, and the ridge points that follow.

    Args:
        clusters: by name, FLOP/s of a GPU, B/s that it sends in its node, B/s that a node sends, and the sources of
            the GPU and of the network.
    """
    return [
        {
            "name": name,
            "peak": Quoted(peak, "FLOP/s", f"peak of a GPU in 16 bits, {name}", of_gpu),
            "inside": Quoted(inside, "B/s", f"bandwidth from a GPU to others of its node, {name}", of_gpu),
            "out": Quoted(out, "B/s", f"bandwidth from a node to other nodes, {name}", of_network),
            "near": _by_formulas(peak / inside, "FLOP/B", f"ridge point of a GPU's link in its node, {name}"),
            "far": _by_formulas(peak / out, "FLOP/B", f"ridge point of a node's links, {name}"),
        }
        for name, (peak, inside, out, of_gpu, of_network) in clusters.items()
    ]


def rules(cluster: Cluster, flops: float) -> list[dict[str, Any]]:
    """Return the rule of each way to split, in a node of the cluster and between nodes, for values of two bytes.

    Between nodes, all adapters of a node carry weights and gradients, which its ranks need in common; everything else
    goes through a rank's own adapter.
    """
    near = flops * cluster.inside.beta_s_per_byte
    far = flops * cluster.between.beta_s_per_byte
    ways = (
        ("data, sharded or not", "tokens of a rank", "R", near, far / cluster.ranks_per_node),
        ("tensor, over 8", "width", "(8 − 1) R / 4", 7 / 4 * near, None),
        ("context", "positions of a rank", "R", near, far),
        ("experts", "width", "R / 4", near / 4, far / 4),
        ("pipeline", "layers of a stage × width", "R / 12", near / 12, far / 12),
    )
    return [
        {"way": way, "what": what, "formula": formula}
        | {"near": _by_formulas(inside, "1", what), "far": between and _by_formulas(between, "1", what)}
        for way, what, formula, inside, between in ways
    ]


def answers(between: GivenLink, parameters: float, peak: Measurement) -> dict[str, Modelled]:
    """Return the numbers in the answers to the questions: of a link, GPT-3's parameters and the peak of all cores."""
    gradients = NUMBER * GPT2.parameters
    reduced = ring_all_reduce(gradients, _MACHINES, between)
    step = 3.0 * GPT2.text_flops(GPT2.positions)
    found = {
        "wait": (between.alpha_s / between.beta_s_per_byte, "B", "latency times bandwidth of the assumed link"),
        "straggler": (63 * 0.1, "", "time that 63 ranks wait for one that takes a tenth longer, over a rank's step"),
        "left-out": (1 / 63, "%", "work of one rank in 64, shared out to the 63 others"),
        "amdahl": (amdahl(1 - 0.01, 1024), "", "Amdahl's law, a hundredth serial, 1,024 ranks"),
        "amdahl-limit": (1 / 0.01, "", "Amdahl's limit of a hundredth"),
        "gustafson": (gustafson(0.01, 1024), "", "Gustafson's law, a hundredth serial, 1,024 ranks"),
        "floor": (
            8 * parameters / identity().memory_bytes,
            "",
            "parameters and gradients of GPT-3 in float32 over this machine's memory",
        ),
        "bubble": (7 / (32 + 7), "%", "share of the time in which a stage waits, eight stages and 32 micro-batches"),
        "reduced": (reduced, "s", "an all-reduce of GPT-2's gradients on eight ranks and the assumed link"),
        "reduced-bytes": (
            2 * (_MACHINES - 1) / _MACHINES * gradients,
            "B",
            "what each of eight ranks sends of GPT-2's gradients, float32",
        ),
        "step-flops": (step, "FLOP", "forward and backward of GPT-2 on one text of all positions"),
        "rank-rate": (step / reduced, "FLOP/s", "rate at which that step takes as long as the all-reduce"),
    }
    made = {name: _by_arithmetic(*each) for name, each in found.items()}
    at_peak = peak.per(step, "s", "forward and backward of GPT-2 on one text, at the peak of all cores")
    return made | {"step-seconds": Modelled.by(_AT_PEAK, at_peak)}
