"""What the page on serving times: steps of many texts, prompts in pieces and in part; and servers that follow them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from tinytorch.chapters.memoization.studies import step_bytes, stepping
from tinytorch.chapters.serving.server import Request, Server, at_random, even_answers
from tinytorch.core.layers import Linear
from tinytorch.core.transformers import GPT
from tinytorch.perf.kernels.gemm.packed_matmul import packed_product
from tinytorch.perf.kernels.gemm.packing import pack
from tinytorch.perf.measuring import Counted, Measurement, Modelled, interleave, quotient, ratio
from tinytorch.perf.memoization import KVCache, disable_kv_cache, enable_kv_cache

_WARMUP_SECONDS = 0.1
#: Seconds by size, of a step or of a prefill.
_Seconds = Callable[[float], float]
_BY_TIMES = "a server whose calls take what was measured of them"


class Times:
    """Seconds of steps by number of texts and of prefills by number of tokens, taken in turns, and of one whole batch.

    ``whole`` is a prefill of all rows' prompts and the steps behind it, as they ran; ``told`` the same by the parts.
    """

    def __init__(self, model: GPT, rows: Sequence[int], prompts: Sequence[int], kept: int, answer: int) -> None:
        most, least, piece = rows[-1], min(prompts), {n: np.zeros((1, n), np.int64) for n in prompts}
        caches = {count: KVCache.of(model, count) for count in rows}
        served = {count: _Served(model, cache) for count, cache in caches.items()}
        runs: dict[str, Callable[[], object]] = {
            **{f"{count} texts": partial(served[count].read, 1, kept) for count in rows},
            **{f"{n} tokens": partial(served[rows[0]].read, n, 0) for n in piece},
            "a prompt of each": partial(served[most].read, least, kept),
            "whole": partial(served[most].write, least, answer, kept),
        }
        found = interleave(runs, repeats=12, warmup_seconds=_WARMUP_SECONDS)
        disable_kv_cache(model)
        self.steps = {count: found[f"{count} texts"] for count in rows}
        self.prefills = {n: found[f"{n} tokens"] for n in prompts}
        self.whole = found["whole"]
        first, step = found["a prompt of each"], self.steps[most]
        told = [a + (answer - 1) * b for a, b in zip(first.samples, step.samples, strict=True)]
        self.told = Measurement("a batch by its parts", tuple(told), "s", step.conditions)
        weights, kept_bytes = step_bytes(model, caches[most], kept)
        bytes_of = [weights + count * kept_bytes for count in (rows[0], most)]
        self.by_bytes = Counted(most / rows[0] * bytes_of[0] / bytes_of[1], "", "tokens of a step over its bytes")

    @property
    def gain(self) -> Measurement:
        """Tokens per second of the most texts over those of the fewest."""
        rates = [*self.rates.values()]
        return ratio(rates[-1], rates[0], "tokens per second of the most texts over those of one")

    @property
    def check(self) -> Measurement:
        """Seconds of a whole batch as it ran over those by its parts, of which simulated servers are made."""
        return quotient(self.whole, self.told, "a whole batch over the sum of its calls")

    @property
    def rates(self) -> dict[int, Measurement]:
        """Tokens per second by number of texts."""
        return {count: step.per(count, "tokens/s") for count, step in self.steps.items()}

    def simulated(self, run: Callable[[_Seconds, _Seconds], float], what: str) -> Modelled:
        """Return what ``run`` makes of step and prefill, once for each round that was timed."""
        return self.all_simulated(lambda *given: {"": run(*given)}, {"": (what, "")})[""]

    def all_simulated(
        self, run: Callable[[_Seconds, _Seconds], Mapping[str, float]], what: Mapping[str, tuple[str, str]]
    ) -> dict[str, Modelled]:
        """Return all that ``run`` makes of them by name, of which ``what`` tells what it is and its unit.

        It may depend on how the times of calls compare only, so that another run differs by as much as such a ratio.
        What is in per cent is a share of all texts.
        """
        rounds = [run(_between(self.steps, at), _between(self.prefills, at)) for at in range(self.whole.n)]
        compared = replace(self.whole.conditions.rescaled(), between_runs=self.gain.conditions.between_runs)
        made = {}
        for name, (said, unit) in what.items():
            conditions = replace(compared, part_of="all texts" if unit == "%" else None)
            carried = Measurement(said, tuple(each[name] for each in rounds), unit, conditions)
            made[name] = Modelled.by(_BY_TIMES, carried)
        return made


class _Served:
    """A model that changes to a cache for its calls."""

    def __init__(self, model: GPT, cache: KVCache) -> None:
        self.model, self.cache = model, cache

    def read(self, count: int, position: int) -> None:
        """Read so many tokens of each text at a position."""
        disable_kv_cache(self.model)
        enable_kv_cache(self.model, cache=self.cache)
        stepping(self.model, self.cache, np.zeros((self.cache.batch_size, count), np.int64), position)()

    def write(self, prompt: int, answer: int, position: int) -> None:
        """Read a prompt of each text at a position and write its answer."""
        self.read(prompt, position)
        for at in range(answer - 1):
            stepping(self.model, self.cache, np.zeros((self.cache.batch_size, 1), np.int64), position + prompt + at)()


def _between(times: Mapping[int, Measurement], at: int) -> _Seconds:
    """Return the seconds of a round by size, straight between those that were timed."""
    sizes, seconds = list(times), [each.samples[at] for each in times.values()]
    return cache(lambda size: float(np.interp(size, sizes, seconds)))


def continuous_gain(times: Times, rows: int) -> Modelled:
    """Return the time of a static server for one crowd of texts over that of a continuous one."""

    def run(step: _Seconds, _prefill: _Seconds) -> float:
        texts = {static: even_answers(60 * rows, 64, 1) for static in (True, False)}
        took = {static: Server(step, lambda _: 0.0, rows, static).serve(given) for static, given in texts.items()}
        return took[True] / took[False]

    return times.simulated(run, "time of static batches over that of continuous ones")


def longest_gaps(times: Times, rows: int, chunk: int) -> dict[str, Modelled]:
    """Return by how much prompts in pieces shorten the longest wait for a token, and lengthen that for a first one."""
    longest = max(times.prefills)

    def waits(step: _Seconds, prefill: _Seconds, piece: int | None) -> tuple[float, float]:
        *others, writing = even_answers(rows - 1, 64, 1)
        writing.answer = 64
        comes = Request(8 * step(rows), longest, 8)
        Server(step, prefill, rows, chunk=piece).serve([*others, writing, comes])
        return writing.gap, comes.first

    def run(step: _Seconds, prefill: _Seconds) -> dict[str, float]:
        (whole, soon), (pieces, late) = waits(step, prefill, None), waits(step, prefill, chunk)
        return {"gap": whole / pieces, "price": late / soon}

    what = {
        "gap": ("longest wait for a token with whole prompts over that in pieces", ""),
        "price": ("wait for the first token of a prompt in pieces over that of the whole", ""),
    }
    return times.all_simulated(run, what)


@dataclass(frozen=True)
class Limits:
    """What a text may wait for its first token, and for each further one, in full rounds."""

    first: float
    token: float


@dataclass(frozen=True)
class Wait:
    """Texts at a load: their mean time over that of one alone, by Little's law, ``told``, and as a server ``took``.

    Of a hundred one waits longer than ``first`` for its first token and than ``token`` for each further one, both over
    a full round; ``kept`` is the share within the limits of both, and ``good`` that share of the load.
    """

    load: Counted
    told: Modelled
    took: Modelled
    first: Modelled
    token: Modelled
    kept: Modelled
    good: Modelled


def waits_by_load(
    times: Times, rows: int, loads: Sequence[float], limits: Limits, count: int = 300
) -> dict[float, Wait]:
    """Return, by load, what so many texts wait for that come by themselves, each with a prompt and an answer of 32.

    The load is the share of the most texts in a time that a full server reads and writes. A full round is a step of all
    rows with the prompts that fall to it.
    """
    prompt = answer = 32

    def round_of(size: float, step: _Seconds, prefill: _Seconds) -> float:
        return step(size) + size * prefill(prompt) / (answer - 1)

    def run(load: float, step: _Seconds, prefill: _Seconds) -> dict[str, float]:
        alone, full = round_of(1, step, prefill), round_of(rows, step, prefill)
        mean = 1.0
        for _ in range(300):  # from below towards the least batch that asks for as much as it writes
            mean = min(float(rows), max(1.0, load * rows / full * round_of(mean, step, prefill)))
        given = at_random(count, (answer - 1) * full / rows / load, prompt, answer)
        Server(step, prefill, rows).serve(given)
        firsts, tokens = (np.array([getattr(one, name) for one in given]) / full for name in ("first", "token"))
        kept = float(np.mean((firsts <= limits.first) & (tokens <= limits.token)))
        return {
            "told": round_of(mean, step, prefill) / alone,
            "took": float(np.mean([one.took for one in given])) / ((answer - 1) * alone),
            "first": float(np.quantile(firsts, 0.99)),
            "token": float(np.quantile(tokens, 0.99)),
            "kept": kept,
            "good": load * kept,
        }

    what = {
        "told": ("time to the last token over that of a text alone, by Little's law", ""),
        "took": ("time to the last token over that of a text alone", ""),
        "first": ("99th percentile of the time to the first token, over a full round", ""),
        "token": ("99th percentile of the time for a token, over a full round", ""),
        "kept": ("share of the texts that meet both limits", "%"),
        "good": ("texts that meet both limits, as a share of what a full server writes", "%"),
    }
    share = "share of what a full server writes"
    return {load: Wait(Counted(load, "1", share), **times.all_simulated(partial(run, load), what)) for load in loads}


def reused_prompt(model: GPT, kept: int, new: int) -> dict[str, Measurement]:
    """Return, in turns, a "whole" prompt, and its "rest" where some is "kept"."""
    cache, total = enable_kv_cache(model), kept + new
    tokens = np.zeros((1, total), np.int64)
    read = {"whole": (0, total), "rest": (kept, new)}
    steps = {name: stepping(model, cache, tokens[:, :count], position) for name, (position, count) in read.items()}
    times = interleave(steps, resolve=0.1, at_most_seconds=3.0, warmup_seconds=_WARMUP_SECONDS)
    disable_kv_cache(model)
    return times


@dataclass(frozen=True)
class Products:
    """Products of so many rows with all weights: by NumPy, and by a kernel whose panels were made before."""

    rows: int
    numpy: Measurement
    panels: Measurement


def products_of(model: GPT, rows: Sequence[int], repeats: int = 18) -> dict[int, Products]:
    """Return products of so many rows with all weights of linear layers, all in turns."""
    weights = [one.weight.data for _, one in model.named_modules() if isinstance(one, Linear)]
    panels = [pack(weight) for weight in weights]
    given = {(len(each), count): np.ones((count, len(each)), np.float32) for each in weights for count in rows}

    def by_numpy(count: int) -> None:
        for weight in weights:
            np.matmul(given[len(weight), count], weight)

    def by_panels(count: int) -> None:
        for weight, panel in zip(weights, panels, strict=True):
            packed_product(given[len(weight), count], panel, weight.shape[1])

    ways = {"NumPy": by_numpy, "panels": by_panels}
    runs = {f"{name}, {count} rows": partial(way, count) for name, way in ways.items() for count in rows}
    times = interleave(runs, repeats=repeats, warmup_seconds=_WARMUP_SECONDS)
    return {count: Products(count, *(times[f"{name}, {count} rows"] for name in ways)) for count in rows}


def guess_gain(products: Mapping[int, Products], guesses: int, right: float) -> Modelled:
    """Return what guesses gain that are free and each as often ``right``, in a call that is nothing but products.

    One row is multiplied by NumPy, and the guesses behind it by panels, whichever serves each best.
    """
    written = sum(right**count for count in range(guesses + 1))
    what = f"time of one row over that of {guesses + 1}, times {written:.3g} tokens; guesses are free"
    gain = ratio(products[1].numpy, products[guesses + 1].panels).scaled(written, "", what)
    return Modelled.by("guesses that are right each as often, and free", gain)
