"""Preparation of the pages: models that they train, kernels that they compile, and ceilings that they share, as steps.

What a step makes is kept on disk, where the page finds it. A page whose step is missing here trains or compiles by
itself: that is slower, and on one core, but never wrong. Names alone are imported here; each step imports what it runs.
"""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

#: The zoo, the longest training first.
_MODELS = ("gpt", "cnn", "mlp")
#: Examples with which the page on quantization trains the GPT on, once over, rounded and in float.
_EXAMPLES = 12_800
#: Seeds of the MLPs whose accuracies give an interval.
_SEEDS = range(7)
#: Seconds of a core that training each model of the zoo takes, rounded.
_SECONDS = {"gpt": 20.0, "cnn": 5.0, "mlp": 2.0}
_TRAINING_KERNELS = "kernels of training steps"
#: Fresh processes whose times tell what runs differ by before anything is measured that pages share.
_PROCESSES = 6


@dataclass(frozen=True)
class Step:
    """Something to train, compile or measure, with results left on disk, for pages that name one of ``needs``.

    The steps ``after`` which it runs, if they run as well, leave what it starts from, or would compile the same. It
    takes about so many ``seconds`` of a core; a first build is told so before it begins.
    """

    name: str
    work: Literal["training", "compiling", "measuring"]
    make: Callable[[], object]
    needs: Set[str]
    seconds: float
    after: tuple[str, ...] = ()


def steps_of(needs: Iterable[str]) -> list[Step]:
    """Return the steps for these needs, in an order in which they can run.

    Raises:
        ValueError: if no step is for one of them.
    """
    asked = set(needs)
    if unknown := sorted(asked - NEEDS):
        raise ValueError(f"there is no need {unknown[0]!r}: needs of a page are {', '.join(sorted(NEEDS))}")
    return [step for step in STEPS.values() if not asked.isdisjoint(step.needs)]


def make(name: str) -> None:
    """Run the step of that name, on one thread of BLAS as pages do; KeyError if there is none.

    Models are trained by compiled kernels and planned steps, which compute what the framework's own steps do.
    """
    step = STEPS[name]
    if step.work != "training":
        step.make()
        return
    from tinytorch.core.training import training_steps
    from tinytorch.perf.acceleration.planned_step import planned_steps
    from tinytorch.perf.kernels.registry import accelerated

    with accelerated(), training_steps(planned_steps):
        step.make()


def begin_steps() -> None:
    """Let this process, which runs steps and then ends, train on one thread of BLAS, and compile by itself.

    Pages use one thread: with more, other last bits would be trained.
    """
    from tinytorch.perf.kernels.runtime.compiling import compile_here
    from tinytorch.perf.measuring.sampling import limit_blas_threads

    limit_blas_threads(1)
    compile_here()


def _train(name: str, seed: int = 0) -> object:
    from tinytorch import models

    return models.trained(name, seed)


def _train_variant(name: str, variant: str) -> object:
    from tinytorch.perf.benchmarking.zoo import trained_variant

    return trained_variant(name, variant)


def _train_rounded() -> object:
    from tinytorch.chapters.quantization.retrained import retrained
    from tinytorch.perf.quantization import Plan, Scheme

    two_bits = Plan("weight-only", Scheme(2, per="channel"), ranges="mse")
    return retrained("gpt", two_bits, epochs=1, learning_rate=1e-3, examples=_EXAMPLES)


def _train_longer() -> object:
    """Train the float GPT on as long as its rounded rival."""
    from tinytorch import models
    from tinytorch.perf.compression.fine_tuning import trained_on

    return trained_on("gpt", models.trained("gpt"), 1, learning_rate=1e-3, examples=_EXAMPLES)


def _train_pruned(seed: int) -> None:
    """Train on what the page on compression makes of the MLP of one seed."""
    from tinytorch import models
    from tinytorch.perf.compression import low_rank_model, magnitude_prune, n_m_prune, structured_prune
    from tinytorch.perf.compression.fine_tuning import trained_on

    large = models.trained("mlp", seed)
    pruned = (magnitude_prune(large, 0.8), magnitude_prune(large, 0.9), n_m_prune(large, n=2, m=4))
    for each in (large, *pruned, structured_prune(large, 0.5), low_rank_model(large, {"3": 16})):
        trained_on("mlp", each, 10, learning_rate=2e-3)


