"""Measuring in one process: tasks, memory to the byte, times in turns, and scenarios of requests."""

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.perf.benchmarking.made import factory
from tinytorch import datasets, models
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.transformers import GPT
from tinytorch.perf.benchmarking import benchmark_suite, compare, measure_performance, single_stream, zoo
from tinytorch.perf.benchmarking.scenarios import server
from tinytorch.perf.benchmarking.variants import (
    Task,
    Variant,
    scoring,
    sorting_generation,
    task_of,
    variants_of,
    with_generation,
)
from tinytorch.perf.host.blas import numpy_blas
from tinytorch.perf.measuring.sampling import blas_threads
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, cache_of, enable_kv_cache, generate


def test_accuracy_is_that_of_the_whole_test_set() -> None:
    model = models.mlp(0)
    time, _, accuracy = measure_performance(model, "mlp", batches=(2,), repeats=6)
    assert time is not None
    assert (time.unit, time.n) == ("s", 6)
    count = len(datasets.digits().test_inputs)
    assert accuracy is not None
    assert accuracy.median == pytest.approx(models.accuracy(model, "mlp"))
    assert (accuracy.unit, accuracy.n) == ("%", count)
    assert f"of {count} are right" in str(accuracy.conditions.note)
    assert accuracy.interval.low < accuracy.median < accuracy.interval.high


def test_memory_is_the_state_and_what_a_call_allocates() -> None:
    model = Sequential(Linear(8, 1000, bias=False, seed=0))
    made = measure_performance(model, np.ones((64, 8), np.float32), batches=(1, 64), repeats=6)
    state, output = 4 * 8 * 1000, 4 * 64 * 1000
    assert (made.model_bytes, made.accuracy) == (state, None)
    assert state + output <= made.memory.median < state + output + 20_000
    assert made.peaks[1].median < made.memory.median
    assert made.throughput[64].samples[0] == pytest.approx(64 / made.times[64][0].samples[0])


def test_a_suite_takes_its_times_in_turns() -> None:
    made = benchmark_suite({"a": factory(), "b": factory()}, np.ones((3, 4), np.float32), batches=(1,), repeats=6)
    assert "b" in made["a"].times[1][0].conditions.interleaved_with
    assert compare(made["a"], made["b"]).speedup.estimate.n == 6, "pairs of neighbours"


def test_a_sequence_is_right_if_all_that_counts_is() -> None:
    outputs = np.eye(3, dtype=np.float32)[np.array([[0, 1], [2, 1], [2, 0]])]
    targets = np.array([[0, 1], [datasets.IGNORED, 1], [datasets.IGNORED, 2]])
    task = Task("given", outputs, targets, lambda _, inputs: inputs, scoring(outputs).right)
    right = task.correct(None)
    assert right is not None
    assert right.tolist() == [True, True, False]


def test_generating_scores_as_reading_the_right_answers_does() -> None:
    model = GPT(datasets.SEPARATOR + 1, 16, 1, 2, 20, seed=0).eval()
    task = sorting_generation()
    assert task.targets is not None
    few = Task(task.name, task.inputs[:40], task.targets[:40], task.perform, task.right)
    cached, plain = (Variant("made", model, cached=cached) for cached in (True, False))
    np.testing.assert_array_equal(cached.call(few, few.inputs), task.perform(model, few.inputs))
    np.testing.assert_array_equal(cached.correct(few), plain.correct(few))
    assert model.memory is None, "the cache is taken away after the call"


@pytest.mark.parametrize("kind", [KVCache, QuantizedKVCache])
def test_a_gpt_with_its_cache_goes_in_as_it_is_and_comes_out_as_it_was(kind: type[KVCache]) -> None:
    plain = GPT(11, 16, 2, 2, 20, seed=0).eval()
    cached = copy.deepcopy(plain)
    cache = enable_kv_cache(cached, cache=kind(1, 12, 2, 2, 8))
    cached(np.array([[1, 2, 3]]))
    made = variants_of({"plain": plain, "cached": cached})
    prompts = np.array([[1, 2], [3, 4], [5, 6]])
    seen: list[KVCache | None] = []

    def perform(model: GPT, inputs: np.ndarray) -> np.ndarray:
        seen.append(cache_of(model))
        return generate(model, inputs, 5)

    asked = Task("generate", prompts, None, perform, scoring(prompts).right)
    expected, answers = (one.call(asked, prompts) for one in made.values())
    without, given = seen
    assert without is None
    assert type(given) is kind
    assert (given.batch_size, given.max_seq_len) == (3, 12)
    if kind is KVCache:
        np.testing.assert_array_equal(answers, expected)
    assert cached.memory is cache
    assert cache.seq_pos == 3, "what it remembered is there"
    with pytest.raises(ValueError, match=r"'a' and 'b' are one GPT, .*deepcopy"):
        variants_of({"a": cached, "b": cached})


