"""What the page on serving counts or works out: what fits into memory, and what a guess is worth."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinytorch.chapters.memoization.counts import Published
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, quotient
from tinytorch.perf.memoization import empty_cache, generate
from tinytorch.perf.memoization.generation import Tokens
from tinytorch.perf.roofline.bounds import best_bandwidth

#: Bytes, B/s and FLOP/s in sixteen bits of a B200 (Austin et al., 2025), and the share of its memory that vLLM uses.
_MEMORY, _BANDWIDTH, _PEAK, _USED = 192e9, 8e12, 2.25e15, 0.92


def ridge_rows(machine: Ceilings) -> Measurement:
    """Return how many rows of a product take as long in arithmetic as reading their float32 weights from memory."""
    what = "rows at which arithmetic takes as long as reading float32 weights"
    return quotient(machine.fp32_peak, best_bandwidth(machine.levels[-1]), what).scaled(2, "rows")


@dataclass(frozen=True)
class Served:
    """A model on a B200: its weights, a position of its cache, texts of two lengths that fit, and what the short write.

    ``rate`` is what all short texts that fit write together, in tokens per second.
    """

    weights: Modelled
    position: Modelled
    short: Modelled
    long: Modelled
    rate: Modelled


def served(models: Mapping[str, Published], short: int, long: int) -> dict[str, Served]:
    """Return what fits into a B200 beside each model's weights, with texts of two lengths, and what the short write."""
    found = {}
    for name, model in models.items():
        room = _USED * _MEMORY - model.weights
        fit = {length: room // (length * model.position) for length in (short, long)}
        seconds = (model.weights + fit[short] * short * model.position) / _BANDWIDTH
        found[name] = Served(
            Modelled(model.weights / 1e9, "GB", "bytes of the weights", "arithmetic"),
            Modelled(model.position, "B", "bytes of a position's keys and values", "arithmetic"),
            Modelled(fit[short], "texts", "texts that fit beside the weights", "arithmetic"),
            Modelled(fit[long], "texts", "texts that fit beside the weights", "arithmetic"),
            Modelled(fit[short] / seconds, "tokens/s", "tokens of all texts", "the bytes, at the quoted bandwidth"),
        )
    return found


def quoted_ridge() -> Modelled:
    """Return how many rows a product of a B200 takes as long in arithmetic as for its weights, of two bytes each."""
    what = "rows at which arithmetic takes as long as reading weights of sixteen bits"
    return Modelled(_PEAK / _BANDWIDTH, "rows", what, "the quoted peak and bandwidth")


def texts_that_fit(longest: int, positions: int, count: int) -> Counted:
    """Return how many of ``count`` texts of all lengths up to the longest fit into the memory of a tenth as many slabs.

    A slab has room for the longest text; the texts lie in pages that hold ``positions`` each.
    """
    lengths = np.random.default_rng(0).integers(1, longest + 1, count)
    held = -(-lengths // positions) * positions
    paged = int(np.searchsorted(held.cumsum(), count // 10 * longest, side="right"))
    return Counted(paged, "texts", "texts that fit in pages")


@dataclass(frozen=True)
class Guessed:
    """Texts that were written with guesses: whether they are the same, tokens of a call, and the share of right ones.

    ``second`` is how often the second was right behind a right first, and ``predicted`` are the tokens of a call if
    each guess is right as often as the first of a call was.
    """

    same: bool
    tokens: Counted
    right: Counted
    second: Counted
    predicted: Counted


def guess_repeats(model: GPT, prompts: Tokens, new_tokens: int, guesses: int) -> Guessed:
    """Return what is gained on greedy texts where each guess is that the last token comes again.

    A call reads the last token and the guesses; those count that are what the model writes, and then its own token.
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
    return Guessed(
        same,
        Counted(written / calls, "tokens", "tokens written by a call"),
        Counted(share, "%", "first guesses that were right"),
        Counted(second / right if right else 0.0, "%", "second guesses that were right, behind a right first"),
        Counted(mean, "tokens", "tokens of a call if each guess is right as often as the first"),
    )
