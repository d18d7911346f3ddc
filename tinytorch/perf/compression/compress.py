"""A whole compression: steps checked before anything runs, and each measured on the model that came out of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.core.module import Module, check_module
from tinytorch.perf.compression.low_rank import low_rank_model
from tinytorch.perf.compression.pruning import magnitude_prune, n_m_prune
from tinytorch.perf.compression.sparsity import measure_sparsity, sparse_model
from tinytorch.perf.compression.structured import structured_prune
from tinytorch.perf.measuring import Counted, Measurement, ratio
from tinytorch.perf.measuring.text_table import Column, mebibytes, milliseconds, number, percent, print_table
from tinytorch.perf.ops.affine import Scheme
from tinytorch.perf.quantization.convert import quantize_model, stored_bytes
from tinytorch.perf.quantization.layers import Plan
from tinytorch.perf.quantization.tradeoff import PairedAccuracy, forward_seconds, paired_accuracy

#: What a user may ask for: settings by name of the step, in the order of the steps, or pairs where a step comes twice.
Config = Mapping[str, Any] | Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Step:
    """One step: its name, its setting in words, and what it does. ``trains`` if the step is the caller's training."""

    name: str
    setting: str
    run: Callable[[Module], Module]
    trains: bool = False


def _by(function: Callable[..., Module], main: str, *others: str) -> Callable[[Any], Callable[[Module], Module]]:
    """Return what makes a step of ``function`` from a setting: its argument ``main``, or a mapping of arguments."""
    return lambda setting: lambda model: function(model, **_arguments(setting, main, others))


def _n_m(setting: Any) -> Callable[[Module], Module]:
    is_pair = isinstance(setting, tuple) and len(setting) == 2
    return _by(n_m_prune, "n", "m", "keep")({"n": setting[0], "m": setting[1]} if is_pair else setting)


def _csr(setting: Any) -> Callable[[Module], Module]:
    return sparse_model if setting is True else _by(sparse_model, "least_sparsity")(setting)


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


