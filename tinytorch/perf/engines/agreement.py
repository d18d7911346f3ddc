"""Agreement of an engine with ours: outputs, losses and what training changes, to rounding."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tinytorch.perf.engines import ours
from tinytorch.perf.engines.protocol import AdamWSettings, Engine, Phase, Translation
from tinytorch.perf.engines.workloads import Subject, prompt_of
from tinytorch.perf.memoization import generate

#: Largest difference of outputs, over the largest element: float32 sums in another order, through all layers.
OUTPUT_TOLERANCE = 2e-5
#: Largest difference of losses, over the first, and of what training changed, over the largest change.
LOSS_TOLERANCE, CHANGE_TOLERANCE = 2e-5, 1e-3
#: AdamW in which no rounding decides a direction: with the usual eps it normalizes gradients that are zero but for
#: rounding to full steps. Only this check trains with it.
CHECK = AdamWSettings(lr=1e-2, eps=1e-2)
CHECKED_STEPS = 3


class DisagreementError(Exception):
    """An engine computes something else than we do, so its time says nothing."""


def load(engine: Engine) -> Translation:
    """Return the module that speaks to an engine; imports the engine."""
    module: Any = ours
    if engine.translation == "pytorch":
        from tinytorch.perf.engines import pytorch as module
    elif engine.translation == "onnx_runtime":
        from tinytorch.perf.engines import onnx_runtime as module
    elif engine.translation == "jax_xla":
        from tinytorch.perf.engines import jax_xla as module
    return cast(Translation, module)


def check(engine: Engine, subject: Subject, phase: Phase) -> float:
    """Return by how much the engine's results differ from ours on NumPy, as a share of the largest element.

    Forward: the output. Step: the loss of three training steps, and every parameter and buffer after them, relative
    to the largest change. Decode: the tokens, which must be those that we generate without a cache.

    Raises:
        DisagreementError: if it is more than float32's rounding explains.
    """
    checks = {"forward": _check_output, "step": _check_training, "decode": _check_tokens}
    return checks[phase](engine, subject)


def _check_output(engine: Engine, subject: Subject) -> float:
    inputs, _ = subject.batch()
    with ours.references():
        expected = ours.forward("numpy", subject.make(), inputs)()
    output = load(engine).forward(engine.setting, subject.make(), inputs)()
    if output.shape != expected.shape:
        raise DisagreementError(f"{engine.name} on {subject.name} gives shape {output.shape}, not {expected.shape}")
    share = float(np.abs(output - expected).max() / np.abs(expected).max())
    if not share <= OUTPUT_TOLERANCE:
        raise DisagreementError(f"{engine.name} on {subject.name} differs by {share:.2g} of the largest output")
    return share


def _check_tokens(engine: Engine, subject: Subject) -> float:
    model, prompt, new_tokens = prompt_of(subject)
    with ours.references():
        expected = generate(model, prompt, new_tokens)
    found = load(engine).decoding(engine.setting, prompt_of(subject)[0], prompt, new_tokens)()
    if not np.array_equal(found, expected):
        raise DisagreementError(f"{engine.name} on {subject.name} generates other tokens than ours")
    return 0.0


def _check_training(engine: Engine, subject: Subject) -> float:
    batch = subject.batch()
    before = subject.make().state_dict()
    with ours.references():
        expected = ours.training("numpy", subject.make(), batch, subject.loss, CHECK)
        wanted = [expected.step() for _ in range(CHECKED_STEPS)]
    found = load(engine).training(engine.setting, subject.make(), batch, subject.loss, CHECK)
    losses = [found.step() for _ in range(CHECKED_STEPS)]
    # Relative to the first: a loss near 0 is a difference of logits, rounded as they are.
    if not np.abs(np.subtract(losses, wanted)).max() <= LOSS_TOLERANCE * abs(wanted[0]):
        raise DisagreementError(f"{engine.name} on {subject.name} has losses {losses}, not {wanted}")
    ours_after, theirs_after = expected.state(), found.state()
    if ours_after.keys() != theirs_after.keys():
        names = ", ".join(sorted(ours_after.keys() ^ theirs_after.keys()))
        raise DisagreementError(f"{engine.name} on {subject.name} trains other tensors than ours: {names}")
    largest = max(float(np.abs(after - before[name]).max()) for name, after in ours_after.items())
    shares = {name: float(np.abs(theirs_after[name] - after).max()) / largest for name, after in ours_after.items()}
    worst = max(shares, key=lambda name: shares[name])
    if not shares[worst] <= CHANGE_TOLERANCE:
        raise DisagreementError(
            f"{engine.name} on {subject.name} changes {worst} otherwise, by {shares[worst]:.2g} of the largest change"
        )
    return shares[worst]
