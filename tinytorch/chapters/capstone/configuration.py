"""One way to run the book's GPT: which model, its weights, its cache, and what runs its operations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast, get_args

from tinytorch.core.module import Module
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.acceleration.fusion import fuse
from tinytorch.perf.acceleration.techniques import with_threads
from tinytorch.perf.benchmarking.zoo import suite
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, enable_kv_cache, fuse_decoding, generate
from tinytorch.perf.memoization.generation import Tokens
from tinytorch.perf.quantization import Plan, Scheme, quantize_model, stored_bytes

ModelName = Literal["full", "half of the units", "distilled", "low rank", "sparse"]
Weights = Literal["float32", "8-bit weights", "8-bit layers"]
CacheName = Literal["none", "float32", "8-bit"]
Fusion = Literal["none", "layers", "token"]

#: What the zoo's suite calls each model.
_IN_SUITE: dict[ModelName, str] = {
    "full": "baseline",
    "half of the units": "structured",
    "distilled": "distilled",
    "low rank": "low-rank",
    "sparse": "pruned",
}
#: Models whose linear layers are plain ones, which can be quantized and fused.
PLAIN_LAYERS: frozenset[ModelName] = frozenset({"full", "half of the units", "distilled"})


@dataclass(frozen=True, slots=True)
class Configuration:
    """The choices of the capstone; the defaults are its plain start, without a cache and on NumPy.

    Attributes:
        model: the zoo's trained GPT (``full``), or a smaller one made of it: with ``half of the units`` removed and
            fine-tuned, ``distilled`` into one of half the width, of ``low rank``, or ``sparse``, with nine of ten
            weights removed and stored as CSR.
        weights: ``float32``; ``8-bit weights`` that become floats where they are used; or ``8-bit layers``, which
            multiply integers.
        cache: of keys and values: ``none``, in ``float32``, or in ``8-bit`` codes.
        fusion: ``none``; ``layers``, where activations and sums belong to products; or ``token``, where each new token
            takes one op.
        kernels: whether compiled kernels run.
        threads: that BLAS and kernels may use.
    """

    model: ModelName = "full"
    weights: Weights = "float32"
    cache: CacheName = "none"
    fusion: Fusion = "none"
    kernels: bool = False
    threads: int = 1

    def __post_init__(self) -> None:
        for name, kind in (("model", ModelName), ("weights", Weights), ("cache", CacheName), ("fusion", Fusion)):
            known = get_args(kind)
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        if type(self.threads) is not int or self.threads < 1:
            raise ValueError(f"threads must be a whole number above 0, not {self.threads!r}")
        if self.model not in PLAIN_LAYERS and (self.weights != "float32" or self.fusion != "none"):
            raise ValueError(f"model must have plain linear layers to be quantized or fused, but is {self.model!r}")
        if self.fusion == "token" and self.cache == "none":
            raise ValueError("cache must be 'float32' or '8-bit' for fusion 'token': a step needs what it follows")
        if self.fusion == "token" and not self.kernels:
            raise ValueError("kernels must be True for fusion 'token': NumPy does the same steps, only within one op")
        if self.fusion == "token" and self.weights == "8-bit layers":
            raise ValueError("weights must be 'float32' or '8-bit weights' for fusion 'token', not '8-bit layers'")
        if self.fusion == "layers" and self.weights != "float32":
            raise ValueError(f"weights must be 'float32' for fusion 'layers', not {self.weights!r}")


#: Where the ladder begins: the whole text is read again for every token, on NumPy. It is there to teach.
PLAIN = Configuration()
#: The honest baseline: the same on NumPy, with a cache.
GOOD_BASELINE = Configuration(cache="float32")


@dataclass(frozen=True)
class Ready:
    """A configuration that can run: a model of its own, with a cache for one size of batch if it has any.

    Attributes:
        configuration: what it was made from.
        model: what runs, in eval mode.
        cache: what it remembers in, or None.
        weight_bytes: of the model's state: parameters, codes and scales, each once.
    """

    configuration: Configuration
    model: GPT
    cache: KVCache | None
    weight_bytes: int

    @property
    def cache_bytes(self) -> int:
        """Bytes of the cache; 0 without one."""
        return 0 if self.cache is None else self.cache.nbytes

    def running(self) -> AbstractContextManager[None]:
        """Return the context that calls belong in."""
        return accelerated() if self.configuration.kernels else nullcontext()

    def answering(self, prompts: Tokens, new_tokens: int) -> Callable[[], Tokens]:
        """Return a call that generates ``new_tokens`` after each of the prompts (B, P): (B, P + new_tokens).

        The caller is in `running`. More threads than one are set and put back within the call.
        """

        def call() -> Tokens:
            return generate(self.model, prompts, new_tokens)

        return call if self.configuration.threads == 1 else with_threads(call, self.configuration.threads)


def ready(configuration: Configuration, batch: int) -> Ready:
    """Return the configuration with a model of its own, and a cache for ``batch`` sequences if it has one.

    Models that had to be trained are trained the first time, in minutes, and kept under ``_build/``.

    Raises:
        ValueError: if ``batch`` is below 1.
    """
    if batch < 1:
        raise ValueError(f"batch must be at least 1 sequence, not {batch}")
    model = _quantized(model_named(configuration.model), configuration.weights)
    if configuration.fusion == "layers":
        model = fuse(model)
    elif configuration.fusion == "token":
        model = fuse_decoding(cast(GPT, model))
    made = cast(GPT, model)
    weight_bytes = stored_bytes(made)
    if configuration.cache == "none":
        return Ready(configuration, made, None, weight_bytes)
    head = made.blocks[0].attention
    shape = (batch, made.max_seq_len, len(made.blocks), head.num_heads, head.embed_dim // head.num_heads)
    kind = KVCache if configuration.cache == "float32" else QuantizedKVCache
    return Ready(configuration, made, enable_kv_cache(made, cache=kind(*shape)), weight_bytes)


def model_named(name: ModelName) -> GPT:
    """Return a copy of the trained model of that name, in eval mode."""
    return copy.deepcopy(_suite_model(name))


@cache
def _suite_model(name: ModelName) -> GPT:
    return cast(GPT, suite("gpt")[_IN_SUITE[name]].model.eval())


def _quantized(model: GPT, weights: Weights) -> Module:
    if weights == "float32":
        return model
    plan = Plan("weight-only", Scheme(8, per="channel")) if weights == "8-bit weights" else Plan()
    return quantize_model(model, plan=plan)
