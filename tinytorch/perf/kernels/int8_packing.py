"""A weight's codes as an integer product reads them: bytes of one code each, and the sums of their columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.kernels.compiling import kernel
from tinytorch.perf.kernels.int8_tile import STEP
from tinytorch.perf.quantization.packing import PANEL, PanelLayout

_CODE, _INT = np.int8, np.int32


@dataclass(frozen=True)
class Panels:
    """A weight in `PanelLayout`, and what a product needs to know of it.

    Attributes:
        codes: int8, flat; of 4 and 2 bits they are packed, and come apart for each call, a few panels at a time.
        sums: int32, flat: [segment][column], the sums of each column over a segment's depth, for pairs of panels.
        depth: of the weight.
        columns: of the weight.
        segment: depth of a segment; the last may be shorter.
        segments: how many there are.
        steps: groups of 4 along the depth of a segment.
        count: of panels.
        bits: of a code.
    """

    codes: Array
    sums: Array
    depth: int
    columns: int
    segment: int
    segments: int
    steps: int
    count: int
    bits: int

    @cached_property
    def sizes(self) -> Array:
        """What `int8_matmul.rescaled_blocks` takes: one array, which a call unpacks faster than numbers."""
        return np.array([self.columns, self.segment, self.steps, self.segments, self.count, self.bits])


@kernel
def unpack_panels(panel: Any, count: Any, panel_bytes: Any, codes: Any, bits: Any, target: Any) -> None:
    """Fill ``target`` with the codes of ``count`` panels of fewer than 8 bits, a byte each, from ``panel`` on.

    ``panel_bytes`` are those of a panel in ``target``.
    """
    many = count * panel_bytes // (8 // bits)
    packed = codes[panel * panel_bytes // (8 // bits) :][:many]
    if bits == 4:
        for i in range(many):
            byte = _CODE(packed[i])
            target[2 * i] = (byte & _CODE(15)) - _CODE(8)
            target[2 * i + 1] = ((byte >> _CODE(4)) & _CODE(15)) - _CODE(8)
    else:
        for i in range(many):
            byte = _CODE(packed[i])
            for place in range(4):
                target[4 * i + place] = ((byte >> _CODE(2 * place)) & _CODE(3)) - _CODE(2)


@kernel
def add_columns(codes: Any, bits: Any, count: Any, segments: Any, steps: Any, sums: Any) -> None:
    """Add the codes of each column of ``count`` panels to ``sums``, a segment at a time."""
    panel_bytes = segments * steps * STEP
    aside = np.empty(0 if bits == 8 else panel_bytes, np.int8)
    for panel in range(count):
        if bits < 8:
            unpack_panels(panel, 1, panel_bytes, codes, bits, aside)
            numbers = aside
        else:
            numbers = codes[panel * panel_bytes :][:panel_bytes]
        for segment in range(segments):
            total = sums[segment * count * PANEL + panel * PANEL :][:PANEL]
            for step in range(steps):
                four = numbers[(segment * steps + step) * STEP :][:STEP]
                for column in range(PANEL):
                    for place in range(4):
                        total[column] += _INT(four[4 * column + place])


def panels_of(codes: Array, layout: PanelLayout) -> Panels:
    """Return packed codes, a matrix or panels of ``layout``, as a product reads them; panels are not copied."""
    if codes.ndim != 5:
        codes = layout.arranged(codes)
    flat = codes.reshape(-1).view(np.int8)
    # A pair of panels may begin with the last one: what is read of the other counts for nothing, but must be there.
    sums = np.zeros((layout.segments * layout.panels + layout.panels % 2) * PANEL, np.int32)
    add_columns(flat, layout.bits, layout.panels, layout.segments, layout.steps, sums)
    sizes = (layout.length, layout.columns, layout.segment, layout.segments, layout.steps, layout.panels)
    return Panels(flat, sums, *sizes, layout.bits)


def kept_panels(packed: dict[str, Any], codes: Array, layout: PanelLayout) -> Panels:
    """Return `panels_of` the codes, whose sums ``packed`` (`Codes.packed`) keeps.

    The sums are kept by name too, so that `memory_usage` counts them.
    """
    made: Panels | None = packed.get("int8")
    if made is None:
        made = packed["int8"] = panels_of(codes, layout)
        packed["int8_sums"] = made.sums
        if codes.ndim != 5:
            packed["int8_panels"] = made.codes
    return made
