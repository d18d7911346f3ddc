"""Pipeline parallelism: each rank keeps a stage of the model, and a batch flows through in micro-batches.

A stage works on one micro-batch while the next stage works on the one before. Loss and gradients are those of the
whole model on the whole batch, to rounding.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from tinytorch.core.layers import Embedding, LayerNorm
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array, whole_numbers
from tinytorch.core.optimizers import Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.distributed.ranks.communicator import Communicator, Pending, check_agreement
from tinytorch.perf.distributed.training.batches import micro_batches
from tinytorch.perf.distributed.training.data_parallel import Loss, Terms, examples

#: Tags of messages to the next stage and to the one before.
_ONWARD, _BACK = 1, 2


class Action(NamedTuple):
    """One piece of a stage's work."""

    phase: Literal["forward", "backward"]
    micro: int


@whole_numbers
def one_forward_one_backward(stage: int, stages: int, micro: int) -> list[Action]:
    """Return forwards until the first gradient can be back, then backward and forward in turns.

    A stage holds the activations of at most ``stages - stage`` micro-batches; the time in which it waits is that of
    all forwards before all backwards (Y. Huang et al., GPipe, 2019, arXiv:1811.06965).
    Source: D. Narayanan et al., 2021 (arXiv:2104.04473), section 2.2.1.

    Raises:
        ValueError: if a number is out of range.
    """
    if not (0 <= stage < stages and micro >= 1):
        raise ValueError(f"stage must be 0 to {stages - 1} and micro at least 1, not {stage} and {micro}")
    ahead = min(stages - stage - 1, micro)
    actions = [Action("forward", m) for m in range(ahead)]
    for m in range(micro - ahead):
        actions += [Action("forward", ahead + m), Action("backward", m)]
    return actions + [Action("backward", m) for m in range(micro - ahead, micro)]


@whole_numbers
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
            tokens = np.asarray(x._data if isinstance(x, Tensor) else x)
            x = self.token_embedding(tokens) + self.position_embedding(np.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        if self.norm is not None:
            assert self.token_embedding is not None
            x = self.token_embedding.project(self.norm(x))
        output: Tensor = x
        return output


class Pipeline:
    """Runs forward and backward of a model whose stages are on the ranks of ``communicator``, in their order.

    Args:
        stage: this rank's part of the model.
        loss: a mean over the terms that ``terms`` counts; only the last rank calls it.
        micro: micro-batches that a batch is cut into.
        terms: of the loss, given targets.
        tied: on the first and the last rank, a parameter that both have: its gradients are added up.

    Raises:
        ValueError: if ``micro`` is below 1, there are fewer than two ranks, only one end is tied, or the ranks do not
            agree on the settings.

    Examples:
        >>> from tinytorch import Linear
        >>> from tinytorch.core.losses import MSELoss
        >>> from tinytorch.perf.distributed import Pipeline, world
        >>> Pipeline(Linear(2, 1), MSELoss(), world(), micro=4)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ...
    """

    def __init__(
        self,
        stage: Module,
        loss: Loss,
        communicator: Communicator,
        *,
        micro: int,
        terms: Terms = examples,
        tied: Parameter | None = None,
    ) -> None:
        self.stage, self.loss, self.micro = stage, loss, micro
        self._communicator, self._terms, self._tied = communicator, terms, tied
        rank, size = communicator.rank, communicator.size
        if size < 2:
            raise ValueError("communicator must have at least two ranks, one for each stage, not one")
        self.actions = one_forward_one_backward(rank, size, micro)
        self._first, self._last = rank == 0, rank == size - 1
        check_agreement(communicator, {"micro": micro})
        ends = communicator.exchange(tied is not None and list(tied.shape))
        if ends[0] != ends[-1] or any(ends[1:-1]):
            raise ValueError(f"tied must be one parameter's shape on the first and the last rank alone, not {ends}")
        self._ends = communicator.split(int(self._first or self._last))

    def step(self, optimizer: Optimizer, inputs: Any, targets: Any) -> float:
        """Make a step of ``optimizer``, which holds this stage's parameters; return the mean loss of all before it.

        All ranks call it with the same batch: the first one reads the inputs, the last one the targets. A micro-batch
        without a term of the loss adds nothing. An error that only one rank has ends all of them.

        Raises:
            ValueError: if the batch has fewer examples than micro-batches, or no target counts.
            FloatingPointError: if the loss is not finite, on all ranks; no parameter is changed then.
        """
        optimizer.zero_grad()
        parts = micro_batches((_tensor(inputs), _tensor(targets)), self.micro)
        counts = [self._terms(part[1]) for part in parts]
        if not sum(counts) > 0:
            raise ValueError("targets must have at least one term of the loss, but have none")
        flow = _Flow(self, parts, [count / sum(counts) for count in counts])
        with self._communicator.together():
            for action in self.actions:
                (flow.forward if action.phase == "forward" else flow.backward)(action.micro)
            flow.end()
            if self._tied is not None and self._tied.grad is not None:
                self._tied.grad = self._ends.all_reduce(self._tied.grad)
            mean = float(self._communicator.broadcast(np.array(flow.mean), self._communicator.size - 1))
        if not math.isfinite(mean):
            raise FloatingPointError(f"the loss became {mean}: lower lr, now {optimizer.lr}")
        optimizer.step()
        return mean


def _tensor(values: Any) -> Tensor:
    return values if isinstance(values, Tensor) else Tensor(np.asarray(values))


class _Flow:
    """One batch on its way through this stage: what waits for its backward, and what is being sent."""

    def __init__(self, pipeline: Pipeline, parts: list[tuple[Tensor, ...]], shares: list[float]) -> None:
        self._pipeline, self._parts, self._shares = pipeline, parts, shares
        self._held: dict[int, tuple[Tensor, Tensor]] = {}
        self._sent: list[Pending] = []
        self.mean = 0.0

    def forward(self, micro: int) -> None:
        """Run this stage on a micro-batch, and send the output on; the last stage makes the loss of it."""
        stage, communicator = self._pipeline, self._pipeline._communicator
        if stage._first:
            given = self._parts[micro][0]
        else:
            given = Tensor(communicator.receive(communicator.rank - 1, _ONWARD), requires_grad=True)
        output = stage.stage(given)
        if stage._last and self._shares[micro]:
            output = stage.loss(output, self._parts[micro][1])
            self.mean += output.item() * self._shares[micro]
        elif not stage._last:
            self._sent.append(communicator.begin_send(output._data, communicator.rank + 1, _ONWARD))
        self._held[micro] = (given, output)

    def backward(self, micro: int) -> None:
        """Run this stage's backward of a micro-batch, and send the input's gradient back."""
        stage, communicator = self._pipeline, self._pipeline._communicator
        given, output = self._held.pop(micro)
        gradient: Array
        if stage._last:
            gradient = np.full(output.shape, self._shares[micro], output.dtype)  # zeros of outputs without a loss
        else:
            gradient = communicator.receive(communicator.rank + 1, _BACK)
        output.backward(gradient)
        if not stage._first:
            assert given.grad is not None
            self._sent.append(communicator.begin_send(given.grad, communicator.rank - 1, _BACK))
        self._sent = [pending for pending in self._sent if not pending.done()]

    def end(self) -> None:
        """Return once all that was sent is on its way."""
        for pending in self._sent:
            pending.wait()
