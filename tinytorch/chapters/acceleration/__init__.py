"""The page on one product: from loops to the peak of a core, step by step, and over its width."""

from tinytorch.chapters.acceleration.ladder import (
    STEPS,
    begin,
    matmul_ladder,
    record_answers,
    record_ladder,
    record_peak,
    record_second_core,
    second_core,
    show_all,
    show_ladder,
    show_shapes,
    study_ladder,
)
from tinytorch.chapters.acceleration.sentences import record_sentences, study_sentences
from tinytorch.chapters.acceleration.widths import (
    claim_tiling,
    record_widths,
    show_caches,
    study_widths,
)

__all__ = [
    "STEPS",
    "begin",
    "claim_tiling",
    "matmul_ladder",
    "record_answers",
    "record_ladder",
    "record_peak",
    "record_second_core",
    "record_sentences",
    "record_widths",
    "second_core",
    "show_all",
    "show_caches",
    "show_ladder",
    "show_shapes",
    "study_ladder",
    "study_sentences",
    "study_widths",
]
