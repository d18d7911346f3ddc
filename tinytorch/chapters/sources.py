"""Sources that a claim names: a module of the TinyTorch course at the commit that was read."""

from __future__ import annotations

from typing import Final

COURSE_BENCHMARKING: Final = "TinyTorch course, module 19, Benchmarking"
COURSE_BENCHMARKING_FOLDER_URL: Final = (
    "https://github.com/MLSysBook/TinyTorch/tree/4aeb3c9c694b46b216716c824800e747c0ac16a1/modules/19_benchmarking"
)
