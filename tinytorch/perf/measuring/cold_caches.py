"""Cold caches: more working sets than the last cache holds, taken in turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: A function that makes a working set, or the sets themselves.
WorkingSets = Callable[[], Any] | Sequence[Any]

#: The sets together are this many times as large as the cache, so that none survives a round of the others.
ROUNDS = 2
#: What a last cache is taken to hold where the system does not report it, as macOS and many virtual machines on Arm do
#: not: more than the largest that are likely there, 96 MB of Apple's M1 Ultra.
#: Source: https://eclecticlight.co/2024/03/06/apple-silicon-memory-and-internal-storage.
ASSUMED = 128 * 2**20


def last_level_cache() -> int | None:
    """Return the bytes of the largest cache of the last level, as the system reports them; None if it does not."""
    from tinytorch.perf.host.identity import caches  # loads the compiler, which most timings do not need

    known = caches()
    last = max((one.level for one in known), default=0)
    return max((one.size for one in known if one.level == last), default=None)


def exceeding_bytes() -> int:
    """Return how many bytes leave nothing else in the caches: `ROUNDS` times the last one, or `ASSUMED` if unknown."""
    return ROUNDS * (last_level_cache() or ASSUMED)


def bytes_of(working_set: Any) -> int:
    """Return the bytes of the arrays in ``working_set``: an array, or lists, tuples and mappings of them.

    Raises:
        TypeError: if something else is in it.
    """
    if isinstance(working_set, np.ndarray):
        return working_set.nbytes
    if isinstance(working_set, Mapping):
        return sum(bytes_of(item) for item in working_set.values())
    if isinstance(working_set, list | tuple):
        return sum(bytes_of(item) for item in working_set)
    raise TypeError(f"cold must hold arrays, in lists, tuples or mappings, not {type(working_set).__name__}")


@dataclass(frozen=True, slots=True)
class ColdSets:
    """Working sets that calls take in turns: all functions of a comparison one after the other from one round."""

    sets: tuple[Any, ...]
    cache_bytes: int | None
    _turns: itertools.cycle[Any]

    def bound(self, function: Callable[[Any], Any]) -> Callable[[], Any]:
        """Return ``function`` on the set whose turn it is."""
        turns = self._turns

        def call() -> Any:
            return function(next(turns))

        return call

    def described(self) -> dict[str, Any]:
        """Return what a measurement's ``how`` says of the caches; of the last one's size None where nobody knows it."""
        return {
            "caches": "cold",
            "working_set_bytes": bytes_of(self.sets[0]),
            "working_sets": len(self.sets),
            "last_level_cache_bytes": self.cache_bytes,
        }


def cold_sets(cold: WorkingSets) -> ColdSets:
    """Return working sets that together are at least twice the last cache, or twice `ASSUMED` if that is not known.

    Args:
        cold: a function that makes a working set, called as often as it takes; or the sets themselves.

    Raises:
        ValueError: if a set is empty, or the given sets are too small together.
        TypeError: if a set holds something else than arrays.
    """
    enough = exceeding_bytes()
    if callable(cold):
        made = [cold()]
        each = bytes_of(made[0])
        if each == 0:
            raise ValueError("cold must make working sets of at least one byte, but made an empty one")
        made += [cold() for _ in range(-(-enough // each) - 1)]
        if len(made) == 1:
            made.append(cold())
    else:
        made = list(cold)
    total = sum(bytes_of(item) for item in made)
    if len({id(item) for item in made}) < len(made):
        raise ValueError("cold must hold different working sets, but the same object is in it twice")
    known = last_level_cache()
    if len(made) < 2 or total < enough:
        cache = "the last cache" if known else "what a last cache may hold that the system does not report"
        raise ValueError(
            f"cold must hold at least two working sets of {enough} bytes together, twice {cache}, not {len(made)} of "
            f"{total}"
        )
    return ColdSets(tuple(made), known, itertools.cycle(made))
