"""Mixed precision: the errors of single layers in few bits, and what they say about all of them together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch.chapters.quantization.versions import scored
from tinytorch.core.module import Module
from tinytorch.perf.measuring import Counted, Modelled
from tinytorch.perf.quantization.convert import Sensitivity


def layer_errors(scan: Sequence[Sensitivity]) -> dict[str, Counted]:
    """Return the error of the outputs by the layer that alone has few bits."""
    return {row.name: Counted(row.error, "%", f"error of the outputs, only {row.name} rounded") for row in scan}


def combined(
    model: Module, scan: Sequence[Sensitivity], versions: Mapping[str, tuple[Module, Sequence[str] | None]]
) -> dict[str, dict[str, Any]]:
    """Return the bytes and the errors of versions of the zoo's GPT, each with the names of its layers in float.

    Errors of the outputs are ``predicted`` from those of the other layers alone, which add in squares, and ``found``.
    Nothing is predicted of a version without names, whose layers have other bits than in the scan.
    """
    rows = scored("gpt", model, {name: version for name, (version, _) in versions.items()})

    def predicted(kept: Sequence[str] | None) -> Modelled | None:
        if kept is None:
            return None
        error = float(np.sqrt(sum(row.error**2 for row in scan if row.name not in kept)))
        return Modelled(error, "%", "error of the outputs", "errors of single layers, which add in squares")

    return {
        name: {"stored": rows[name]["stored"], "predicted": predicted(kept), "found": rows[name]["error"]}
        for name, (_, kept) in versions.items()
    }


def beaten(rows: Mapping[str, Mapping[str, Any]], mixed: str, other: str) -> bool:
    """Return whether a mixed version takes more bytes than another one and has a larger error, too."""
    return all(rows[mixed][key].value > rows[other][key].value for key in ("stored", "found"))
