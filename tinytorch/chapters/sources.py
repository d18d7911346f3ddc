"""Sources that claims of several chapters name: modules of the TinyTorch course, each at the commit that was read."""

from __future__ import annotations

from typing import Final

_BLOB: Final = "https://github.com/MLSysBook/TinyTorch/blob"
_TREE: Final = "https://github.com/MLSysBook/TinyTorch/tree"

COURSE_ACCELERATION: Final = "TinyTorch course, module 18, Acceleration"
COURSE_ACCELERATION_URL: Final = (
    f"{_BLOB}/27ad60ea52606bc5b908971847029aa1b9913382/modules/18_acceleration/acceleration.py"
)
COURSE_BENCHMARKING: Final = "TinyTorch course, module 19, Benchmarking"
COURSE_BENCHMARKING_FOLDER_URL: Final = f"{_TREE}/4aeb3c9c694b46b216716c824800e747c0ac16a1/modules/19_benchmarking"
COURSE_PROFILING: Final = "TinyTorch course, module 15, Profiling"
COURSE_PROFILING_URL: Final = f"{_TREE}/4a9131f8c4d6096d5321d2924d0ce74e223b37d9/modules/14_profiling"
COURSE_PROFILING_TEXT_URL: Final = (
    "https://github.com/harvard-edge/cs249r_book/blob/0d076aee267cae5608d486b4e7adb04a59c91665/"
    "tinytorch/src/14_profiling/ABOUT.md"
)
COURSE_QUESTIONS: Final = "TinyTorch course, module 14, Profiling, question 3"
COURSE_QUESTIONS_URL: Final = COURSE_PROFILING_TEXT_URL
