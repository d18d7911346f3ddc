"""Engines beside ours: our models with the same weights in PyTorch, ONNX Runtime and JAX, checked, then timed in turns.

Nothing here imports an engine: each is loaded in a process of its own, by `study`, or by `Engine.load`.
"""

from tinytorch.perf.engines.presence import available, missing
from tinytorch.perf.engines.protocol import ENGINES, OURS, AdamWSettings, Engine, Training, engine
from tinytorch.perf.engines.turns import EngineError, Raced, race, runners, study
from tinytorch.perf.engines.workloads import SUBJECTS, Subject, subject

__all__ = [
    "ENGINES",
    "OURS",
    "SUBJECTS",
    "AdamWSettings",
    "Engine",
    "EngineError",
    "Raced",
    "Subject",
    "Training",
    "available",
    "engine",
    "missing",
    "race",
    "runners",
    "study",
    "subject",
]