_CODED = frozenset({"csr", "quantize"})
#: Each step with the steps that may not come before it: what those make, it does not know.
STEPS: dict[str, tuple[Callable[[Any], Callable[[Module], Module]], frozenset[str]]] = {
    "structured_prune": (_by(structured_prune, "prune_ratio", "kinds", "keep"), frozenset({"low_rank", *_CODED})),
    "low_rank": (_by(low_rank_model, "ranks", "keep"), _CODED),
    "magnitude_prune": (_by(magnitude_prune, "sparsity", "scope", "keep"), frozenset({"low_rank", *_CODED})),
    "n_m": (_n_m, frozenset({"low_rank", *_CODED})),
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
        if name in wrong:
            raise ValueError(f"config may contain {name!r} only once")
        if wrong:
            raise ValueError(f"config must have {name!r} before {wrong[0]!r}, which leaves no layer that it can change")
        try:
            run = make(setting)
        except ValueError as error:
            raise ValueError(f"config[{name!r}] {error}") from None
        said = getattr(setting, "__name__", "a function") if name == "fine_tune" else str(setting)
        steps.append(Step(name, said, run, trains=name == "fine_tune"))
    return steps


#: The name of the row of the model as it was given.
ORIGINAL = "original"
Score = Callable[[Module], npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class StepReport:
    """Report of the model that came out of a step.

    Attributes:
        step: its name; `ORIGINAL` for the model as it was given.
        setting: in words.
        parameters: numbers that training changes: frozen ones do not count.
        sparsity: zeros among the weights in per cent, see `measure_sparsity`.
        stored: bytes of its state, as `Module.save` writes them.
        seconds: of one forward pass of the inputs, in turns with the models of all other steps; None without inputs.
        speedup: time of the original over this one's, above 1 is faster; None without inputs.
        accuracy: paired with the original's on the same examples; None without ``score``.
        right: which of these examples it gets right; None without ``score``.
    """

    step: str
    setting: str
    parameters: int
    sparsity: float
    stored: int
    seconds: Measurement | None
    speedup: Measurement | None
    accuracy: PairedAccuracy | None
    right: npt.NDArray[np.bool_] | None

    @property
    def said(self) -> str:
        """Step and setting in words."""
        return f"{self.step} {self.setting}".rstrip()


@dataclass(frozen=True)
class Compression:
    """The compressed ``model``, and a row for the original and for each step.

    Examples:
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.compression import Compression, compress_model
        >>> found = compress_model(Linear(16, 8), {"magnitude_prune": 0.5})
        >>> type(found) is Compression, len(found.steps)  # the original and the step
        (True, 2)
    """

    model: Module
    steps: list[StepReport]

    @property
    def compression_ratio(self) -> float:
        """Stored bytes of the original over those of the model."""
        return self.steps[0].stored / self.steps[-1].stored

    def print_report(self) -> None:
        """Print a row for each step, and what was not measured."""
        notes = [f"stored bytes are {self.compression_ratio:.3g} times fewer"]
        if self.steps[0].seconds is None:
            notes.append("time not measured: pass inputs")
        if self.steps[0].accuracy is None:
            notes.append("accuracy not measured: pass score")
        print_table(self.steps, _COLUMNS, notes)


_COLUMNS = (
    Column("said", "step", numeric=False),
    Column("parameters", "parameters", number(0)),
    Column("sparsity", "zeros %", number(1)),
    Column("stored", "stored MiB", mebibytes),
    Column("seconds", "ms", lambda seconds: milliseconds(seconds and seconds.median)),
    Column("accuracy", "accuracy %", lambda accuracy: percent(accuracy and accuracy.candidate)),
)


def compress_model(
    model: Module, config: Config, inputs: Any = None, score: Score | None = None, repeats: int = 15
) -> Compression:
    """Apply the steps of ``config`` to a copy of ``model``; return the result and the effect of each step.

    The whole config is checked first, also against the model: all steps but training are tried out on copies, so that
    an error comes before the first training and the first measurement.

    Args:
        model: any module tree.
        config: settings by name of the step, in the order in which they run (or pairs of these): ``structured_prune``
            (ratio), ``low_rank`` (ratio of ranks), ``magnitude_prune`` (sparsity), ``n_m`` ((n, m)), ``fine_tune`` (a
            function that trains the model it is given), ``csr`` (True, or the least sparsity) and ``quantize`` (bits or
            a `Plan`). A mapping in a setting's place holds the arguments of the function of that name.
        inputs: a batch of model inputs, on which a forward pass is timed.
        score: returns for each test example whether a model gets it right, shape (examples,).
        repeats: timed samples of each model, interleaved.

    Raises:
        ValueError: if a step is unknown, a setting is out of its range, the order cannot work, or the model has nothing
            that a step could work on.

    Examples:
        >>> from tinytorch.models import mlp
        >>> from tinytorch.perf.compression import compress_model
        >>> made = compress_model(mlp(), {"structured_prune": 0.5, "quantize": 8})
        >>> [row.step for row in made.steps]
        ['original', 'structured_prune', 'quantize']
        >>> made.compression_ratio > 6
        True
    """
    check_module(model)
    steps, tried, every = steps_of(config), model, [model]
    for step in steps:
        if not step.trains:
            tried = _run(step, tried)
    for step in steps:
        every.append(_run(step, every[-1]))
    seconds = None
    if inputs is not None:
        seconds = [*forward_seconds({str(at): each for at, each in enumerate(every)}, inputs, repeats).values()]
    right = None if score is None else [score(each) for each in every]
    named = [(ORIGINAL, ""), *((step.name, step.setting) for step in steps)]
    return Compression(every[-1], _reports(every, named, seconds, right))


def _run(step: Step, model: Module) -> Module:
    try:
        return step.run(model)
    except (ValueError, TypeError) as error:
        raise ValueError(f"config[{step.name!r}] does not fit this model: {error}") from error


def _reports(
    every: Sequence[Module],
    named: Sequence[tuple[str, str]],
    seconds: Sequence[Measurement] | None,
    right: Sequence[npt.NDArray[np.bool_]] | None,
) -> list[StepReport]:
    rows = []
    for at, (model, (name, setting)) in enumerate(zip(every, named, strict=True)):
        speedup = None
        if seconds is not None:
            said = f"original over {name}, forward pass"
            speedup = ratio(seconds[0], seconds[at], said) if at else Counted(1, "", said)
        rows.append(
            StepReport(
                name,
                setting,
                sum(each.size for each in model.parameters() if each.requires_grad),
                measure_sparsity(model),
                stored_bytes(model),
                None if seconds is None else seconds[at],
                speedup,
                None if right is None else paired_accuracy(right[0], right[at]),
                None if right is None else right[at],
            )
        )
    return rows
