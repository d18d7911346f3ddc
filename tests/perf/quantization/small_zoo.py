"""The zoo's architectures, untrained, with a batch each; the GPT is narrower, so that tests are fast."""

from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.transformers import GPT

NAMES = ("mlp", "cnn", "gpt")


def make(name: str, seed: int = 0) -> Module:
    if name == "gpt":
        return GPT(11, 24, 2, 2, 12, seed=seed).eval()
    return models.entry(name).make(seed).eval()


def batch(name: str) -> Any:
    if name == "gpt":
        return np.random.default_rng(0).integers(0, 11, (5, 12))
    return models.example(name, 5)
