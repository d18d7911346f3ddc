"""The steps that a compression can take: each checks its setting, says what it may follow, and makes a new model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinytorch.core.module import Module
from tinytorch.perf.compression.csr import sparse_model
from tinytorch.perf.compression.low_rank import low_rank_model
from tinytorch.perf.compression.magnitude import magnitude_prune
from tinytorch.perf.compression.n_m import n_m_prune
from tinytorch.perf.compression.structured import structured_prune
from tinytorch.perf.quantization.affine import Scheme
from tinytorch.perf.quantization.convert import quantize_model
from tinytorch.perf.quantization.layers import Plan

#: What a user may ask for: settings by name of the step, in the order of the steps, or pairs where a step comes twice.
Config = Mapping[str, Any] | Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Step:
    """One step: its name, its setting in words, and what it does. ``trains`` if the step is the caller's training."""

    name: str
    setting: str
    run: Callable[[Module], Module]
    trains: bool = False


def _structured(setting: Any) -> Callable[[Module], Module]:
    return lambda model: structured_prune(model, **_arguments(setting, "prune_ratio", ("kinds", "keep")))


def _low_rank(setting: Any) -> Callable[[Module], Module]:
    return lambda model: low_rank_model(model, **_arguments(setting, "ranks", ("keep",)))


def _magnitude(setting: Any) -> Callable[[Module], Module]:
    return lambda model: magnitude_prune(model, **_arguments(setting, "sparsity", ("scope", "keep")))


def _n_m(setting: Any) -> Callable[[Module], Module]:
    given = dict(zip(("n", "m"), setting, strict=True)) if isinstance(setting, tuple) and len(setting) == 2 else setting
    return lambda model: n_m_prune(model, **_arguments(given, "n", ("m", "keep")))


def _csr(setting: Any) -> Callable[[Module], Module]:
    if setting is True:
        return sparse_model
    return lambda model: sparse_model(model, **_arguments(setting, "least_sparsity", ()))


def _quantize(setting: Any) -> Callable[[Module], Module]:
    if isinstance(setting, int) and not isinstance(setting, bool):
        plan = Plan() if setting == 8 else Plan("weight-only", Scheme(setting, per="group"))
    elif isinstance(setting, Plan):
        plan = setting
    else:
        raise ValueError(f"must be a number of bits or a Plan, not {setting!r}")
    if plan.mode == "static":
        raise ValueError("must be a dynamic or weight-only plan: a static one needs calibration, by quantize_model")
    return lambda model: quantize_model(model, plan=plan)


def _fine_tune(setting: Any) -> Callable[[Module], Module]:
    if not callable(setting):
        raise ValueError(f"must be a function that trains the model it is given, not {setting!r}")

    def tuned(model: Module) -> Module:
        trained = copy.deepcopy(model)
        setting(trained)
        return trained

    return tuned


#: Each step with the steps that may not come before it: what those make, it does not know.
STEPS: dict[str, tuple[Callable[[Any], Callable[[Module], Module]], frozenset[str]]] = {
    "structured_prune": (_structured, frozenset({"low_rank", "csr", "quantize"})),
    "low_rank": (_low_rank, frozenset({"csr", "quantize"})),
    "magnitude_prune": (_magnitude, frozenset({"low_rank", "csr", "quantize"})),
    "n_m": (_n_m, frozenset({"low_rank", "csr", "quantize"})),
    "fine_tune": (_fine_tune, frozenset({"quantize"})),
    "csr": (_csr, frozenset({"quantize"})),
    "quantize": (_quantize, frozenset({"quantize"})),
}


def _arguments(setting: Any, main: str, others: Sequence[str]) -> dict[str, Any]:
    """Return keyword arguments of a setting: a mapping of them, or the ``main`` one alone."""
    if not isinstance(setting, Mapping) or (main == "ranks" and not setting.keys() <= {main, *others}):
        return {main: setting}
    unknown = sorted(set(setting) - {main, *others})
    if unknown:
        raise ValueError(f"has no setting {', '.join(unknown)}: it may have {', '.join((main, *others))}")
    return dict(setting)


def steps_of(config: Config) -> list[Step]:
    """Return the steps of ``config`` in their order.

    Raises:
        ValueError: if there is none, a step is unknown, a setting is no setting of it, or the order cannot work.
    """
    pairs = list(config.items()) if isinstance(config, Mapping) else [tuple(pair) for pair in config]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"config must name at least one step with its setting: {', '.join(STEPS)}")
    steps: list[Step] = []
    for name, setting in pairs:
        if name not in STEPS:
            raise ValueError(f"config must name steps among {', '.join(STEPS)}, not {name!r}")
        make, never_after = STEPS[name]
        wrong = [step.name for step in steps if step.name in never_after]
        if wrong:
            raise ValueError(f"config must have {name!r} before {wrong[0]!r}, which leaves nothing that it works on")
        try:
            run = make(setting)
        except ValueError as error:
            raise ValueError(f"config[{name!r}] {error}") from None
        said = getattr(setting, "__name__", "a function") if name == "fine_tune" else str(setting)
        steps.append(Step(name, said, run, trains=name == "fine_tune"))
    return steps
