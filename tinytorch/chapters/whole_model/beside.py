"""Our models in ONNX Runtime, and in PyTorch if the build has it."""

from collections.abc import Mapping
from typing import Any

from tinytorch.perf.engines.presence import missing
from tinytorch.perf.engines.turns import race, runners
from tinytorch.perf.measuring import Measurement, Unmeasured, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired

PLAN, ONNX_RUNTIME, EAGER = "tinytorch fused", "ONNX Runtime", "PyTorch eager"
#: Enough rounds to decide a factor of two. No more than two engines run at a time, so that their processes and the
#: page's stay below the memory that a page may hold.
_ROUNDS = 9


def beside_onnx_runtime(cases: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return a forward pass of each subject by its plan and by ONNX Runtime on one core, by the name of the case.

    A row has the times ``plan`` and ``runtime``, and ``gained``: the time of ONNX Runtime compared with the plan's.

    Raises:
        ValueError: if ONNX Runtime is not installed.
    """
    with runners([PLAN, ONNX_RUNTIME], 1) as started:
        times = {name: race(started, of, "forward", cores=1, rounds=_ROUNDS).times for name, of in cases.items()}
    return {
        name: {
            "name": name,
            "plan": each[PLAN],
            "runtime": each[ONNX_RUNTIME],
            "gained": compare_paired(each[PLAN], each[ONNX_RUNTIME], matters=0.1),
        }
        for name, each in times.items()
    }


def over_runtime(passes: Mapping[str, Measurement], way: str, raced: Mapping[str, Measurement]) -> Measurement:
    """Return the time of a ``way`` in ``passes``, such as "loops", over ONNX Runtime's, each interleaved with a plan.

    ``raced`` is a row of `beside_onnx_runtime`.
    """
    ours, theirs = ratio(passes[way], passes["plan"]), ratio(raced["runtime"], raced["plan"])
    return quotient(ours, theirs, f"time of {way} over ONNX Runtime, through a plan")


def over_pytorch(passes: Mapping[str, Measurement], way: str) -> Measurement | Unmeasured:
    """Return the time of a ``way`` over that of PyTorch, for one sequence through the GPT on one core."""
    if (lacks := missing(EAGER)) is not None:
        return lacks
    with runners([PLAN, EAGER], 1) as started:
        times = race(started, "gpt-1", "forward", cores=1, rounds=_ROUNDS).times
    ours, theirs = ratio(passes[way], passes["plan"]), ratio(times[EAGER], times[PLAN])
    return quotient(ours, theirs, f"time of {way} over PyTorch eager, through a plan")
