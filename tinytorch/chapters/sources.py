"""Sources of claims that several pages or long records name: titles and addresses of the TinyTorch course's modules."""

from __future__ import annotations

COURSE_PROFILING = "TinyTorch course, module 15, Profiling"
COURSE_PROFILING_URL = (
    "https://github.com/MLSysBook/TinyTorch/tree/4a9131f8c4d6096d5321d2924d0ce74e223b37d9/modules/14_profiling"
)
