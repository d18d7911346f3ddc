"""Our models beside other engines, where the build has any."""

from collections.abc import Mapping
from dataclasses import dataclass

from tinytorch.perf.engines.presence import available, missing
from tinytorch.perf.engines.protocol import ENGINES, OURS, Phase
from tinytorch.perf.engines.turns import Raced, race, runners
from tinytorch.perf.measuring import Measurement, Unmeasured, quotient, ratio

EAGER = "PyTorch eager"
_FORWARD = [name for name, each in ENGINES.items() if "forward" in each.phases]


@dataclass(frozen=True)
class Side:
    """A race: the fastest of our ways, the others or None where one cannot do it, and the fastest of them over ours."""

    ours: Measurement
    way: str
    others: Mapping[str, Measurement | Unmeasured | None]
    over_ours: Measurement


@dataclass(frozen=True)
class Beside:
    """Races with other engines on one core: by what ran, of one sequence, and of the largest product of a block."""

    sides: Mapping[str, Side]
    numpy_over_eager: Measurement
    loops_over_eager: Measurement
    product_over_eager: Measurement


def race_engines(cases: Mapping[str, tuple[str, Phase]], passes: Mapping[str, Measurement]) -> Beside | Unmeasured:
    """Return the races with all engines that are here, or why there are none where PyTorch is not.

    ``cases`` are subject and phase of each race, a forward pass of "gpt-1" among them, of which ``passes`` are the
    seconds by "loops" and by "NumPy", in turns.
    """
    if (lacks := missing(EAGER)) is not None:
        return lacks
    with runners([name for name in available() if name in _FORWARD], 1) as started:
        product = race(started, "product-512", "forward", cores=1, rounds=7).times
        races = {name: race(started, of, phase, cores=1, rounds=7) for name, (of, phase) in cases.items()}
    one = next(each.times for each in races.values() if each.subject == "gpt-1")
    # Both against NumPy, each in turns with it.
    loops, eager = ratio(passes["loops"], passes["NumPy"]), ratio(one[EAGER], one["tinytorch"])

    return Beside(
        {name: _side(each) for name, each in races.items()},
        ratio(one["tinytorch"], one[EAGER], "time of NumPy over PyTorch eager, one sequence"),
        quotient(loops, eager, "time of loops over PyTorch eager, through NumPy"),
        ratio(product["tinytorch"], product[EAGER], "time of NumPy's product over that of PyTorch eager"),
    )


def _side(found: Raced) -> Side:
    names = [name for name in _FORWARD if name not in OURS]
    ours, theirs = found.fastest(OURS), found.fastest(names)
    return Side(
        ours,
        ours.name.removeprefix("tinytorch").strip() or "NumPy",
        {name: found.times.get(name, missing(name)) for name in names},
        ratio(theirs, ours, f"time of {theirs.name} over ours, {found.subject}, {found.phase}"),
    )
