"""What the page on serving times, simulates and counts: calls of many texts, servers, guesses, and what fits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from tinytorch.chapters.memoization.counts import Published
from tinytorch.chapters.memoization.studies import step_bytes, stepping
from tinytorch.chapters.serving.server import Request, Server, at_random, even_answers
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.transformers import GPT
from tinytorch.perf.kernels.gemm.packed_matmul import packed_product
from tinytorch.perf.kernels.gemm.packing import pack
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, interleave, quotient, ratio
from tinytorch.perf.memoization import KVCache, disable_kv_cache, empty_cache, enable_kv_cache, generate
from tinytorch.perf.memoization.generation import Tokens
from tinytorch.perf.roofline.bounds import best_bandwidth

_WARMUP_SECONDS = 0.1
#: Bytes and B/s of a B200 (Austin et al., 2025), and the share of its memory that vLLM uses.
_MEMORY, _BANDWIDTH, _USED = 192e9, 8e12, 0.92
#: Seconds by size, of a step or of a prefill.
_Seconds = Callable[[float], float]


@dataclass(frozen=True)
class Times:
    """Seconds of steps by number of texts and of prefills by number of tokens, all taken in turns.

    ``whole`` is the shortest prompt with the steps of most texts behind it, as they ran, and ``parts`` the sum of these
    calls. ``by_bytes`` is what the bytes allow as `gain`.
    """

    steps: Mapping[int, Measurement]
    prefills: Mapping[int, Measurement]
    whole: Measurement
    parts: Measurement
    by_bytes: Counted

    @property
    def gain(self) -> Measurement:
        """Tokens per second of the most texts over those of the fewest."""
        (few, short), *_, (many, long) = self.steps.items()
        return ratio(short, long).scaled(many / few, name="tokens per second of the most texts over those of one")

    def simulated(
        self, run: Callable[[_Seconds, _Seconds], Mapping[str, float]], what: Mapping[str, tuple[str, str]]
    ) -> dict[str, Modelled]:
        """Return what ``run`` makes of step and prefill, once for each round; ``what`` says each result and its unit.

        It may depend on how the times of calls compare only, so that another run differs by as much as such a ratio.
        What is in per cent is a share of all texts.
        """
        rounds = [run(_between(self.steps, at), _between(self.prefills, at)) for at in range(self.whole.n)]
        compared = replace(self.whole.conditions.rescaled(), between_runs=self.gain.conditions.between_runs)
        made = {}
        for name, (said, unit) in what.items():
            conditions = replace(compared, part_of="all texts" if unit == "%" else None)
            carried = Measurement(said, tuple(each[name] for each in rounds), unit, conditions)
            made[name] = Modelled.by("a server whose calls take what was measured of them", carried)
        return made


def call_times(model: GPT, rows: Sequence[int], prompts: Sequence[int], kept: int, answer: int) -> Times:
    """Return the times of steps of so many texts, each ``kept`` tokens long, and of prompts of so many tokens."""
    caches, few, most, least = {n: KVCache.of(model, n) for n in rows}, rows[0], rows[-1], min(prompts)

    def read(texts: int, count: int, position: int) -> None:
        disable_kv_cache(model)
        enable_kv_cache(model, cache=caches[texts])
        stepping(model, caches[texts], np.zeros((texts, count), np.int64), position)()

    def whole() -> None:
        read(few, least, 0)
        for at in range(answer - 1):
            read(most, 1, kept + at)

    runs: dict[str, Callable[[], object]] = {f"{n} texts": partial(read, n, 1, kept) for n in rows}
    runs |= {f"{n} tokens": partial(read, few, n, 0) for n in prompts}
    found = interleave(runs | {"whole": whole}, repeats=18, warmup_seconds=_WARMUP_SECONDS)
    disable_kv_cache(model)
    prompt, step = found[f"{least} tokens"], found[f"{most} texts"]
    told = tuple(a + (answer - 1) * b for a, b in zip(prompt.samples, step.samples, strict=True))
    alone, together = (step_bytes(model, caches[n], kept).value / n for n in (few, most))
    return Times(
        {n: found[f"{n} texts"] for n in rows},
        {n: found[f"{n} tokens"] for n in prompts},
        found["whole"],
        replace(step, name="the sum of its calls", samples=told),
        Counted(alone / together, "", "tokens of a step over its bytes"),
    )


def _between(times: Mapping[int, Measurement], at: int) -> _Seconds:
    """Return the seconds of a round by size, straight between those that were timed."""
    sizes, seconds = list(times), [each.samples[at] for each in times.values()]
    return cache(lambda size: float(np.interp(size, sizes, seconds)))


def continuous_gain(times: Times, rows: int) -> Modelled:
    """Return the time of a static server for one crowd of texts over that of a continuous one."""

    def run(step: _Seconds, _prefill: _Seconds) -> dict[str, float]:
        texts = {static: even_answers(60 * rows, 64, 1) for static in (True, False)}
        took = {static: Server(step, lambda _: 0.0, rows, static).serve(given) for static, given in texts.items()}
        return {"gain": took[True] / took[False]}

    return times.simulated(run, {"gain": ("time of static batches over that of continuous ones", "")})["gain"]


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
    return times.simulated(run, what)


def waits_by_load(
    times: Times, rows: int, loads: Sequence[float], first: float, token: float, count: int = 300
) -> dict[float, dict[str, Counted | Modelled]]:
    """Return, by load, what so many texts wait for that come by themselves, each with a prompt and an answer of 32.

    The load is the share of the most texts in a time that a full server reads and writes. A full round is a step of all
    rows with the prompts that fall to it. Of each load: "told" and "took", the mean time of a text over that of one
    alone, by Little's law and on the server; the 99th percentiles of what texts wait for their "first" token and for
    each further "token", over a full round; and "good", the share of the texts within both limits, times the load.
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
        kept = float(np.mean((firsts <= first) & (tokens <= token)))
        return {
            "told": round_of(mean, step, prefill) / alone,
            "took": float(np.mean([one.took for one in given])) / ((answer - 1) * alone),
            "first": float(np.quantile(firsts, 0.99)),
            "token": float(np.quantile(tokens, 0.99)),
            "good": load * kept,
        }

    what = {
        "told": ("time to the last token over that of a text alone, by Little's law", ""),
        "took": ("time to the last token over that of a text alone", ""),
        "first": ("99th percentile of the time to the first token, over a full round", ""),
        "token": ("99th percentile of the time for a token, over a full round", ""),
        "good": ("texts that meet both limits, as a share of what a full server writes", "%"),
    }
    share = "share of what a full server writes"
    return {load: {"load": Counted(load, "1", share), **times.simulated(partial(run, load), what)} for load in loads}


