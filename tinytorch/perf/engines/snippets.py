"""Snippets for PyTorch: functions that a page shows, run in the Python that has it, and what they printed.

python -m tinytorch.perf.engines.snippets MODULE:FUNCTION
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tinytorch.perf.engines.presence import available, missing, peers_python
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.fresh import function_at, output_of, reference_to

_ENGINE = "PyTorch eager"


@dataclass(frozen=True)
class Printed:
    """What a snippet printed, and what ran it, such as "PyTorch 2.9"."""

    text: str
    by: str


def printed_by(snippet: Callable[[], None]) -> Printed | Unmeasured:
    """Return what a function prints in a fresh process of the Python that has PyTorch, or why it did not run.

    Args:
        snippet: a function at the top level of a module that imports PyTorch within the function only.

    Raises:
        ValueError: if a new process could not import the function by its name.
        RuntimeError: if the process fails; its last line of error is the message.
    """
    reference = reference_to("snippet", snippet)
    if (lacks := missing(_ENGINE)) is not None:
        return lacks
    # A notebook's variable names a backend of figures that only its own Python has.
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    text = output_of(("-m", __name__, reference), python=peers_python(), environment=environment)
    return Printed(text, f"PyTorch {available()[_ENGINE]}")


if __name__ == "__main__":
    function_at(sys.argv[1])()
