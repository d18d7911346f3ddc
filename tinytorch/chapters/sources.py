"""Sources that claims of several chapters name: modules of the TinyTorch course, each at the commit that was read."""

from __future__ import annotations

from typing import Final

_COURSE: Final = "https://github.com/MLSysBook/TinyTorch/blob"

COURSE_BENCHMARKING: Final = "TinyTorch course, module 19, Benchmarking"
COURSE_BENCHMARKING_FOLDER_URL: Final = (
    "https://github.com/MLSysBook/TinyTorch/tree/4aeb3c9c694b46b216716c824800e747c0ac16a1/modules/19_benchmarking"
)
COURSE_MEMOIZATION: Final = "TinyTorch course, module 17, Memoization"
COURSE_MEMOIZATION_URL: Final = (
    f"{_COURSE}/a5bfffe48fbf957b5e61f104807f819c9dc5a617/modules/17_memoization/memoization.py"
)
COURSE_PROFILING: Final = "TinyTorch course, module 15, Profiling"
COURSE_PROFILING_URL: Final = (
    "https://github.com/MLSysBook/TinyTorch/tree/4a9131f8c4d6096d5321d2924d0ce74e223b37d9/modules/14_profiling"
)
