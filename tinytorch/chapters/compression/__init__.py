"""The page on compression: speed and bytes of fewer numbers, and what they cost in accuracy."""

from tinytorch.chapters.compression.accuracy import (
    begin,
    mlp_change,
    record_combined,
    record_distilled,
    record_n_m,
    record_pruned,
    record_small,
    scores,
)
from tinytorch.chapters.compression.speed import (
    low_rank_speedups,
    model_speedups,
    record_answers,
    record_low_rank,
    record_sparse,
    record_structured,
    record_units,
    record_zeros,
    sparse_speed,
    thinner_versions,
    zeros_in_dense,
)

__all__ = [
    "begin",
    "low_rank_speedups",
    "mlp_change",
    "model_speedups",
    "record_answers",
    "record_combined",
    "record_distilled",
    "record_low_rank",
    "record_n_m",
    "record_pruned",
    "record_small",
    "record_sparse",
    "record_structured",
    "record_units",
    "record_zeros",
    "scores",
    "sparse_speed",
    "thinner_versions",
    "zeros_in_dense",
]
