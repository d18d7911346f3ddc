"""Roofs of machines that the book did not measure, as their makers publish them, each with its source."""

from __future__ import annotations

from tinytorch.report.records import Json

#: Peaks in operations a second without sparsity, 2 for each multiply-add, and bandwidths in B/s.
PUBLISHED: tuple[Json, ...] = (
    {
        "name": "NVIDIA A100, 40 GB",
        "short": "A100",
        "source": "NVIDIA A100 Tensor Core GPU Architecture, 2020",
        "address": "https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf",
        "peaks": [["FP32", 19.5e12], ["BF16", 312e12], ["INT8", 624e12]],
        "levels": [["memory", 1555e9]],
    },
    {
        "name": "Google TPU v5e",
        "short": "TPU v5e",
        "source": "Google Cloud, TPU v5e",
        "address": "https://cloud.google.com/tpu/docs/v5e",
        "peaks": [["BF16", 197e12], ["INT8", 393e12]],
        "levels": [["memory", 819e9]],
    },
)