def products_of(model: GPT, rows: Sequence[int], repeats: int = 18) -> dict[str, Measurement]:
    """Return the time of products of all linear layers' weights with so many rows, in turns, such as "NumPy, 2".

    The other way, "panels", is a kernel whose panels of the weights were made before.
    """
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
    runs = {f"{name}, {count}": partial(way, count) for name, way in ways.items() for count in rows}
    return interleave(runs, repeats=repeats, warmup_seconds=_WARMUP_SECONDS)


def ridge_rows(machine: Ceilings) -> Measurement:
    """Return how many rows of a product take as long in arithmetic as reading their float32 weights from memory."""
    what = "rows at which arithmetic takes as long as reading float32 weights"
    return quotient(machine.fp32_peak, best_bandwidth(machine.levels[-1]), what).scaled(2, "rows")


def served(models: Mapping[str, Published], short: int, long: int) -> dict[str, dict[str, Modelled]]:
    """Return what fits into a B200 beside each model's weights: texts of two lengths, and what the short ones write."""
    found = {}
    for name, model in models.items():
        room = _USED * _MEMORY - model.weights
        fit = {length: room // (length * model.position) for length in (short, long)}
        seconds = (model.weights + fit[short] * short * model.position) / _BANDWIDTH
        found[name] = {
            "position": Modelled(model.position, "B", "bytes of a position's keys and values", "arithmetic"),
            "short": Modelled(fit[short], "texts", "texts that fit beside the weights", "arithmetic"),
            "long": Modelled(fit[long], "texts", "texts that fit beside the weights", "arithmetic"),
            "rate": Modelled(fit[short] / seconds, "tokens/s", "tokens of all texts", "the bytes, at the bandwidth"),
        }
    return found


def guess_repeats(model: GPT, prompts: Tokens, new_tokens: int, guesses: int) -> dict[str, Any]:
    """Return what is gained on greedy texts where each guess is that the last token comes again.

    A call reads the last token and the guesses; those count that are what the model writes, and then its own token.
    Returned are whether the texts are the "same" as without guesses, the "tokens" of a call, the shares of "right"
    first guesses and of right ones that are "second" behind them, whether that share "falls", and the tokens that are
    "predicted" if each guess is right as often as the first.
    """
    calls = written = right = second = 0
    same = True
    for prompt in prompts:
        plain = generate(model, prompt[None], new_tokens)[0]
        with empty_cache(model, 1) as cache, no_grad():
            text = list(prompt)
            text.append(int(model(prompt[None], last=True).data[0, -1].argmax()))
            while len(text) < len(plain):
                cache.stand_at(len(text) - 1)
                tried = [text[-1]] * min(guesses, len(plain) - len(text) - 1)
                said = model(np.array([[text[-1], *tried]])).data[0].argmax(axis=-1)
                kept = next((at for at, guess in enumerate(tried) if said[at] != guess), len(tried))
                if len(tried) == guesses:
                    calls, written = calls + 1, written + kept + 1
                    right, second = right + (kept > 0), second + (kept > 1)
                text += [int(token) for token in said[: kept + 1]]
        same = same and text == plain.tolist()
    share = right / calls
    mean = sum(share**at for at in range(guesses + 1))
    return {
        "same": same,
        "tokens": Counted(written / calls, "tokens", "tokens written by a call"),
        "right": Counted(share, "%", "first guesses that were right"),
        "second": Counted(second / max(right, 1), "%", "second guesses that were right, behind a right first"),
        "falls": second < share * right,
        "predicted": Counted(mean, "tokens", "tokens of a call if each guess is right as often as the first"),
    }
