"""One fresh process of a run: makes the models anew, takes their times in turns, and answers in JSON.

A process of its own, because where memory lies and what was loaded before stay with a process and are the same for all
that it times. Source: T. Kalibera and R. Jones, Rigorous benchmarking in reasonable time, ISMM 2013.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tinytorch.perf.benchmarking.measuring import performances
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.results import Plan
from tinytorch.perf.benchmarking.running import reference_work
from tinytorch.perf.benchmarking.zoo import subject_of
from tinytorch.perf.measuring.codec import from_json, to_json
from tinytorch.perf.measuring.sampling import limit_blas_threads


def measure_process(plan: Plan, number: int, whole: bool) -> list[Performance]:
    """Return what this process, the ``number``-th of a run, measures; if ``whole`` memory and accuracy, too.

    Raises:
        ValueError: if the plan's subject cannot be used, or a variant has the reference's name.
    """
    task, variants = subject_of(plan)
    return performances(
        task,
        variants,
        plan.batches,
        repeats=plan.repeats,
        at_most_seconds=plan.at_most_seconds,
        seed=plan.seed + number,
        reference=reference_work(),
        whole=whole,
    )


def main() -> int:
    """Measure what the JSON object on stdin asks for and print the answer as one line; return the exit code."""
    asked: dict[str, Any] = json.loads(sys.stdin.read())
    plan = from_json(asked["plan"], Plan, "plan")
    limit_blas_threads(plan.threads)
    made = measure_process(plan, asked["number"], asked["whole"])
    sys.stdout.write("\n" + json.dumps(to_json(made)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
