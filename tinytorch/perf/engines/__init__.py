"""Engines beside ours: our models with the same weights in PyTorch, ONNX Runtime and JAX, checked, then timed in turns.

Nothing here imports an engine: each is loaded in a process of its own, by `turns.study`, or by `agreement.load`.
"""
