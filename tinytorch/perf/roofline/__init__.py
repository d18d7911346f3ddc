"""The roofline: what bounds a run, and where its ops, layers and models lie between the measured roofs."""

from tinytorch.perf.roofline.in_turns import interleave_with_ceilings, record_with_ceilings
from tinytorch.perf.roofline.placement import Placed, arithmetic_intensity, place_call, place_calls, place_ops, ridge

__all__ = [
    "Placed",
    "arithmetic_intensity",
    "interleave_with_ceilings",
    "place_call",
    "place_calls",
    "place_ops",
    "record_with_ceilings",
    "ridge",
]
