"""Our own models as an engine: on NumPy, on the compiled kernels, fused or on a plan, and where their time goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tinytorch.core import dispatch, ops
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Op
from tinytorch.core.optimizers import REFERENCE_RULES, AdamW, step_rules
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines.protocol import ENGINES, AdamWSettings, Engine, Phase, Training
from tinytorch.perf.engines.workloads import Loss, Subject, our_input, our_loss, prompt_of
from tinytorch.perf.events.stream import Profile, op_groups, recording
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import blas_threads
from tinytorch.perf.memoization import enable_kv_cache, fuse_decoding, generate
from tinytorch.perf.roofline.bounds import bandwidth_at, roof_seconds


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


#: AdamW reads parameter, gradient and two moments, and writes all but the gradient.
_ARRAYS_OF_ADAMW = 7
WARM_UP_CALLS = 5
#: Calls that are recorded, of which the fastest is kept: in the first ones the recorder itself is cold.
RECORDINGS = 9


@dataclass(frozen=True)
class Part:
    """All calls of one op in one phase: its name, ``calls``, ``seconds``, and its ``share`` of the whole call."""

    name: str
    calls: int
    seconds: float
    share: float


def recorded(engine: Engine, subject: Subject, phase: Phase) -> Profile:
    """Return the events of one warm call on one of our engines, in this process; recording makes short ops longer.

    Raises:
        ValueError: if the engine is not ours: others have no events.
    """
    if engine.translation != "ours":
        raise ValueError(f"engine must be one of ours, whose ops the seam sees, not {engine.name!r}")
    with scope(engine.setting):
        call: Callable[[], object]
        if phase == "decode":
            call = decoding(engine.setting, *prompt_of(subject))
        elif phase == "forward":
            inputs, _ = subject.batch()
            call = forward(engine.setting, subject.make(), inputs)
        else:
            call = training(engine.setting, subject.make(), subject.batch(), subject.loss, AdamWSettings()).step
        for _ in range(WARM_UP_CALLS):
            call()
        return min((_recording(call) for _ in range(RECORDINGS)), key=lambda profile: profile.wall_seconds)


def _recording(call: Callable[[], object]) -> Profile:
    with recording() as found:
        call()
    return found.profile


def parts(profile: Profile) -> list[Part]:
    """Return where a recorded call's time went, the largest part first; what no op took, an optimizer's step
    among it, is named "between ops"."""
    whole = profile.wall_seconds
    found = [
        Part(" ".join(key), len(indices), seconds, seconds / whole)
        for key, indices in op_groups(profile).items()
        for seconds in [sum(profile.events[i].self_ns for i in indices) * 1e-9]
    ]
    left = whole - sum(part.seconds for part in found)
    return sorted([*found, Part("between ops", 0, left, left / whole)], key=lambda part: part.seconds, reverse=True)


def seconds_at_roof(subject: Subject, phase: Phase, ceilings: Ceilings) -> float:
    """Return the time that a call takes with every op at its roof, in seconds, ops as the unfused model has them.

    A training step adds AdamW's compulsory bytes at the bandwidth of the level that holds them. A fused model moves
    fewer bytes and may be faster.
    """
    profile = recorded(ENGINES["tinytorch"], subject, phase)
    seconds = roof_seconds(profile.events, ceilings).median
    if phase != "step":
        return seconds
    moved = _ARRAYS_OF_ADAMW * sum(parameter.data.nbytes for parameter in subject.make().parameters())
    return seconds + moved / bandwidth_at(moved, ceilings).median
