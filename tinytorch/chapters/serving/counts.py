"""What the page on serving counts or works out: what fits into memory, and what a guess is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, quotient
from tinytorch.perf.memoization import empty_cache, generate
from tinytorch.perf.memoization.generation import Tokens
from tinytorch.perf.roofline.bounds import best_bandwidth

#: Bytes of a position in OPT-13B's cache: keys and values of 40 layers, 40 heads of 128, in numbers of two bytes; bytes
#: of its weights, and positions of its longest text (W. Kwon et al., 2023).
_OPT_POSITION, _OPT_WEIGHTS, _OPT_LENGTH = 2 * 40 * 40 * 128 * 2, 2 * 13e9, 2048
#: B/s of the A100's memory of 40 GB (NVIDIA, 2020).
_A100, _BY_SHEET = 1555e9, "the bytes, at the bandwidth of the data sheet"


def ridge_rows(machine: Ceilings) -> Measurement:
    """Return how many rows of a product take as long in arithmetic as reading their float32 weights from memory."""
    what = "rows at which arithmetic takes as long as reading float32 weights"
    return quotient(machine.fp32_peak, best_bandwidth(machine.levels[-1]), what).scaled(2, "rows")


@dataclass(frozen=True)
class Served:
    """OPT-13B on an A100: caches of 512 and of 2,048 positions, the latter with weights, their step and its rate."""

    short: Modelled
    long: Modelled
    all: Modelled
    step: Modelled
    rate: Modelled


def served_opt(texts: Mapping[str, tuple[int, int]]) -> dict[str, Served]:
    """Return what OPT-13B takes by the number of texts that are written together, and of heads that share a key."""
    found = {}
    for name, (batch, shared) in texts.items():
        long = batch * _OPT_POSITION * _OPT_LENGTH / shared
        seconds = (_OPT_WEIGHTS + long) / _A100
        found[name] = Served(
            Modelled(long * 512 / _OPT_LENGTH / 1e9, "GB", "bytes of the caches", "arithmetic"),
            Modelled(long / 1e9, "GB", "bytes of the caches", "arithmetic"),
            Modelled((_OPT_WEIGHTS + long) / 1e9, "GB", "bytes of caches and weights", "arithmetic"),
            Modelled(seconds, "s", "least time of a step", _BY_SHEET),
            Modelled(batch / seconds, "tokens/s", "tokens of all sequences", _BY_SHEET),
        )
    return found


def opt_limit() -> Modelled:
    """Return the tokens per second of OPT-13B on an A100 that reads nothing but caches."""
    what = "tokens per second of OPT-13B that the caches of 2,048 positions alone allow on an A100"
    return Modelled(_A100 / (_OPT_POSITION * _OPT_LENGTH), "tokens/s", what, _BY_SHEET)


def texts_that_fit(longest: int, positions: int, count: int) -> dict[str, Counted]:
    """Return how many of ``count`` texts of all lengths up to the longest fit into the memory of a tenth as many slabs.

    A slab has room for the longest text; pages hold ``positions`` each. "over" is the second over the first.
    """
    lengths = np.random.default_rng(0).integers(1, longest + 1, count)
    slabs = count // 10
    held = -(-lengths // positions) * positions
    paged = int(np.searchsorted(held.cumsum(), slabs * longest, side="right"))
    return {
        "slabs": Counted(slabs, "texts", "texts that fit with room for the longest each"),
        "pages": Counted(paged, "texts", "texts that fit in pages"),
        "over": Counted(paged / slabs, "", "texts that fit in pages over those with room for the longest each"),
        "slab use": Counted(lengths.mean() / longest, "%", "share of slabs that holds tokens"),
        "page use": Counted(lengths.sum() / held.sum(), "%", "share of pages that holds tokens"),
    }


@dataclass(frozen=True)
class Guessed:
    """Texts that were written with guesses: whether they are the same, tokens of a call, and the share of right ones.

    ``predicted`` are the tokens of a call if each guess is right as often as the first of a call was.
    """

    same: Counted
    tokens: Counted
    right: Counted
    predicted: Counted


def guess_repeats(model: GPT, prompts: Tokens, new_tokens: int, guesses: int) -> Guessed:
    """Return what is gained on greedy texts where each guess is that the last token comes again.

    A call reads the last token and the guesses; those count that are what the model writes, and then its own token.
    """
    calls = written = first = right = 0
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
                    calls, written, first, right = calls + 1, written + kept + 1, first + 1, right + (kept > 0)
                text += [int(token) for token in said[: kept + 1]]
        same = same and text == plain.tolist()
    share = right / first
    mean = sum(share**at for at in range(guesses + 1))
    return Guessed(
        Counted(float(same), "", "texts with guesses over the same without"),
        Counted(written / calls, "tokens", "tokens written by a call"),
        Counted(share, "%", "first guesses that were right"),
        Counted(mean, "tokens", "tokens of a call if each guess is right as often as the first"),
    )
