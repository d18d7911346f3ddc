"""Workloads of engines: the zoo's models and a block of GPT-2's shape, made alike in every process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from tinytorch import datasets, models
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Shape
from tinytorch.core.ops import cross_entropy, mean_squared_error
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, TransformerBlock

Loss = Literal["cross entropy", "squared error"]
#: Width and heads of GPT-2 small. Source: A. Radford et al., Language models are unsupervised multitask learners, 2019.
GPT2_WIDTH, GPT2_HEADS = 768, 12
#: Rows of the product that is compared by itself, which is what an engine's BLAS does.
PRODUCT_ROWS = 512
#: A GPT whose weights, 92 MB, exceed most caches: vocabulary, width, layers, heads, positions.
WIDE_GPT = (8192, 512, 6, 8, 128)


@dataclass(frozen=True)
class Subject:
    """A model with a batch to run and targets to train on; the same numbers whenever it is made.

    Attributes:
        name: what it is called by.
        make: returns the model, untrained, from a fixed seed.
        batch: returns inputs and targets: integers for a cross entropy, else an array of the output's shape.
        loss: what training minimizes: the mean over all that the targets hold.
    """

    name: str
    make: Callable[[], Module]
    batch: Callable[[], tuple[Array, Array]]
    loss: Loss


def our_input(inputs: Array) -> Tensor | Array:
    """Return what our models take: numbers as a Tensor, integers as they are."""
    return Tensor(inputs) if inputs.dtype.kind == "f" else inputs


def our_loss(kind: Loss, output: Tensor, targets: Array) -> Tensor:
    """Return the loss of ``output``, shape ()."""
    if kind == "squared error":
        return apply(mean_squared_error, output, Tensor(targets))
    return apply(cross_entropy, output, targets, ignore_index=None)


def _digits(batch: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(batch)
    return draw.random((batch, 1, 8, 8), dtype=np.float32), draw.integers(0, 10, batch)


def _sequences(batch: int, vocabulary: int, length: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(batch)
    return draw.integers(0, vocabulary, (batch, length)), draw.integers(0, vocabulary, (batch, length))


def _activations(seed: int, inputs: Shape, targets: Shape) -> tuple[Array, Array]:
    draw = np.random.default_rng(seed)
    return draw.standard_normal(inputs, dtype=np.float32), draw.standard_normal(targets, dtype=np.float32)


def _subjects() -> Iterator[Subject]:
    block = partial(TransformerBlock, GPT2_WIDTH, GPT2_HEADS, seed=0)
    for length in (128, 512):
        shape = (1, length, GPT2_WIDTH)
        yield Subject(f"block-{length}", block, partial(_activations, length, shape, shape), "squared error")
    sorting = (datasets.SEPARATOR + 1, 2 * datasets.SORT_LENGTH)
    for batch in (1, 64):
        yield Subject(f"gpt-{batch}", models.gpt, partial(_sequences, batch, *sorting), "cross entropy")
        yield Subject(f"mlp-{batch}", models.mlp, partial(_digits, batch), "cross entropy")
        yield Subject(f"cnn-{batch}", models.cnn, partial(_digits, batch), "cross entropy")
    product, shapes = (GPT2_WIDTH, 4 * GPT2_WIDTH), ((PRODUCT_ROWS, GPT2_WIDTH), (PRODUCT_ROWS, 4 * GPT2_WIDTH))
    yield Subject("product-512", partial(Linear, *product, seed=0), partial(_activations, 0, *shapes), "squared error")
    tokens = partial(_sequences, 1, WIDE_GPT[0], WIDE_GPT[-1])
    yield Subject("wide-gpt-1", partial(GPT, *WIDE_GPT, seed=0), tokens, "cross entropy")


#: Every subject by name: ``block-LENGTH`` of one sequence, ``gpt-BATCH``, ``mlp-BATCH``, ``cnn-BATCH``,
#: ``product-512``, the largest product of that block alone, and ``wide-gpt-1`` to generate with.
SUBJECTS = {subject.name: subject for subject in _subjects()}


#: Tokens that a text begins with when it is generated.
PROMPT_TOKENS = 4


def prompt_of(made: Subject) -> tuple[GPT, Array, int]:
    """Return the subject's model, the prompts (B, 4), and how many tokens fit after them.

    Raises:
        ValueError: if it is no GPT.
    """
    model = made.make().eval()
    if not isinstance(model, GPT):
        raise ValueError(f"subject must be a GPT to generate text, but {made.name} is a {type(model).__name__}")
    inputs, _ = made.batch()
    return model, inputs[:, :PROMPT_TOKENS], model.max_seq_len - PROMPT_TOKENS + 1


def subject(name: str) -> Subject:
    """Return the subject of this name.

    Raises:
        ValueError: if there is none.
    """
    if name not in SUBJECTS:
        raise ValueError(f"name must be one of {', '.join(SUBJECTS)}, not {name!r}")
    return SUBJECTS[name]
