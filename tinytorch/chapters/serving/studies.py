"""The experiments of the page on serving: calls of a batch, simulated servers, guesses, and memory."""

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
    """Seconds of steps by number of sequences and of prefills by number of tokens, all interleaved.

    ``whole`` is the time of the shortest prompt followed by steps of the largest batch, and ``parts`` the sum of the
    times of these calls. ``by_bytes`` is the largest `gain` that the bytes allow.
    """

    steps: Mapping[int, Measurement]
    prefills: Mapping[int, Measurement]
    whole: Measurement
    parts: Measurement
    by_bytes: Counted

    @property
    def gain(self) -> Measurement:
        """Tokens per second of the largest batch over those of the smallest."""
        (few, short), *_, (many, long) = self.steps.items()
        return ratio(short, long).scaled(many / few, name="tokens per second of the batch over those of one sequence")

    def simulated(
        self, run: Callable[[_Seconds, _Seconds], Mapping[str, float]], what: Mapping[str, tuple[str, str]]
    ) -> dict[str, Modelled]:
        """Return the results of ``run``, which receives the times of one round; ``what`` has their names and units.

        Results may depend only on ratios of times, so that another run differs by as much as such a ratio. A result
        in per cent is a share of all requests.
        """
        rounds = [run(_between(self.steps, at), _between(self.prefills, at)) for at in range(self.whole.n)]
        compared = replace(self.whole.conditions.rescaled(), between_runs=self.gain.conditions.between_runs)
        made = {}
        for name, (said, unit) in what.items():
            conditions = replace(compared, part_of="all requests" if unit == "%" else None)
            carried = Measurement(said, tuple(each[name] for each in rounds), unit, conditions)
            made[name] = Modelled.by("a server whose calls take the times that were measured", carried)
        return made


def call_times(model: GPT, batches: Sequence[int], prompts: Sequence[int], kept: int, answer: int) -> Times:
    """Return the times of steps of these batches, with ``kept`` tokens in each cache, and of these prefills."""
    caches, few, most, least = {n: KVCache.of(model, n) for n in batches}, batches[0], batches[-1], min(prompts)

    def read(batch: int, count: int, position: int) -> None:
        disable_kv_cache(model)
        enable_kv_cache(model, cache=caches[batch])
        stepping(model, caches[batch], np.zeros((batch, count), np.int64), position)()

    def whole() -> None:
        read(few, least, 0)
        for at in range(answer - 1):
            read(most, 1, kept + at)

    runs: dict[str, Callable[[], object]] = {f"{n} sequences": partial(read, n, 1, kept) for n in batches}
    runs |= {f"{n} tokens": partial(read, few, n, 0) for n in prompts}
    found = interleave(runs | {"whole": whole}, repeats=18, warmup_seconds=_WARMUP_SECONDS)
    disable_kv_cache(model)
    prompt, step = found[f"{least} tokens"], found[f"{most} sequences"]
    told = tuple(a + (answer - 1) * b for a, b in zip(prompt.samples, step.samples, strict=True))
    alone, together = (step_bytes(model, caches[n], kept).value / n for n in (few, most))
    return Times(
        {n: found[f"{n} sequences"] for n in batches},
        {n: found[f"{n} tokens"] for n in prompts},
        found["whole"],
        replace(step, name="the sum of its calls", samples=told),
        Counted(alone / together, "", "tokens of a step over its bytes"),
    )


def _between(times: Mapping[int, Measurement], at: int) -> _Seconds:
    """Return the seconds of a round by size, straight between those that were timed."""
    sizes, seconds = list(times), [each.samples[at] for each in times.values()]
    return cache(lambda size: float(np.interp(size, sizes, seconds)))


def continuous_gain(times: Times, slots: int) -> Modelled:
    """Return how many times as fast a continuous server answers a queue of requests as a static one."""

    def run(step: _Seconds, _prefill: _Seconds) -> dict[str, float]:
        queues = {static: even_answers(60 * slots, 64, 1) for static in (True, False)}
        took = {static: Server(step, lambda _: 0.0, slots, static).serve(given) for static, given in queues.items()}
        return {"gain": took[True] / took[False]}

    return times.simulated(run, {"gain": ("time of static batches over that of continuous ones", "")})["gain"]


def longest_gaps(times: Times, slots: int, chunk: int) -> dict[str, Modelled]:
    """Return by what factors chunks shorten the longest gap between two tokens, and lengthen the time to first token.

    "told" is the factor of the "gap" if a prefill takes as long as its chunks, and "over" the quotient of the two.
    """
    longest = max(times.prefills)

    def waits(step: _Seconds, prefill: _Seconds, piece: int | None) -> tuple[float, float]:
        *others, writing = even_answers(slots - 1, 64, 1)
        writing.answer = 64
        comes = Request(slots * prefill(1) + 8 * step(slots), longest, 8)  # after the prompts of the others
        Server(step, prefill, slots, chunk=piece).serve([*others, writing, comes])
        return writing.gap, comes.ttft

    def run(step: _Seconds, prefill: _Seconds) -> dict[str, float]:
        (whole, soon), (pieces, late) = waits(step, prefill, None), waits(step, prefill, chunk)
        told = (step(slots) + longest / chunk * prefill(chunk)) / (step(slots) + prefill(chunk))
        return {"told": told, "gap": whole / pieces, "over": whole / pieces / told, "price": late / soon}

    what = {
        "told": ("longest gap between tokens without chunks over that with chunks, from the time of a chunk", ""),
        "gap": ("longest gap between tokens without chunks over that with chunks", ""),
        "over": ("that factor over the one from the time of a chunk", ""),
        "price": ("time to first token with chunks over that without", ""),
    }
    return times.simulated(run, what)


