"""Stages of a pipeline: a model cut into consecutive parts, of which each rank keeps one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.layers import Embedding, LayerNorm
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT


def part_of(length: int, stage: int, stages: int) -> range:
    """Return which of ``length`` layers belong to a stage: consecutive ones, as evenly as it goes.

    Raises:
        ValueError: if there are fewer layers than stages, or no such stage.
    """
    if not 0 <= stage < stages <= length:
        raise ValueError(
            f"stage must be below stages, and stages at most the {length} layers, but they are {stage} and {stages}"
        )
    return range(length * stage // stages, length * (stage + 1) // stages)


def sequential_stage(model: Sequential, stage: int, stages: int) -> Sequential:
    """Return the layers of a stage; they are the model's own.

    Raises:
        ValueError: if there are fewer layers than stages.
    """
    return Sequential(*[model[index] for index in part_of(len(model), stage, stages)])


class GPTStage(Module):
    """Some blocks of a `GPT`; the first stage has the embeddings before them, the last one the norm and logits after.

    The token embedding is also the logits' projection, so that the first and the last stage both have it; ``tied``
    is that parameter there, None elsewhere.
    """

    def __init__(self, model: GPT, stage: int, stages: int) -> None:
        self.blocks = [model.blocks[index] for index in part_of(len(model.blocks), stage, stages)]
        self.position_embedding: Embedding | None = model.position_embedding if stage == 0 else None
        self.norm: LayerNorm | None = model.norm if stage == stages - 1 else None
        ends = stage in (0, stages - 1)
        self.token_embedding: Embedding | None = model.token_embedding if ends else None

    @property
    def tied(self) -> Parameter | None:
        """The parameter that the first and the last stage share."""
        return None if self.token_embedding is None else self.token_embedding.weight

    def forward(self, x: Any) -> Tensor:
        """Return logits or activations (B, T, embed_dim), of tokens (B, T) or the stage before's activations."""
        if self.position_embedding is not None:
            assert self.token_embedding is not None
            tokens = np.asarray(x.data if isinstance(x, Tensor) else x)
            x = self.token_embedding(tokens) + self.position_embedding(np.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        if self.norm is not None:
            assert self.token_embedding is not None
            x = self.token_embedding.project(self.norm(x))
        output: Tensor = x
        return output
