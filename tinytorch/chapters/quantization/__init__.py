"""The page on quantization: codes and their errors, the speed of their products, and whole models in fewer bits."""

from tinytorch.chapters.quantization.codes import (
    by_observer,
    normals_with_outlier,
    record_answers,
    record_codes,
    record_integer_product,
    record_outliers,
)
from tinytorch.chapters.quantization.speed import (
    layer_parts,
    layer_speedup,
    numpy_products,
    one_row,
    record_instruction,
    record_layers,
    record_numpy_products,
    record_one_row,
    streaming_speedup,
)
from tinytorch.chapters.quantization.versions import (
    begin,
    granularity_rows,
    mixed_versions,
    record_calibration,
    record_granularity,
    record_mixed,
    record_pareto,
    record_tradeoffs,
    scored,
)

__all__ = [
    "begin",
    "by_observer",
    "granularity_rows",
    "layer_parts",
    "layer_speedup",
    "mixed_versions",
    "normals_with_outlier",
    "numpy_products",
    "one_row",
    "record_answers",
    "record_calibration",
    "record_codes",
    "record_granularity",
    "record_instruction",
    "record_integer_product",
    "record_layers",
    "record_mixed",
    "record_numpy_products",
    "record_one_row",
    "record_outliers",
    "record_pareto",
    "record_tradeoffs",
    "scored",
    "streaming_speedup",
]