def waits_by_load(
    times: Times, slots: int, loads: Sequence[float], ttft: float, tpot: float, count: int = 600
) -> dict[float, dict[str, Counted | Modelled]]:
    """Return, by load, the latency of so many requests that arrive at random, with prompts and answers of 32 tokens.

    For each load: "told" and "took", the mean latency over that of a request alone, as predicted and as simulated,
    and their quotient "over"; the 99th percentiles of "ttft" and "tpot", over the time per output token at capacity;
    and "good", the load times the share of requests within the limits ``ttft`` and ``tpot``.

    The prediction adds two delays. By Little's law a request that arrives finds as many others as arrive in the time
    that it takes. Beyond capacity the queue grows by the same number of requests per second until the last arrival.
    """
    prompt = answer = 32

    def per_token(batch: float, step: _Seconds, prefill: _Seconds) -> float:
        return step(batch) + batch * prefill(prompt) / (answer - 1)

    def run(load: float, step: _Seconds, prefill: _Seconds) -> dict[str, float]:
        alone, full = per_token(1, step, prefill), per_token(slots, step, prefill)
        others = 0.0
        for _ in range(300):  # from below towards the least batch that asks for as much as it writes
            others = load * slots / full * per_token(min(slots, others + 1), step, prefill)
        queue = max(0.0, 1 - 1 / load) * count / 2 * full / slots  # mean wait, for each token of an answer
        given = at_random(count, count * (answer - 1) * full / slots / load, prompt, answer)
        Server(step, prefill, slots).serve(given)
        firsts, tokens = (np.array([getattr(one, name) for one in given]) / full for name in ("ttft", "tpot"))
        kept = float(np.mean((firsts <= ttft) & (tokens <= tpot)))
        told = (per_token(min(slots, others + 1), step, prefill) + queue) / alone
        took = float(np.mean([one.latency for one in given])) / ((answer - 1) * alone)
        return {
            "told": told,
            "took": took,
            "over": took / told,
            "ttft": float(np.quantile(firsts, 0.99)),
            "tpot": float(np.quantile(tokens, 0.99)),
            "good": load * kept,
        }

    what = {
        "told": ("latency over that of a request alone, predicted", ""),
        "took": ("latency over that of a request alone, simulated", ""),
        "over": ("simulated latency over the predicted one", ""),
        "ttft": ("99th percentile of the time to first token, over the time per output token at capacity", ""),
        "tpot": ("99th percentile of the time per output token, over that at capacity", ""),
        "good": ("requests that meet both limits, as a share of the capacity", "%"),
    }
    share = "share of the capacity"
    return {load: {"load": Counted(load, "1", share), **times.simulated(partial(run, load), what)} for load in loads}


def products_of(model: GPT, rows: Sequence[int], repeats: int = 18) -> dict[str, Measurement]:
    """Return the times of the products of all linear layers with so many rows, interleaved, such as "NumPy, 2".

    The other way, "panels", is a kernel for which the weights were packed into panels beforehand.
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


def served(models: Mapping[str, Published], positions: int) -> dict[str, dict[str, Modelled]]:
    """Return how many requests of so many positions fit on a B200 next to each model's weights, and their rate."""
    found = {}
    for name, model in models.items():
        cache = positions * model.position
        slots = (_USED * _MEMORY - model.weights) // cache
        rate = slots * _BANDWIDTH / (model.weights + slots * cache)
        found[name] = {
            "position": Modelled(model.position, "B", "bytes of the keys and values of a position", "arithmetic"),
            "slots": Modelled(slots, "requests", "requests that fit next to the weights", "arithmetic"),
            "rate": Modelled(rate, "tokens/s", "tokens of all requests", "the bytes, at the bandwidth"),
        }
    return found


def guess_repeats(model: GPT, prompts: Tokens, new_tokens: int, guesses: int) -> dict[str, Any]:
    """Return the result of speculative decoding that guesses that the last token is repeated, in greedy generation.

    A call reads the last token and the guesses. Guesses are accepted up to the first that differs from the model's
    token, which is then taken instead. Returned are: whether the sequences are the "same" as without guesses; the
    "tokens" per call; the share of calls whose first guess was "right"; the share of these whose "second" guess was
    right, too; whether the second share is smaller ("falls"); and the tokens per call that are "predicted" if each
    guess is right as often as the first.
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
        "tokens": Counted(written / calls, "tokens", "tokens written per call"),
        "right": Counted(share, "%", "first guesses that were right"),
        "second": Counted(second / max(right, 1), "%", "second guesses that were right, after a right first"),
        "falls": second < share * right,
        "predicted": Counted(mean, "tokens", "tokens per call if each guess is right as often as the first"),
    }