def _train_small() -> None:
    """Train the small MLPs of all seeds with which the page on compression compares what is pruned."""
    from tinytorch import models
    from tinytorch.perf.compression import structured_prune
    from tinytorch.perf.compression.fine_tuning import train_together

    large = [models.trained("mlp", seed) for seed in _SEEDS]
    slim: list[Any] = [structured_prune(each, 0.9) for each in large]
    shape = slim[0][1].out_features, slim[0][3].out_features
    small = [models.mlp(seed, shape) for seed in _SEEDS]
    rate = 2e-3
    train_together("mlp", slim, 10, learning_rate=rate)
    for epochs in (10, 50):
        train_together("mlp", small, epochs, learning_rate=rate)
    train_together("mlp", [models.mlp(seed, (64, 32)) for seed in _SEEDS], 50, learning_rate=rate)
    train_together("mlp", small, 50, learning_rate=rate, teachers=large)
    train_together("mlp", small, 376, learning_rate=rate, examples=142)
    train_together("mlp", small, 376, learning_rate=rate, examples=142, teachers=large)
    train_together("mlp", small, 10, learning_rate=rate, teachers=large, alpha=1.0)


def _train_compressed() -> None:
    """Train on what the page on compression makes of the CNN."""
    from tinytorch import models
    from tinytorch.perf.compression import structured_prune
    from tinytorch.perf.compression.fine_tuning import trained_on

    whole = models.trained("cnn")
    for model in (whole, structured_prune(whole, 0.5)):
        trained_on("cnn", model, 4, learning_rate=1e-3)


def _compile_loops() -> None:
    """Compile the page on acceleration's ways to write a product, the tiles whose shapes it tries, and its limits."""
    import numpy as np

    from tinytorch.chapters.acceleration.ladder import steps
    from tinytorch.chapters.acceleration.tiles import SHAPES, limits
    from tinytorch.perf.kernels import probes
    from tinytorch.perf.kernels.gemm.product_tiles import LANES, tile_kernel

    square = np.ones((48, 48), np.float32)
    for step in steps().values():
        step.function(square, square)
    limits()
    probes.read(LANES)
    probes.gather(square[0], np.zeros(1, np.int64))
    for rows, vectors in SHAPES:
        one, out = np.ones(vectors * LANES + rows, np.float32), np.empty((rows, vectors * LANES), np.float32)
        tile_kernel(rows, vectors)(one.ctypes.data, 1, 0, one.ctypes.data, 0, out.ctypes.data, vectors * LANES, 1, 0)


def _compile_pass(name: str) -> None:
    """Compile a forward pass of a model of the zoo: as it is, fused, and as a plan, of one example and of many."""
    from tinytorch import models

    entry = models.entry(name)
    model = entry.make(0)
    # Data cannot be written to, and is another type to a compiler than what is made of it.
    for inputs in (models.example(name, 1), models.example(name, 64), models.as_input(entry.data().test_inputs[:64])):
        _compile_ways(model, inputs)


def _compile_block() -> None:
    """Compile a forward pass of a block of GPT-2's shape."""
    from tinytorch.perf.engines.workloads import our_input, subject

    block = subject("block-128")
    _compile_ways(block.make(), our_input(block.batch()[0]))


def _compile_file() -> None:
    """Compile a forward pass of the model that is read from a file, in each way that its page shows."""
    from tinytorch.chapters.your_model.studies import FILE, LINES, lines
    from tinytorch.core.tensor import Tensor
    from tinytorch.perf.acceleration.plans import plan
    from tinytorch.perf.acceleration.techniques import forward_pass, with_kernels
    from tinytorch.perf.onnx import from_onnx
    from tinytorch.perf.quantization import quantize_model

    model, inputs = from_onnx(FILE), Tensor(lines()[:LINES])
    with_kernels(forward_pass(model, inputs))()
    for made in (plan(model, inputs), quantize_model(model)):
        forward_pass(made, inputs)()


def _compile_training() -> None:
    """Compile the training steps of the zoo, planned and by the graph, and that of the GPT, fused."""
    from tinytorch import models
    from tinytorch.core.optimizers import AdamW
    from tinytorch.core.training import train_step
    from tinytorch.perf.acceleration.planned_step import planned_steps
    from tinytorch.perf.engines.ours import training
    from tinytorch.perf.engines.protocol import AdamWSettings
    from tinytorch.perf.engines.workloads import subject
    from tinytorch.perf.kernels.registry import accelerated

    with accelerated():
        for name in _MODELS:
            entry = models.entry(name)
            model = entry.make(0)
            inputs, targets = (array[: entry.batch_size] for array in entry.train_data())
            for step in (train_step, planned_steps()):
                optimizer = AdamW(model.train().parameters(), lr=entry.learning_rate)
                step(model, models.as_input(inputs), targets, models.loss_function(), optimizer)
        gpt = subject("gpt-64")
        training("fused", gpt.make(), gpt.batch(), gpt.loss, AdamWSettings()).step()


