"""Suites by name: every variant of the zoo's models, trained where it has to be, or a user's ``module:factory``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch import datasets, models
from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import fuse
from tinytorch.perf.acceleration.plans import Planned
from tinytorch.perf.benchmarking.results import Plan
from tinytorch.perf.benchmarking.variants import Task, Variant, scoring, variants_of, with_generation, zoo_task
from tinytorch.perf.compression import low_rank_model, magnitude_prune, sparse_model, structured_prune
from tinytorch.perf.compression.fine_tuning import trained_on
from tinytorch.perf.measuring.model_io import saved_arrays
from tinytorch.perf.onnx import OnnxModel, from_onnx
from tinytorch.perf.onnx.runtime import Declared, RuntimeModel
from tinytorch.perf.onnx.runtime_profile import made_inputs
from tinytorch.perf.profiling.model_profile import checked_module, example_of, made_by
from tinytorch.perf.quantization import quantize_model


def subject_of(plan: Plan) -> tuple[Task, dict[str, Variant]]:
    """Return the task and the variants of a suite of the zoo, of a user's ``module:factory``, or of a file.

    The factory returns a Module, or a mapping of names to modules or variants, of which the first is the baseline. The
    inputs are its ``example_input``, or zeros of the plan's shape; ``example_target``, if there is one, are the right
    answers: then ``example_input`` is the test set. A file, ``model.onnx``, is measured as it is read, on zeros;
    several files of a plan run in ONNX Runtime. The plan's data, if it has any, are the test set instead.

    Raises:
        ValueError: if the subject is neither, the factory cannot be used, or the data do not fit; one sentence says
            why.
    """
    name = plan.subject
    if not plan.files and not name.lower().endswith(".onnx") and ":" not in name:
        if name not in models.ZOO:
            known = f"one of {', '.join(models.ZOO)}, module:factory, or a file such as model.onnx"
            raise ValueError(f"the suite must be {known}, not {name!r}")
        return zoo_task(name), suite(name)
    variants = _side_by_side(plan.files, plan.threads) if plan.files else _own(name)
    first = next(iter(variants.values()))
    if plan.planned:
        if "plan" in variants:
            raise ValueError("the plan is called 'plan', which must not be the name of another variant")
        variants["plan"] = Variant("plan", Planned(first.model))
    return with_generation(_task(plan, first.model), variants), variants


def _side_by_side(files: Sequence[str], threads: int) -> dict[str, Variant]:
    """Return a variant for each file, which runs in ONNX Runtime."""
    labels = [Path(each).stem for each in files]
    if len({*labels}) < len(labels):
        raise ValueError(f"files that are measured side by side must have different names, not {', '.join(labels)}")

    def others(declared: Sequence[Declared], batch: int) -> dict[str, Array]:
        return made_inputs(declared, {}, batch)

    models_of = {label: RuntimeModel(each, threads, others) for label, each in zip(labels, files, strict=True)}
    return {label: Variant(label, model) for label, model in models_of.items()}


def _own(name: str) -> dict[str, Variant]:
    if name.lower().endswith(".onnx"):
        return variants_of({Path(name).stem: from_onnx(name)})
    made = made_by(name)
    if not isinstance(made, Mapping):
        made = {name.partition(":")[2]: made}
    return variants_of(
        {key: each if isinstance(each, Variant) else checked_module(each, name) for key, each in made.items()}
    )


def examples_of(path: str) -> Task:
    """Return examples that `numpy.savez` wrote: ``inputs`` (N, ...), and which answer is right of each.

    That is ``labels``, the index of the largest output, (N,) or (N, positions); or ``outputs`` (N, ..., classes), as
    another engine answered: then the largest of them is right.

    Raises:
        ValueError: if it is no such file.
    """
    arrays = saved_arrays(path, "data")
    if arrays.keys() not in ({"inputs", "labels"}, {"inputs", "outputs"}):
        raise ValueError(f"data must hold inputs, and labels or outputs, and {path} holds {', '.join(arrays)}")
    labels, outputs = arrays.get("labels"), arrays.get("outputs")
    if outputs is not None:
        if outputs.ndim < 2 or outputs.shape[-1] < 2:
            raise ValueError(f"outputs must be two or more of each example, to have a largest, not {outputs.shape}")
        labels = outputs.argmax(axis=-1)
    if labels is None or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be whole numbers, not {None if labels is None else labels.dtype}")
    return scoring(arrays["inputs"], labels)


def _task(plan: Plan, model: Any) -> Task:
    name, input_shape = plan.subject, plan.input_shape
    if plan.data is not None:
        return examples_of(plan.data)
    if input_shape is not None:
        return scoring(example_of(model, name, 1, input_shape))
    if isinstance(model, OnnxModel):
        return scoring(model.example()[0])
    if isinstance(model, RuntimeModel):
        return scoring(model.example())
    example = getattr(model, "example_input", None)
    rows = 1 if example is None else len(_array(example))
    targets = getattr(model, "example_target", None)
    return scoring(example_of(model, name, rows), None if targets is None else _array(targets))


def _array(values: Any) -> np.ndarray[Any, Any]:
    return np.asarray(values.data if isinstance(values, Tensor) else values)


#: Passes over the examples, and examples, with which the baseline and each model that is made of it are trained on.
EPOCHS = {"mlp": 20, "cnn": 12, "gpt": 1}
EXAMPLES = {"mlp": None, "cnn": None, "gpt": 20_000}


def student(name: str, seed: int = 0) -> Module:
    """Return what the distilled variant is made of: the zoo's model with a fraction of the units, untrained.

    Raises:
        ValueError: if the zoo has no such model.
    """
    models.entry(name)
    draw = np.random.default_rng(seed)
    if name == "mlp":
        return Sequential(Flatten(), Linear(64, 64, seed=draw), ReLU(), Linear(64, 10, seed=draw))
    if name == "gpt":
        return GPT(datasets.SEPARATOR + 1, 48, 2, 4, 2 * datasets.SORT_LENGTH, seed=seed)
    return Sequential(
        Conv2d(1, 16, 3, padding=1, seed=draw),
        BatchNorm2d(16),
        ReLU(),
        MaxPool2d(2),
        Conv2d(16, 32, 3, padding=1, seed=draw),
        BatchNorm2d(32),
        ReLU(),
        MaxPool2d(2),
        Flatten(),
        Linear(128, 10, seed=draw),
    )


#: Share of the weights that the pruned variant loses, of the units that the structured one does, and of each linear
#: layer's rank that the low-rank one keeps; the CNN's only linear layer has ten outputs, and saves only below rank 10.
SPARSITY, REMOVED, RANKS = 0.9, 0.5, 0.25
BASELINE = "baseline"


#: Variants that are trained, the longest training first. The baseline is trained on as long as its rivals: else more
#: training would pass for a merit of theirs.
TRAINED = ("distilled", BASELINE, "structured", "pruned", "low-rank")


def trained_variant(name: str, variant: str, seed: int = 0) -> Module:
    """Return the model that a variant of the suite is, or is made of, trained the first time and kept, in eval mode.

    Raises:
        ValueError: if the zoo has no such model, or ``variant`` is none of `TRAINED`.
    """
    large, plan = models.trained(name, seed), models.entry(name)
    if variant == "distilled":
        return trained_on(
            name, student(name, seed), plan.epochs, learning_rate=plan.learning_rate, teacher=large, seed=seed
        )
    if variant == BASELINE:
        start = large
    elif variant == "structured":
        start = structured_prune(large, REMOVED)
    elif variant == "pruned":
        start = magnitude_prune(large, SPARSITY)
    elif variant == "low-rank":
        start = low_rank_model(large, RANKS if name != "cnn" else 0.5)
    else:
        raise ValueError(f"variant must be one of {', '.join(TRAINED)}, not {variant!r}")
    rate, examples = plan.learning_rate / 2, EXAMPLES[name]
    return trained_on(name, start, EPOCHS[name], learning_rate=rate, examples=examples, seed=seed)


def suite(name: str, seed: int = 0) -> dict[str, Variant]:
    """Return the variants of the zoo's model of that name, the baseline first.

    What needs training is trained the first time, in minutes, and kept under ``_build/`` as `models.trained` does.

    The baseline is the zoo's model, trained on as long as each that is made of it. ``quantized`` has 8-bit weights and
    activations; ``pruned`` lost 9 of 10 weights, was fine-tuned, and keeps linear layers as CSR; ``structured`` lost
    half of its units, ``low-rank`` three quarters of its linear layers' ranks, and both were fine-tuned; ``distilled``
    is a smaller model that learned from the zoo's as long as that learned; ``cached`` generates with a key-value
    cache; ``accelerated`` is fused and runs on compiled kernels; ``combined`` is the structured one, fused, on compiled
    kernels, and with a cache where it generates.

    Raises:
        ValueError: if the zoo has no such model.
        ModuleNotFoundError: if Numba, which the kernels need, is not installed.
    """
    trained = {variant: trained_variant(name, variant, seed) for variant in TRAINED}
    baseline, structured = trained[BASELINE], trained["structured"]
    made = {
        BASELINE: Variant(BASELINE, baseline),
        "quantized": Variant("quantized", quantize_model(baseline)),
        "pruned": Variant("pruned", sparse_model(trained["pruned"])),
        "structured": Variant("structured", structured),
        "low-rank": Variant("low-rank", trained["low-rank"]),
        "distilled": Variant("distilled", trained["distilled"]),
    }
    if name == "gpt":
        made["cached"] = Variant("cached", baseline, cached=True)
    # A GPT that is frozen reads whole sequences only, and this one generates.
    generates = name == "gpt"
    made["accelerated"] = Variant("accelerated", fuse(baseline, frozen=not generates), kernels=True)
    smaller = fuse(structured, frozen=not generates)
    made["combined"] = Variant("combined", smaller, kernels=True, cached=generates)
    return made
