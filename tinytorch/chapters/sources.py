"""Sources that claims of several chapters name: modules of the TinyTorch course, each at the commit that was read."""

from __future__ import annotations

from typing import Final

_COURSE: Final = "https://github.com/MLSysBook/TinyTorch/blob"

COURSE_ACCELERATION: Final = "TinyTorch course, module 18, Acceleration"
COURSE_ACCELERATION_URL: Final = (
    f"{_COURSE}/27ad60ea52606bc5b908971847029aa1b9913382/modules/18_acceleration/acceleration.py"
)
COURSE_COMPRESSION: Final = "TinyTorch course, module Compression"
COURSE_COMPRESSION_URL: Final = (
    f"{_COURSE}/1e7b3dde8d2a965947385ffce398dea2143c63f2/modules/16_compression/compression.py"
)
COURSE_PROFILING: Final = "TinyTorch course, module 15, Profiling"
COURSE_PROFILING_URL: Final = (
    "https://github.com/MLSysBook/TinyTorch/tree/4a9131f8c4d6096d5321d2924d0ce74e223b37d9/modules/14_profiling"
)
COURSE_QUANTIZATION: Final = "TinyTorch course, module 15, Quantization"
COURSE_QUANTIZATION_URL: Final = (
    f"{_COURSE}/8b03ee8f23f1b16d0996472b8a29a35da7ff9eca/modules/15_quantization/quantization.py"
)
