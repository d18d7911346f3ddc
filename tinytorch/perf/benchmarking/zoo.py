"""The suites: every variant of the zoo's MLP, CNN and GPT that the chapters built, trained where it has to be."""

from __future__ import annotations

from tinytorch import models
from tinytorch.perf.acceleration import fuse
from tinytorch.perf.benchmarking.tuning import distilled, tuned
from tinytorch.perf.benchmarking.variants import Variant
from tinytorch.perf.compression import low_rank_model, magnitude_prune, sparse_model, structured_prune
from tinytorch.perf.quantization import quantize_model

#: Share of the weights that the pruned variant loses, of the units that the structured one does, and of each linear
#: layer's rank that the low-rank one keeps; the CNN's only linear layer has ten outputs, and saves only below rank 10.
SPARSITY, REMOVED, RANKS = 0.9, 0.5, 0.25
BASELINE = "baseline"
#: What a suite's variants are called; the cached one is the GPT's alone.
NAMES = (
    BASELINE,
    "quantized",
    "pruned",
    "structured",
    "low-rank",
    "distilled",
    "cached",
    "accelerated",
    "combined",
)


def suite_names(name: str) -> tuple[str, ...]:
    """Return the names of the variants that `suite` makes of the zoo's model of that name.

    Raises:
        ValueError: if the zoo has no such model.
    """
    models.entry(name)
    return tuple(each for each in NAMES if each != "cached" or name == "gpt")


def suite(name: str, seed: int = 0) -> dict[str, Variant]:
    """Return the variants of the zoo's model of that name, the baseline first.

    What needs training is trained the first time, in minutes, and kept under ``_build/`` as `models.trained` does.

    ``quantized`` has 8-bit weights and activations; ``pruned`` lost 9 of 10 weights, was fine-tuned, and keeps linear
    layers as CSR; ``structured`` lost half of its units, ``low-rank`` three quarters of its linear layers' ranks, and
    both were fine-tuned; ``distilled`` is a smaller model that learned from the baseline; ``cached`` generates with a
    key-value cache; ``accelerated`` is fused and runs on compiled kernels; ``combined`` is the structured one, fused,
    on compiled kernels, and with a cache where it generates.

    Raises:
        ValueError: if the zoo has no such model.
        ModuleNotFoundError: if Numba, which the kernels need, is not installed.
    """
    baseline = models.trained(name, seed)
    structured = tuned(name, "structured", structured_prune(baseline, REMOVED), seed)
    low_rank = low_rank_model(baseline, RANKS if name != "cnn" else 0.5)
    made = {
        BASELINE: Variant(BASELINE, baseline),
        "quantized": Variant("quantized", quantize_model(baseline)),
        "pruned": Variant("pruned", sparse_model(tuned(name, "pruned", magnitude_prune(baseline, SPARSITY), seed))),
        "structured": Variant("structured", structured),
        "low-rank": Variant("low-rank", tuned(name, "low-rank", low_rank, seed)),
        "distilled": Variant("distilled", distilled(name, baseline, seed)),
    }
    if name == "gpt":
        made["cached"] = Variant("cached", baseline, cached=True)
    # A GPT that is frozen reads whole sequences only, and this one generates.
    generates = name == "gpt"
    made["accelerated"] = Variant("accelerated", fuse(baseline, frozen=not generates), kernels=True)
    smaller = fuse(structured, frozen=not generates)
    made["combined"] = Variant("combined", smaller, kernels=True, cached=generates)
    return made
