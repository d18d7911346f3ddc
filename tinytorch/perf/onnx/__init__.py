"""Models of other frameworks: an ONNX file as a Module whose ops run at the seam."""

from tinytorch.perf.onnx.exporting import from_torch
from tinytorch.perf.onnx.inspecting import count_onnx
from tinytorch.perf.onnx.model import OnnxModel
from tinytorch.perf.onnx.node import UntranslatedError
from tinytorch.perf.onnx.reading import from_onnx

__all__ = ["OnnxModel", "UntranslatedError", "count_onnx", "from_onnx", "from_torch"]