def _compile_ways(model: Any, inputs: Any) -> None:
    """Compile a forward pass in each way: as it is, fused, and as a plan, the last also observed and on two threads."""
    from tinytorch.perf.acceleration import fuse
    from tinytorch.perf.acceleration.techniques import forward_pass, with_kernels, with_threads

    for each in (model, fuse(model)):
        with_kernels(forward_pass(each, inputs))()
    planned = with_kernels(forward_pass(fuse(model, frozen=True), inputs))
    planned()
    with_threads(planned, 2)()


def _compile_calls() -> None:
    """Compile the calls whose cost is measured with the ceilings, where this machine's are not kept."""
    from tinytorch.perf.machine.call_costs import compile_measured_calls
    from tinytorch.perf.machine.store import kept_ceilings

    if kept_ceilings() is None:
        compile_measured_calls()


def _measure_ceilings() -> None:
    """Measure the ceilings of one core, where they are not kept, once a few processes told what runs differ by."""
    from tinytorch.perf.machine.store import ceilings, kept_ceilings
    from tinytorch.perf.measuring.between_run_variance import known_variance, sample_spread

    if kept_ceilings() is not None:
        return
    while (known := known_variance()) is None or known.processes < _PROCESSES:
        sample_spread()
    ceilings()


def _compile_layers() -> None:
    """Compile the products of whole 8-bit layers."""
    from tinytorch.perf.quantization import Plan

    _compile_quantized(Plan())


def _compile_weights(bits: int) -> None:
    """Compile the products of weights in so many bits."""
    from tinytorch.perf.quantization import Plan, Scheme

    for per in ("tensor", "channel", "group"):
        _compile_quantized(Plan("weight-only", Scheme(bits, per=per)))


def _compile_quantized(plan: Any) -> None:
    from tinytorch import models
    from tinytorch.perf.acceleration.techniques import forward_pass
    from tinytorch.perf.quantization import quantize_model

    for name in _MODELS:
        model = quantize_model(models.entry(name).make(0), plan=plan)
        # Seven rows are taken as four, two and one.
        few = models.as_input(models.entry(name).data().test_inputs[:7])
        for inputs in (few, models.example(name, 1), models.example(name, 7), models.example(name, 64)):
            forward_pass(model, inputs)()


def _compile_decoding(bits: int) -> None:
    """Compile the steps of a text that is written with a cache: op by op and in one op; of 32 bits the weights too."""
    import numpy as np

    from tinytorch.core.dispatch import no_grad
    from tinytorch.core.transformers import GPT
    from tinytorch.perf.acceleration import accelerated, fuse
    from tinytorch.perf.memoization import KVCache, QuantizedKVCache, disable_kv_cache, enable_kv_cache, fuse_decoding
    from tinytorch.perf.quantization import Plan, Scheme, quantize_model

    model = GPT(11, 96, 2, 4, 20, seed=0).eval()
    weights: Any = model
    if bits < 32:
        weights = quantize_model(model, plan=Plan("weight-only", Scheme(bits, per="channel")))
    with accelerated(), no_grad():
        for each in (fuse_decoding(weights), *([fuse(model), model] if bits == 32 else [])):
            for cache in (KVCache(2, 20, 2, 4, 24), QuantizedKVCache(2, 20, 2, 4, 24)):
                enable_kv_cache(each, cache=cache)
                each(np.zeros((2, 4), np.int64))
                each(np.zeros((2, 1), np.int64), last=True)
                disable_kv_cache(each)


def _compile_sparse() -> None:
    """Compile the products of sparse weights, of one row and of many."""
    import numpy as np

    from tinytorch.core.layers import Linear
    from tinytorch.core.tensor import Tensor
    from tinytorch.perf.compression import SparseLinear, magnitude_prune

    pruned: Any = magnitude_prune(Linear(64, 64, seed=0), 0.9)
    layer = SparseLinear(pruned)
    for rows in (1, 64):
        layer(Tensor(np.ones((rows, 64), np.float32)))


