"""A process that runs one engine: it checks and warms a subject, then times it whenever it is its turn.

    python -m tinytorch.perf.engines.worker ENGINE CORES

It reads one JSON object a line, ``{"subject": ..., "phase": ...}`` or ``{"runs": ...}``, and answers each with one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from tinytorch.perf.engines.agreement import check, load
from tinytorch.perf.engines.protocol import AdamWSettings, Engine, engine
from tinytorch.perf.engines.workloads import Subject, prompt_of, subject
from tinytorch.perf.host.pinned_threads import allowed_cores, may_pin, pin, usable_cores
from tinytorch.perf.measuring import sample
from tinytorch.perf.measuring.codec import to_json

#: Before each turn the engine runs for this long untimed, in seconds: other engines had the caches and the cores.
LEAD_IN_SECONDS = 0.03
#: Warm-up of a subject, in seconds and calls: compilers and allocators settle.
WARM_UP_SECONDS, WARM_UP_CALLS = 0.5, 5


class Prepared:
    """A call that was checked, warmed up, and is timed turn by turn."""

    def __init__(self, made: Engine, of: Subject, phase: Any) -> None:
        self.difference = check(made, of, phase)
        self.name = f"{made.name}, {of.name}, {phase}"
        self.call = _call(made, of, phase)
        start, calls = time.perf_counter(), 0
        while calls < WARM_UP_CALLS or time.perf_counter() - start < WARM_UP_SECONDS:
            self.call()
            calls += 1
        self.seconds = sample(self.call, "fastest", warmup=2, runs=2).minimum

    def turn(self, runs: int) -> dict[str, Any]:
        """Return the times of ``runs`` samples, in seconds a call, and their conditions."""
        warmup = max(1, round(LEAD_IN_SECONDS / self.seconds))
        taken = sample(self.call, self.name, warmup=warmup, runs=runs)
        return {"seconds": taken.samples, "conditions": to_json(taken.conditions)}


def _call(made: Engine, of: Subject, phase: str) -> Callable[[], Any]:
    if phase == "forward":
        return load(made).forward(made.setting, of.make(), of.batch()[0])
    if phase == "decode":
        return load(made).decoding(made.setting, *prompt_of(of))
    return load(made).training(made.setting, of.make(), of.batch(), of.loss, AdamWSettings()).step


def serve(made: Engine, requests: TextIO, answers: TextIO) -> None:
    """Answer each line of ``requests`` until they end."""
    prepared: Prepared | None = None
    for line in requests:
        asked = json.loads(line)
        try:
            if "subject" in asked:
                prepared = None  # the last one's memory is free before the next one's is taken
                prepared = Prepared(made, subject(asked["subject"]), asked["phase"])
                answer: dict[str, Any] = {"difference": prepared.difference, "seconds": prepared.seconds}
            else:
                assert prepared is not None
                answer = prepared.turn(asked["runs"])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main(arguments: list[str]) -> int:
    """Keep to the cores, start the engine and serve; what the engine prints goes to standard error."""
    made = engine(arguments[0])
    if may_pin():
        pin(allowed_cores()[-len(usable_cores()) :])
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with load(made).scope(made.setting):
        serve(made, sys.stdin, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
