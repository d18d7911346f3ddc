"""Models cut over ranks, as new processes import them by name, beside the whole model."""

from typing import Any

import numpy as np

from tests.perf.distributed.training.training_programs import IGNORED, adamw, batches_of, loss, problem_of
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.training.data_parallel import counted_targets
from tinytorch.perf.distributed.training.pipeline import GPTStage, Pipeline
from tinytorch.perf.distributed.training.tensor_parallel import ColumnParallelLinear, RowParallelLinear, tensor_parallel

SHAPE = (3, 5, 8)


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def gradients(model: Module) -> dict[str, Array]:
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def both_ways(layer: Module, x: Array, weigh: Array) -> dict[str, Array]:
    """Return output, the input's gradient and the parameters' gradients of one forward and backward."""
    given = Tensor(x, requires_grad=True)
    output = layer(given)
    output.backward(weigh)
    assert given.grad is not None
    return {"output": output.data, "input": given.grad, **gradients(layer)}


def linear(seed: int, inputs: int, outputs: int) -> Linear:
    layer = Linear(inputs, outputs, seed=seed)
    for parameter in layer.parameters():
        parameter.data = parameter.data.astype(np.float64)
    return layer


def two_layers() -> tuple[Linear, Linear]:
    """Return layers of which the first is cut by columns and the second by rows."""
    return linear(1, 8, 12), linear(2, 12, 6)


def tensor_parallel_parts(communicator: Communicator) -> dict[str, Any]:
    """Return what two linear layers and a GPT give that are cut over the ranks."""
    found: dict[str, Any] = {}
    first, second = two_layers()
    pair = Sequential(ColumnParallelLinear(first, communicator), RowParallelLinear(second, communicator))
    found |= {f"pair/{key}": array for key, array in both_ways(pair, draw(*SHAPE), draw(3, 5, 6)).items()}
    problem = problem_of("gpt")
    model = tensor_parallel(problem.model, communicator)
    value = loss(model(problem.inputs), problem.targets)
    value.backward()
    found |= {f"gpt/{key}": array for key, array in gradients(model).items()}
    return {**found, "gpt/loss": value.data, "gpt/untouched": float(not gradients(problem.model))}


def whole_gpt() -> dict[str, Array]:
    problem = problem_of("gpt")
    value = loss(problem.model(problem.inputs), problem.targets)
    value.backward()
    return {**gradients(problem.model), "loss": value.data}


def pipelined(communicator: Communicator) -> dict[str, Any]:
    """Return losses of some steps of a GPT, and this rank's parameters."""
    problem = problem_of("gpt")
    assert isinstance(problem.model, GPT)
    names = {id(parameter): key for key, parameter in problem.model.named_parameters()}
    stage = GPTStage(problem.model, communicator.rank, communicator.size)
    pipeline = Pipeline(stage, loss, communicator, micro=5, terms=counted_targets(IGNORED), tied=stage.tied)
    rule = adamw(stage.parameters())
    losses = np.array([pipeline.step(rule, *batch) for batch in batches_of(problem, batch_size=8).epoch(0)])
    return {"losses": losses, **{names[id(parameter)]: parameter.data for parameter in stage.parameters()}}
