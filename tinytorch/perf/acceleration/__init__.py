"""Faster ways to run the same ops: what the chapter on acceleration teaches and measures."""

from tinytorch.perf.acceleration.accelerated import accelerated, kernel_implementations

__all__ = ["accelerated", "kernel_implementations"]
