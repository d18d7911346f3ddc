"""Ops beyond the core, each with its reference in NumPy and its cost: fused, quantized, sparse, decoding, of ONNX."""
