"""What a host does once before its workers measure: it trains what has to be, and says which machine it is.

A process of its own, so that the machine is described as a run without workers describes it, by the same libraries.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tinytorch.perf.benchmarking.subjects import subject_of
from tinytorch.perf.host.identity import identity


def prepared(subject: str, input_shape: tuple[int, ...] | None) -> dict[str, Any]:
    """Return ``{"identity": ...}`` of this machine, or ``{"error": ...}``, a sentence on what is wrong with a model."""
    machine = identity().to_json()
    try:
        subject_of(subject, input_shape)
    except ValueError as error:
        return {"error": " ".join(str(error).split())}
    return {"identity": machine}


def main() -> int:
    """Prepare what the JSON object on standard input names, and print the answer as one line; return the exit code."""
    asked: dict[str, Any] = json.loads(sys.stdin.read())
    shape = asked["input_shape"]
    answer = prepared(asked["subject"], None if shape is None else tuple(shape))
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
