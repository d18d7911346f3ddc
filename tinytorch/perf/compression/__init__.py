"""Compression that is real: fewer weights, smaller layers, and what each step did, measured on what came out."""

from tinytorch.perf.compression.compress import Compression, compress_model
from tinytorch.perf.compression.distillation import KnowledgeDistillation
from tinytorch.perf.compression.low_rank import LowRankLinear, break_even_rank, low_rank_approximate, low_rank_model
from tinytorch.perf.compression.pruning import compact_n_m, hold_zeros, magnitude_prune, n_m_prune
from tinytorch.perf.compression.sparsity import SparseLinear, csr_nbytes, layer_sparsity, measure_sparsity, sparse_model
from tinytorch.perf.compression.structured import (
    mask_units,
    remove_units,
    structured_prune,
    unit_groups,
    units_to_remove,
)
from tinytorch.perf.kernels.registry import run_by_kernel
from tinytorch.perf.ops.sparse import sparse_linear

__all__ = [
    "Compression",
    "KnowledgeDistillation",
    "LowRankLinear",
    "SparseLinear",
    "break_even_rank",
    "compact_n_m",
    "compress_model",
    "csr_nbytes",
    "hold_zeros",
    "layer_sparsity",
    "low_rank_approximate",
    "low_rank_model",
    "magnitude_prune",
    "mask_units",
    "measure_sparsity",
    "n_m_prune",
    "remove_units",
    "sparse_model",
    "structured_prune",
    "unit_groups",
    "units_to_remove",
]

run_by_kernel(sparse_linear)
