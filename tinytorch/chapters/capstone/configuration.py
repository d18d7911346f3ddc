"""Ways to run the book's GPT, by model, weights, cache and what runs its operations; and the steps between them."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, cast, get_args

from tinytorch.core.module import Module
from tinytorch.core.transformers import GPT
from tinytorch.perf.benchmarking.variants import Variant
from tinytorch.perf.benchmarking.zoo import suite
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, cache_of, enable_kv_cache, fuse_decoding
from tinytorch.perf.quantization import Plan, Scheme, quantize_model

ModelName = Literal["full", "half of the units", "distilled", "sparse"]
Weights = Literal["float32", "8-bit weights", "8-bit layers"]
CacheName = Literal["none", "float32", "8-bit"]
Fusion = Literal["none", "token"]

#: What the zoo's suite calls a model that it names otherwise.
_IN_SUITE = {"full": "baseline", "half of the units": "structured", "sparse": "pruned"}
#: What may take the place of another choice than the plain one: of a cache, of any other model.
_REPLACING = ("8-bit", "distilled")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The choices of the capstone; the defaults are its plain start, without a cache and on NumPy.

    Attributes:
        model: the zoo's trained GPT, or one made of it: with ``half of the units`` removed and fine-tuned,
            ``distilled`` into half the width, or ``sparse``, a tenth of the weights stored as CSR.
        weights: ``8-bit weights`` become floats where they are used; ``8-bit layers`` multiply integers.
        cache: of keys and values, in ``float32`` or in ``8-bit`` codes.
        fusion: one op for each new ``token``, or none.
        kernels: whether compiled kernels run.
    """

    model: ModelName = "full"
    weights: Weights = "float32"
    cache: CacheName = "none"
    fusion: Fusion = "none"
    kernels: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("model", ModelName), ("weights", Weights), ("cache", CacheName), ("fusion", Fusion)):
            known = get_args(kind)
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        if self.model == "sparse" and (self.weights != "float32" or self.fusion != "none"):
            raise ValueError(f"model must have plain linear layers to be quantized or fused, but is {self.model!r}")
        if self.fusion == "token" and (self.cache == "none" or not self.kernels or self.weights == "8-bit layers"):
            raise ValueError(f"fusion 'token' needs a cache and kernels, and no 8-bit layers, but this is {self}")


#: Where the ladder begins: the whole text is read again for every token, on NumPy. It is there to teach.
PLAIN = Configuration()
#: The honest baseline: the same on NumPy, with a cache.
GOOD_BASELINE = Configuration(cache="float32")


@dataclass(frozen=True, slots=True)
class Step:
    """One change: which choice of a `Configuration` it makes, and what tables call it."""

    name: str
    field: str
    value: Any

    def after(self, before: Configuration) -> Configuration | None:
        """Return the configuration after this step, or None if it cannot be taken from ``before``.

        A choice is made once, but for what `_REPLACING` has.
        """
        now = getattr(before, self.field)
        is_new = now == getattr(PLAIN, self.field)
        if now == self.value or not (is_new or self.value in _REPLACING) or (self.value, now) == ("8-bit", "none"):
            return None
        try:
            return replace(before, **{self.field: self.value})
        except ValueError:
            return None


#: Steps on one core, each of another kind, as each more widens the intervals of all. What cannot be taken yet is
#: offered later.
STEPS = (
    Step("key-value cache", "cache", "float32"),
    Step("compiled kernels", "kernels", True),
    Step("one op a token", "fusion", "token"),
    Step("8-bit layers", "weights", "8-bit layers"),
    Step("8-bit cache", "cache", "8-bit"),
    Step("half of the units", "model", "half of the units"),
    Step("distilled model", "model", "distilled"),
)
#: Names of one step, or of two of which the second cannot be taken without the first.
Move = tuple[str, ...]
Moves = dict[Move, Configuration]


def moves_from(before: Configuration, steps: Sequence[Step] = STEPS) -> tuple[Moves, Moves]:
    """Return what each step makes that can be taken, and each pair of which the first makes the second possible."""
    pairs: Moves = {
        (first.name, second.name): after
        for first in steps
        if (between := first.after(before))
        for second in steps
        if second.field != first.field and not second.after(before) and (after := second.after(between))
    }
    return {(step.name,): after for step in steps if (after := step.after(before))}, pairs


def ready(configuration: Configuration, batch: int) -> Variant:
    """Return the configuration with a model of its own; a cache, if it is to have one, is for ``batch`` sequences."""
    model: Module = copy.deepcopy(_suite_model(configuration.model))
    if configuration.weights != "float32":
        plan = Plan("weight-only", Scheme(8, per="channel")) if configuration.weights == "8-bit weights" else Plan()
        model = quantize_model(model, plan=plan)
    made = cast(GPT, model)
    if configuration.fusion == "token":
        made = fuse_decoding(made)
    if configuration.cache != "none":
        kind = KVCache if configuration.cache == "float32" else QuantizedKVCache
        enable_kv_cache(made, cache=kind.of(made, batch))
    return Variant(str(configuration), made, configuration.kernels)


def held_bytes(made: Variant) -> int:
    """Return the bytes of weights, codes and scales, each once, and of the cache."""
    remembered = cache_of(cast(GPT, made.model))
    return made.stored_bytes + (remembered.nbytes if remembered else 0)


@cache
def _suite_model(name: ModelName) -> GPT:
    return cast(GPT, suite("gpt")[_IN_SUITE.get(name, name)].model.eval())
