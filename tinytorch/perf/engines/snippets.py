"""Snippets for another engine: functions that a page shows, run in the engine's own Python, and what they printed.

python -m tinytorch.perf.engines.snippets MODULE:FUNCTION
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tinytorch.perf.engines.presence import missing, peers_python
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.processes import function_at, output_of, reference_to


def printed_by(snippet: Callable[[], None], engine: str = "PyTorch eager") -> str | Unmeasured:
    """Return what a function prints in a fresh process of the Python that has the engine, or why it did not run.

    Args:
        snippet: a function at the top level of a module that imports the engine within the function only.
        engine: the one that it needs, of `ENGINES`.

    Raises:
        ValueError: if a new process could not import the function by its name.
        RuntimeError: if the process fails; its last line of error is the message.
    """
    reference = reference_to("snippet", snippet)
    lacks = missing(engine)
    # A notebook's variable names a backend of figures that only its own Python has.
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    return lacks or output_of(("-m", __name__, reference), python=peers_python(), environment=environment)


if __name__ == "__main__":
    function_at(sys.argv[1])()
