"""Our models beside other engines, where the build has any, and whose library multiplies their matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinytorch.chapters import sources
from tinytorch.perf.engines import ENGINES, OURS, Raced, available, missing, race, runners
from tinytorch.perf.engines.presence import pytorch_blas
from tinytorch.perf.engines.protocol import Phase
from tinytorch.perf.engines.workloads import GPT2_WIDTH, PRODUCT_ROWS
from tinytorch.perf.host.blas import numpy_blas
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, Unmeasured, quotient, ratio
from tinytorch.perf.measuring.judge import Judgement
from tinytorch.report import Column, Page, verdict_between

EAGER = "PyTorch eager"
#: Subject and phase of each race, by what the key of its result ends in; and what the table calls it.
RACES: dict[str, tuple[str, Phase, str]] = {
    "one": ("gpt-1", "forward", "GPT, one sequence: forward"),
    "many": ("gpt-64", "forward", "GPT, 64 sequences: forward"),
    "block": ("block-128", "forward", "block of GPT-2's width, 128 positions: forward"),
    "step": ("gpt-64", "step", "GPT, 64 sequences: training step"),
}
_PRODUCT = "product-512"
#: Operations of the largest product of that block.
_FLOPS = 2 * PRODUCT_ROWS * GPT2_WIDTH * 4 * GPT2_WIDTH
_SHAPE = "512 × 768 × 3072"
_RESULTS = (
    *(f"fastest-{key}" for key in RACES),
    *("loops-over-eager", "numpy-over-eager", "product-eager", "product-ours"),
)


@dataclass(frozen=True)
class Beside:
    """Races with other engines on one core.

    Attributes:
        others: names of the engines that are not ours.
        product: of the largest product of a block of GPT-2's width, with its bias.
        races: by the keys of `RACES`.
    """

    others: Sequence[str]
    product: Raced
    races: Mapping[str, Raced]


@dataclass(frozen=True)
class Libraries:
    """Names of the libraries that multiply matrices: PyTorch's, or why it is not known, and NumPy's."""

    pytorch: str | Unmeasured
    ours: str


def libraries() -> Libraries:
    """Return whose products the engines of this build call."""
    return Libraries(pytorch_blas(), numpy_blas().label())


def race_engines() -> Beside | Unmeasured:
    """Return the races with all engines that are here, or why there are none where PyTorch is not."""
    lacks = missing(EAGER)
    if lacks is not None:
        return lacks
    names = [name for name in available() if "forward" in ENGINES[name].phases]
    with runners(names, 1) as started:
        product = race(started, _PRODUCT, "forward", cores=1, rounds=7)
        races = {key: race(started, of, phase, cores=1, rounds=7) for key, (of, phase, _) in RACES.items()}
    return Beside([name for name in names if name not in OURS], product, races)


def record_engines(
    page: Page,
    found: Beside | Unmeasured,
    finished: Mapping[str, Measurement],
    machine: Ceilings,
    called: Libraries,
) -> None:
    """Show our models beside other engines, or why nothing is said of them, and the claim on PyTorch.

    Args:
        page: where to; it knows loops over NumPy by then.
        found: what `race_engines` returned.
        finished: seconds of one sequence by "loops" and by "NumPy", in turns.
        machine: ceilings of one thread.
        called: whose products PyTorch and NumPy call.
    """
    if isinstance(called.pytorch, str):
        page.word("pytorch-blas", called.pytorch, because="PyTorch says so of its build")
    else:
        page.absent("pytorch-blas", reason=called.pytorch.reason)
    page.word("our-blas", called.ours, because="the library that NumPy loaded says so")
    if isinstance(found, Unmeasured):
        page.absent("engines", *_RESULTS, "hundred-times-slower", reason=found.reason)
        return
    verdict = _record_races(page, found, finished, machine)
    page.claim(
        "hundred-times-slower",
        statement="Your transformer is 100 times slower than PyTorch.",
        quote="why is your transformer 100x slower than PyTorch?",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_URL,
        verdict=verdict,
        evidence="One sequence through the GPT took {loops-over-eager} the time of PyTorch eager when written in "
        "loops, and {numpy-over-eager} on NumPy. NumPy itself is {loops-over-numpy} as fast as the loops. "
        "The test asks for 100 or more of the loops.",
    )


def _record_races(page: Page, found: Beside, finished: Mapping[str, Measurement], machine: Ceilings) -> Judgement:
    """Record what the races say; return the verdict on a hundred times."""
    page.table(
        "engines",
        [_row(found, key) for key in RACES],
        [Column("what", "What"), Column("ours", "Ours"), Column("which", "by"), *[Column(n, n) for n in found.others]],
        caption="The same models with the same weights on one core, each engine in a process of its own, in turns; "
        "results were checked to agree first. Of our ways the fastest is shown: NumPy, “accelerated” by kernels, or "
        "“fused”, which is a plan in a forward pass.",
    )
    for key, (of, phase, _) in RACES.items():
        theirs, ours = found.races[key].fastest(found.others), found.races[key].fastest(OURS)
        page.number(f"fastest-{key}", ratio(theirs, ours, f"time of {theirs.name} over ours, {of}, {phase}"))
    times = found.races["one"].times
    page.number(
        "numpy-over-eager",
        ratio(times["tinytorch"], times[EAGER], "time of NumPy over PyTorch eager, one sequence"),
    )
    # Both against NumPy, each in turns with it.
    eager = ratio(times[EAGER], times["tinytorch"])
    through = "time of loops over PyTorch eager, through NumPy"
    loops = quotient(ratio(finished["loops"], finished["NumPy"]), eager, through)
    page.number("loops-over-eager", loops)
    for key, called in (("eager", EAGER), ("ours", "tinytorch")):
        rate = found.product.times[called].per(_FLOPS, "FLOP/s")
        what = f"share of the peak that the product of {called} reaches, {_SHAPE}, with the bias"
        page.number(f"product-{key}", quotient(rate, machine.fp32_peak, what, "%"))
    return verdict_between(loops, low=100.0)


def _row(found: Beside, key: str) -> dict[str, str | Measurement | None]:
    ours = found.races[key].fastest(OURS)
    which = ours.name.removeprefix("tinytorch").strip() or "NumPy"
    theirs = {name: found.races[key].times.get(name) for name in found.others}
    return {"what": RACES[key][2], "ours": ours, "which": which, **theirs}
