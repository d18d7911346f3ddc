"""The TinyTorch course's names in one place: ``from tinytorch.course import *`` brings all that its texts type.

Its students' own import lines work as they are, too. What a name does is said where it is defined.
"""

from tinytorch import Module, Sequential
from tinytorch.core.activations import GELU, ReLU, Sigmoid, Softmax, Tanh
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.autograd import no_grad
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.layers import Dropout, Embedding, Flatten, LayerNorm, Linear
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.optimizers import SGD, Adam, AdamW
from tinytorch.core.spatial import AvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, Transformer, TransformerBlock
from tinytorch.models.transformer import MLP, TinyGPT
from tinytorch.perf.acceleration import (
    accelerated,
    arithmetic_intensity,
    col2im,
    fused_gelu,
    im2col,
    im2col_conv2d,
    tiled_matmul,
    unfused_gelu,
    vectorized_matmul,
)
from tinytorch.perf.benchmarking import (
    benchmark_suite,
    compare,
    measure_performance,
    pareto_frontier,
    plot_performance_comparison,
)
from tinytorch.perf.compression import (
    KnowledgeDistillation,
    compress_model,
    low_rank_approximate,
    magnitude_prune,
    measure_sparsity,
    structured_prune,
)
from tinytorch.perf.memoization import KVCache, disable_kv_cache, enable_kv_cache
from tinytorch.perf.profiling import (
    FLOPCounter,
    MemoryProfiler,
    MemoryTracker,
    Profiler,
    ProfilerContext,
    SimpleProfiler,
    Timer,
    count_flops,
    profile,
    profile_function,
    quick_profile,
)
from tinytorch.perf.quantization import (
    QuantizedLinear,
    analyze_model_sizes,
    dequantize_int8,
    quantize_int8,
    quantize_model,
)

__all__ = [
    "GELU",
    "GPT",
    "MLP",
    "SGD",
    "Adam",
    "AdamW",
    "AvgPool2d",
    "BatchNorm2d",
    "Conv2d",
    "CrossEntropyLoss",
    "DataLoader",
    "Dropout",
    "Embedding",
    "FLOPCounter",
    "Flatten",
    "KVCache",
    "KnowledgeDistillation",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "MaxPool2d",
    "MemoryProfiler",
    "MemoryTracker",
    "Module",
    "MultiHeadAttention",
    "Profiler",
    "ProfilerContext",
    "QuantizedLinear",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "SimpleProfiler",
    "Softmax",
    "Tanh",
    "Tensor",
    "Timer",
    "TinyGPT",
    "Transformer",
    "TransformerBlock",
    "accelerated",
    "analyze_model_sizes",
    "arithmetic_intensity",
    "benchmark_suite",
    "col2im",
    "compare",
    "compress_model",
    "count_flops",
    "dequantize_int8",
    "disable_kv_cache",
    "enable_kv_cache",
    "fused_gelu",
    "im2col",
    "im2col_conv2d",
    "low_rank_approximate",
    "magnitude_prune",
    "measure_performance",
    "measure_sparsity",
    "no_grad",
    "pareto_frontier",
    "plot_performance_comparison",
    "profile",
    "profile_function",
    "quantize_int8",
    "quantize_model",
    "quick_profile",
    "structured_prune",
    "tiled_matmul",
    "unfused_gelu",
    "vectorized_matmul",
]