def _trainings() -> Iterable[Step]:
    for name in _MODELS:
        needs = {"models", "gpt"} if name == "gpt" else {"models"}
        yield _training(_zoo(name), partial(_train, name), needs, _SECONDS[name])
    for name in _MODELS:
        needs = {"gpt-versions"} if name == "gpt" else {"versions"}
        for variant in ("distilled", "baseline", "structured", "pruned", "low-rank"):
            work = partial(_train_variant, name, variant)
            seconds = _SECONDS[name] if variant == "distilled" else _SECONDS[name] / 3
            yield _training(f"{variant} {name.upper()}", work, needs, seconds, _zoo(name))
    yield _training("GPT in two bits", _train_rounded, {"rounded-models"}, _SECONDS["gpt"], _zoo("gpt"))
    yield _training("GPT trained as long", _train_longer, {"rounded-models"}, _SECONDS["gpt"] / 4, _zoo("gpt"))
    large = [_zoo("mlp"), *(f"trained MLP of seed {seed}" for seed in _SEEDS[1:])]
    for seed, step in zip(_SEEDS[1:], large[1:], strict=True):
        yield _training(step, partial(_train, "mlp", seed), {"seeds"}, _SECONDS["mlp"])
    yield _training("small MLPs", _train_small, {"pruned-models"}, 20, *large)
    for seed, step in zip(_SEEDS, large, strict=True):
        yield _training(f"pruned MLPs of seed {seed}", partial(_train_pruned, seed), {"pruned-models"}, 5, step)
    yield _training("compressed CNN", _train_compressed, {"pruned-models"}, 2, _zoo("cnn"))


def _training(name: str, work: Callable[[], object], needs: Set[str], seconds: float, *after: str) -> Step:
    return Step(name, "training", work, needs, seconds, (_TRAINING_KERNELS, *after))


def _zoo(name: str) -> str:
    return f"trained {name.upper()}"


def _compiling(name: str, work: Callable[[], object], needs: Set[str], seconds: float, *after: str) -> Step:
    return Step(name, "compiling", work, needs, seconds, after)


def _compilations() -> Iterable[Step]:
    first, texts = "kernels of the GPT", {"text-kernels"}
    yield _compiling(first, partial(_compile_pass, "gpt"), {"gpt-kernels"}, 20)
    yield _compiling("kernels of texts, 32 bits", partial(_compile_decoding, 32), texts, 10, first)
    after = (first, "kernels of texts, 32 bits")
    yield _compiling("kernels of texts, 8 bits", partial(_compile_decoding, 8), texts, 8, *after)
    yield _compiling("kernels of 8-bit layers", _compile_layers, {"integer-kernels"}, 12)
    for bits in (8, 4, 2):
        needs = {"eight-bit-kernels"} if bits == 8 else {"few-bit-kernels"}
        yield _compiling(f"kernels of {bits}-bit weights", partial(_compile_weights, bits), needs, 3)
    yield _compiling("kernels of loops", _compile_loops, {"loop-kernels"}, 6)
    yield _compiling("kernels of sparse weights", _compile_sparse, {"sparse-kernels"}, 1)
    for name in ("cnn", "mlp"):
        seconds = 12 if name == "cnn" else 2
        work = partial(_compile_pass, name)
        yield _compiling(f"kernels of the {name.upper()}", work, {"model-kernels"}, seconds, first)
    yield _compiling("kernels of a block", _compile_block, {"block-kernels"}, 2, first)
    yield _compiling("kernels of a model from a file", _compile_file, {"file-kernels"}, 8, first)
    yield _compiling("kernels of calls", _compile_calls, {"ceilings"}, 10, first, "kernels of 8-bit layers")


def _steps() -> Iterable[Step]:
    """Yield all steps, the most urgent first: what many wait for, and then the longest."""
    trainings = [*_trainings()]
    needs = {need for step in trainings for need in step.needs}
    others = [_compiling(_TRAINING_KERNELS, _compile_training, needs, 30), *trainings, *_compilations()]
    yield from others
    # Last and alone, as nothing else may run meanwhile.
    alone = tuple(step.name for step in others)
    yield Step("ceilings of one core", "measuring", _measure_ceilings, {"ceilings"}, 40, alone)


STEPS = {step.name: step for step in _steps()}
#: What the head of a page may name under `needs`.
NEEDS = frozenset(need for step in STEPS.values() for need in step.needs)
