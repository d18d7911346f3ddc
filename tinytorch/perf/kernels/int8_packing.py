"""A weight's codes in the order in which the register tile reads them, with the sums of their columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.int8_tile import PANEL, STEP


@dataclass(frozen=True)
class Panels:
    """A packed weight.

    Attributes:
        codes: int8, flat: [panel of 16 columns][segment][4 of the depth][column][4], zeros beyond the weight.
        sums: int32, flat: [segment][column], the sums of each column over a segment's depth.
        depth: of the weight.
        columns: of the weight.
        segment: depth of a segment; the last may be shorter.
    """

    codes: Array
    sums: Array
    depth: int
    columns: int
    segment: int

    @cached_property
    def segments(self) -> int:
        """How many there are, at least 1."""
        return max(1, -(-self.depth // self.segment))

    @cached_property
    def steps(self) -> int:
        """Groups of 4 along the depth of a segment."""
        return -(-self.segment // 4)

    @cached_property
    def padded_columns(self) -> int:
        """Columns of all panels."""
        return -(-self.columns // PANEL) * PANEL


@kernel
def _pack(b: Any, segment: Any, steps: Any, codes: Any, sums: Any) -> None:
    """Fill ``codes`` and ``sums``, which hold zeros, from b (depth, columns)."""
    depth, columns = b.shape
    segments = max(1, (depth + segment - 1) // segment)
    padded = (columns + PANEL - 1) // PANEL * PANEL
    for row in range(depth):
        part, within = divmod(row, segment)
        for panel in range(padded // PANEL):
            start = ((panel * segments + part) * steps + within // 4) * STEP + within % 4
            first = panel * PANEL
            for column in range(first, min(first + PANEL, columns)):
                code = b[row, column]
                codes[start + 4 * (column - first)] = code
                sums[part * padded + column] += code


def pack_panels(b: Array, segment: int | None = None) -> Panels:
    """Return int8 codes (depth, columns) as panels; ``segment`` is the depth that shares scales, all by default."""
    depth, columns = b.shape
    segment = max(1, min(segment or depth, depth))
    made = Panels(np.zeros(0, np.int8), np.zeros(0, np.int32), depth, columns, segment)
    codes = np.zeros(made.padded_columns // PANEL * made.segments * made.steps * STEP, np.int8)
    sums = np.zeros(made.segments * made.padded_columns, np.int32)
    if b.size:
        _pack(np.ascontiguousarray(b), segment, made.steps, codes, sums)
    return Panels(codes, sums, depth, columns, segment)


def kept_panels(packed: dict[str, Any], b: Callable[[], Array], segment: int | None) -> Panels:
    """Return the panels that ``packed`` (`Codes.packed`) keeps; pack what b returns the first time.

    The arrays are kept by name too, so that `memory_usage` counts them.
    """
    made: Panels | None = packed.get("int8")
    if made is None:
        made = packed["int8"] = pack_panels(b(), segment)
        packed["int8_panels"], packed["int8_sums"] = made.codes, made.sums
    return made
