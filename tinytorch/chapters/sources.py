"""Sources of claims that several pages or long records name: titles and addresses of the TinyTorch course's modules."""

from __future__ import annotations

COURSE_BENCHMARKING = "TinyTorch course, module 19, Benchmarking"
COURSE_BENCHMARKING_FOLDER_URL = (
    "https://github.com/MLSysBook/TinyTorch/tree/4aeb3c9c694b46b216716c824800e747c0ac16a1/modules/19_benchmarking"
)
COURSE_MEMOIZATION = "TinyTorch course, module 17, Memoization"
COURSE_MEMOIZATION_URL = (
    "https://github.com/MLSysBook/TinyTorch/blob/a5bfffe48fbf957b5e61f104807f819c9dc5a617/"
    "modules/17_memoization/memoization.py"
)
COURSE_PROFILING = "TinyTorch course, module 15, Profiling"
COURSE_PROFILING_URL = (
    "https://github.com/MLSysBook/TinyTorch/tree/4a9131f8c4d6096d5321d2924d0ce74e223b37d9/modules/14_profiling"
)
