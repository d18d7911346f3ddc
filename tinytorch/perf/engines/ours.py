"""Our own models as an engine: on NumPy, on the compiled kernels, fused or on a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tinytorch.core import dispatch, ops
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Op
from tinytorch.core.optimizers import REFERENCE_RULES, AdamW, step_rules
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines.protocol import AdamWSettings, Training
from tinytorch.perf.engines.workloads import Loss, our_input, our_loss
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import blas_threads
from tinytorch.perf.memoization import enable_kv_cache, fuse_decoding, generate


@contextmanager
def references() -> Iterator[None]:
    """Run the body on NumPy's implementations of ops and optimizers alone, whatever is selected around it."""
    plain = {op: op.reference for op in vars(ops).values() if isinstance(op, Op)}
    with dispatch.implementations(plain), step_rules(REFERENCE_RULES):
        yield


@contextmanager
def scope(setting: str) -> Iterator[None]:
    """Run the body on the setting's implementations, with a thread for each core of the process."""
    with blas_threads(len(usable_cores())):
        if setting == "numpy":
            with references():
                yield
            return
        from tinytorch.perf.acceleration import accelerated

        with accelerated():
            yield


def forward(setting: str, model: Module, inputs: Array) -> Callable[[], Array]:
    """Return a call that runs ``model`` in eval mode without recording gradients, on a plan of it if fused."""
    ready, x = model.eval(), our_input(inputs)
    if setting == "fused":
        from tinytorch.perf.acceleration.plans import plan

        ready = plan(model, x)

    def call() -> Array:
        with no_grad():
            output: Array = ready(x).data
        return output

    return call


def training(setting: str, model: Module, batch: tuple[Array, Array], loss: Loss, optimizer: AdamWSettings) -> Training:
    """Return ``model`` in training with our AdamW, fused by a planned step."""
    names = list(model.state_dict())
    if setting == "fused":
        from tinytorch.perf.acceleration.fusion import fuse
        from tinytorch.perf.acceleration.planned_step import plan_step

        ready = fuse(model.train())
        planned = plan_step(ready, partial(our_loss, loss), _adam(ready, optimizer), *batch)
        # Fusion may name a tensor after the layer that it was joined with, but keeps their order.
        return Training(lambda: planned(*batch), lambda: dict(zip(names, ready.state_dict().values(), strict=True)))
    x, targets, adam = our_input(batch[0]), batch[1], _adam(model.train(), optimizer)

    def step() -> float:
        value = our_loss(loss, model(x), targets)
        adam.zero_grad()
        value.backward()
        adam.step()
        return float(value.item())

    return Training(step, model.state_dict)


def _adam(model: Module, settings: AdamWSettings) -> AdamW:
    return AdamW(model.parameters(), settings.lr, settings.betas, settings.eps, settings.weight_decay)


def decoding(setting: str, model: GPT, prompt: Array, new_tokens: int) -> Callable[[], Array]:
    """Return a call that generates with our cache; with the kernels a token takes one op."""
    ready = fuse_decoding(model) if setting == "accelerated" else model
    enable_kv_cache(ready, batch_size=len(prompt))
    return lambda: generate(ready, prompt, new_tokens)
