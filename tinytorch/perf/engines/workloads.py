"""Workloads of engines: the zoo's models and a block of GPT-2's shape, made alike in every process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from tinytorch import datasets, models
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array
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


def _activations(length: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(length)
    shape = (1, length, GPT2_WIDTH)
    return draw.standard_normal(shape, dtype=np.float32), draw.standard_normal(shape, dtype=np.float32)


def _rows_of_product() -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    inputs = draw.standard_normal((PRODUCT_ROWS, GPT2_WIDTH), dtype=np.float32)
    return inputs, draw.standard_normal((PRODUCT_ROWS, 4 * GPT2_WIDTH), dtype=np.float32)


def _product() -> Linear:
    return Linear(GPT2_WIDTH, 4 * GPT2_WIDTH, seed=0)


def _block() -> TransformerBlock:
    return TransformerBlock(GPT2_WIDTH, GPT2_HEADS, seed=0)


def _wide() -> GPT:
    return GPT(*WIDE_GPT, seed=0)


def _subjects() -> dict[str, Subject]:
    sorting = (datasets.SEPARATOR + 1, 2 * datasets.SORT_LENGTH)
    made = [
        *(Subject(f"block-{length}", _block, partial(_activations, length), "squared error") for length in (128, 512)),
        *(
            Subject(f"gpt-{batch}", models.gpt, partial(_sequences, batch, *sorting), "cross entropy")
            for batch in (1, 64)
        ),
        *(Subject(f"mlp-{batch}", models.mlp, partial(_digits, batch), "cross entropy") for batch in (1, 64)),
        *(Subject(f"cnn-{batch}", models.cnn, partial(_digits, batch), "cross entropy") for batch in (1, 64)),
    ]
    made.append(Subject("product-512", _product, _rows_of_product, "squared error"))
    made.append(Subject("wide-gpt-1", _wide, partial(_sequences, 1, WIDE_GPT[0], WIDE_GPT[-1]), "cross entropy"))
    return {subject.name: subject for subject in made}


#: Every subject by name: ``block-LENGTH`` of one sequence, ``gpt-BATCH``, ``mlp-BATCH``, ``cnn-BATCH``,
#: ``product-512``, the largest product of that block alone, and ``wide-gpt-1`` to generate with.
SUBJECTS = _subjects()


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
