"""A process that is asked what a benchmark's are, and answers at once: where it runs, or not at all."""

import json
import os
import signal
import sys

from tinytorch.perf.host.pinned_threads import allowed_cores

BLAS = {"name": "made", "version": "1", "core": "made"}
IDENTITY = {
    "system": "made",
    "cpu": "made",
    "vectors": None,
    "cores_logical": 2,
    "cores_usable": 2,
    "memory_bytes": 1,
    "python": "3",
    "numpy": "2",
    "blas": [BLAS],
}


def main() -> None:
    """Answer the preparation's question, or the worker's for one variant; the process with number 3 dies."""
    asked = json.loads(sys.stdin.read())
    if "plan" not in asked:
        print(json.dumps({"identity": IDENTITY}))
        return
    if asked["number"] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    how = {"cores": allowed_cores(), "interleaved_with": ["made"]}
    times = {"1": [{"name": "a", "unit": "s", "samples": [1.0] * 6, "how": how}]}
    memory = {"1": {"name": "a", "unit": "B", "samples": [1.0], "how": {}}} if asked["whole"] else {}
    one = {"name": "a", "task": "made", "model_bytes": 1, "times": times, "reference": times, "memory": memory}
    print(json.dumps([{**one, "accuracy": None}]))


if __name__ == "__main__":
    main()