def gpt(cached: bool, positions: int = 20) -> GPT:
    model = GPT(11, 16, 1, 2, positions, seed=0).eval()
    if cached:
        enable_kv_cache(model)
    return model


TOKENS = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]])


@pytest.mark.parametrize(
    ("tokens", "name", "length"),
    [
        (TOKENS, "generate 3 of 5 tokens", 5),
        (TOKENS[:, :4], "generate 2 of 4 tokens", 4),
        (TOKENS[:, :1], "generate 1 of 2 tokens", 2),
        (np.ones((2, 20), int), "generate 10 of 20 tokens", 20),
    ],
)
def test_a_timed_call_generates_if_a_model_has_a_cache(tokens: np.ndarray, name: str, length: int) -> None:
    variants = variants_of({"plain": gpt(False), "cached": gpt(True)})
    task = with_generation(scoring(tokens, tokens), variants)
    assert task.name == name
    plain, cached = (variant.call(task, tokens) for variant in variants.values())
    assert plain.shape == (2, length)
    np.testing.assert_array_equal(cached, plain)
    np.testing.assert_array_equal(plain[:, : length // 2], tokens[:, : length // 2])
    expected, right = (variant.correct(task) for variant in variants.values())
    np.testing.assert_array_equal(right, expected)


def test_a_suite_with_a_cache_times_what_the_cache_is_for() -> None:
    plain, cached = gpt(False), gpt(True)
    made = benchmark_suite({"plain": plain, "cached": cached}, (TOKENS, TOKENS), batches=(1, 2), repeats=6)
    assert {one.task for one in made.values()} == {"generate 3 of 5 tokens"}
    assert len({float(one.accuracy) for one in made.values()}) == 1
    alone = measure_performance(plain, TOKENS, batches=(1,), repeats=6)
    assert alone.task == "forward"
    with pytest.raises(ValueError, match=r"'forward'.* one benchmark_suite"):
        compare(alone, measure_performance(cached, TOKENS, batches=(1,), repeats=6))
    assert single_stream(cached, TOKENS, queries=6) is not None


@pytest.mark.parametrize(
    ("models", "inputs", "words"),
    [
        ({"cached": gpt(True), "mlp": Linear(5, 3, seed=0)}, TOKENS, "'mlp' is a Linear"),
        ({"cached": gpt(True)}, np.ones((2, 5, 3)), r"\(2, 5, 3\)"),
    ],
)
def test_what_cannot_generate_is_refused_where_a_model_has_a_cache(
    models: dict[str, Module], inputs: np.ndarray, words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        benchmark_suite(models, inputs, batches=(1,), repeats=6)


def test_what_a_measurement_was_taken_under_is_kept() -> None:
    with blas_threads(1):
        one = measure_performance(factory(), batches=(1,), repeats=6)
    assert one.correct is not None
    assert one.correct.size == 12, "the model has examples of its own"
    assert one.conditions is not None
    assert one.conditions.threads in (1, None)
    assert numpy_blas().label() in one.conditions.machine
    assert one.conditions.others >= 0
    other = measure_performance(factory(), np.ones((12, 4), np.float32), batches=(1,), repeats=6)
    with pytest.raises(ValueError, match="answers"):
        one.time / other.time


def test_a_suite_prints_as_a_table() -> None:
    task = scoring(np.ones((3, 4), np.float32), np.zeros(3, int))
    made = benchmark_suite({"baseline": factory(), "b": factory()}, task, batches=(1, 2), repeats=6)
    header, _, *rows, note = str(made).splitlines()
    assert header.split("  ")[0] == "Model"
    assert [row.split()[0] for row in rows] == ["baseline", "b"]
    assert rows[0].endswith("baseline")
    assert f"{float(made['b'].time) * 1e3:#.3g} ms" in rows[1]
    assert note == "Time: one call at batch 1; memory: at batch 2."
    assert "Verdict" not in str(made["b"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: task_of("nothing"), "one of mlp"),
        (lambda: task_of(3), "data must be"),
        (lambda: task_of(np.ones((0, 4), np.float32)), "at least one example"),
        (lambda: task_of((np.ones((2, 4), np.float32), np.zeros(3, int))), "as many as the 2"),
        (lambda: measure_performance(lambda x: x, np.ones((2, 4))), "Module"),
        (lambda: measure_performance(Linear(3, 2, seed=0)), "data"),
        (lambda: measure_performance(factory(), np.ones((2, 4)), batches=(0,)), "batches"),
        (lambda: benchmark_suite({}, np.ones((2, 4))), "model"),
    ],
)
def test_what_cannot_be_used_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_the_baseline_is_trained_on_by_the_plan_of_its_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    large, asked = models.mlp().eval(), dict[str, Any]()

    def trained_on(name: str, model: Module, epochs: int, **how: Any) -> Module:
        asked[variant] = (name, model, epochs, how)
        return model

    monkeypatch.setattr(models, "trained", lambda name, seed=0: large)
    monkeypatch.setattr(zoo, "trained_on", trained_on)
    for variant in zoo.TRAINED:
        if variant != "distilled":
            zoo.trained_variant("mlp", variant)
    name, started, epochs, how = asked["baseline"]
    assert (name, started) == ("mlp", large)
    assert all((other[0], *other[2:]) == (name, epochs, how) for other in asked.values())
    assert set(asked) == {"baseline", "structured", "pruned", "low-rank"}
    with pytest.raises(ValueError, match="variant"):
        zoo.trained_variant("mlp", "cached")


MODEL: Module = Linear(1, 1, seed=0)


class Served:
    """A task that writes down when each call began and ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begins: list[float] = []
        self.ends: list[float] = []

    def task(self) -> Task:
        return Task("made", np.arange(10.0), None, self._perform, scoring(np.ones(1)).right)

    def _perform(self, model: Any, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        self.begins.append(time.perf_counter())
        while time.perf_counter() < self.begins[-1] + self.seconds:
            pass
        self.ends.append(time.perf_counter())
        return inputs


def test_one_after_the_other_a_request_takes_its_own_time() -> None:
    served = Served(1e-4)
    made = single_stream(MODEL, served.task(), queries=20)
    assert (made.n, made.name, len(served.ends)) == (20, "latency, single-stream", 21)
    # From answer to answer: a request arrives when the one before is answered.
    assert np.cumsum(made.samples)[-1] == pytest.approx(served.ends[-1] - served.ends[0], rel=0.1, abs=1e-3)
    assert single_stream(MODEL, served.task(), at_most_seconds=1e-9).n <= 2


def test_latencies_of_a_server_run_from_arrivals_at_random_to_answers_in_their_order() -> None:
    served = Served(1e-3)
    made = server(MODEL, served.task(), 600.0, queries=100, seed=3, at_most_seconds=1000)
    assert made.n == 100
    arrivals = np.array(served.ends[1:]) - made.samples
    expected = np.random.default_rng((3, 1)).exponential(1 / 600, 100)
    # An answer is noted a moment before the instrument has it.
    assert np.diff(arrivals) == pytest.approx(expected[1:], abs=5e-3)
    assert np.median(np.diff(arrivals) - expected[1:]) == pytest.approx(0, abs=1e-4)
    assert all(begin >= arrival - 1e-4 for begin, arrival in zip(served.begins[1:], arrivals, strict=True))
    assert sorted(served.begins) == served.begins
    assert np.mean(made.samples) > 1.2e-3, "some requests waited for those before them"


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="rate"):
        server(MODEL, Served(0).task(), 0)
    with pytest.raises(ValueError, match="at_most_seconds"):
        single_stream(MODEL, Served(0).task(), queries=0)
