"""Exercises: the skeleton that a reader begins with, and and the chapters' own."""

import ast
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jupytext  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_book.notebooks.exercises import exercise_skeleton, exercises_in
from sources import exercises_of, read_source

from tests.chapters.made_turns import in_turns
from tinytorch.perf.measuring import Measurement

BOOK = Path(__file__).resolve().parents[3] / "book"

SOLUTION = '''from math import sqrt

@staticmethod
def norm(x, y=0):
    """Return the length.

    Of a vector.
    """
    total = x * x + y * y
    return sqrt(total)


def twice(x):
    return 2 * x
'''


def test_bodies_go_and_all_else_stays() -> None:
    assert exercise_skeleton(SOLUTION) == (
        "from math import sqrt\n\n@staticmethod\ndef norm(x, y=0):\n"
        '    """Return the length.\n\n    Of a vector.\n    """\n    raise NotImplementedError("write norm")\n\n\n'
        'def twice(x):\n    raise NotImplementedError("write twice")\n'
    )


def test_a_function_on_one_line_and_one_of_words_alone_become_empty_too() -> None:
    for source in ("def f(x): return 2 * x\n", 'def f(x):\n    """Words."""\n', "def f(\n    x,\n):\n    return x\n"):
        space: dict[str, object] = {}
        exec(exercise_skeleton(source), space)
        with pytest.raises(NotImplementedError, match="write f"):
            space["f"](1)  # type: ignore[operator]


@given(
    st.lists(
        st.sampled_from(["x = 1", "return x", "if x:\n        return 2", "# words", "for i in x:\n        pass"]),
        min_size=1,
    )
)
def test_a_skeleton_is_python_and_has_the_solutions_names(body: list[str]) -> None:
    lines = "\n    ".join(["pass", *body])
    source = f"import math\ndef first(x):\n    {lines}\n\ndef second(a, *, b):\n    return b\n"
    found = ast.parse(exercise_skeleton(source)).body
    assert [ast.unparse(node.args) for node in found if isinstance(node, ast.FunctionDef)] == ["x", "a, *, b"]
    assert all(isinstance(node.body[-1], ast.Raise) for node in found if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("source", "why"), [("def", "line 1"), ("x = 1", "must define a function")])
def test_what_cannot_be_an_exercise_is_refused(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        exercise_skeleton(source)


#: Needs every variant of the GPT trained: the build runs it on its page, and its own tests do with made models.
TRAINS_FOR_MINUTES = "capstone.beat_capstone"


class Exercise(NamedTuple):
    """What the notebook of an exercise imports, the solution, and its check."""

    imports: str
    solution: str
    check: str

    def told(self, solution: str) -> str:
        """Return what the check says of a solution: nothing else of the chapter runs."""
        space: dict[str, Any] = {}
        exec(self.imports, space)
        exec(solution, space)
        return str(eval(self.check, space))


def _exercises() -> Iterator[tuple[str, Exercise]]:
    for path in sorted(BOOK.glob("*.md")):
        pairs = exercises_of(read_source(path.read_text("utf-8")))
        notebooks = exercises_in(jupytext.read(path, fmt="md:myst").cells, path.stem)
        for (solution, _), (_, (_, imports, _, check)) in zip(pairs, notebooks, strict=True):
            name = check.source.partition("(")[0].removeprefix("exercises.check_")
            yield f"{path.stem}.{name}", Exercise(imports.source, "\n".join(solution.code), check.source)


EXERCISES = dict(_exercises())


@pytest.fixture(autouse=True)
def _no_other_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a reader's function take half of what it is held against, and a clock not count what others run."""

    def taken(functions: Mapping[str, Callable[[], Any]], **_plan: float) -> dict[str, Measurement]:
        for function in functions.values():
            function()
        return in_turns(dict(zip(functions, (2.0, 1.0), strict=True)))

    for chapter in ("acceleration", "whole_model"):
        monkeypatch.setattr(f"tinytorch.chapters.{chapter}.exercises.interleave", taken)
    monkeypatch.setattr(time, "perf_counter", time.thread_time)


@pytest.mark.parametrize("name", EXERCISES)
def test_a_chapters_check_fails_the_skeleton_by_name_and_a_function_that_returns_nothing(name: str) -> None:
    exercise = EXERCISES[name]
    with pytest.raises(AssertionError, match=r"^\w+ is not written yet: replace the line"):
        exercise.told(exercise_skeleton(exercise.solution))
    # Without decorators, as Numba would refuse such a function before any check can.
    empty = exercise_skeleton(re.sub(r"^@.*$", "", exercise.solution, flags=re.MULTILINE))
    with pytest.raises(AssertionError) as told:
        exercise.told(empty.replace("raise NotImplementedError", "str"))
    assert len(str(told.value).split()) > 4


@pytest.mark.parametrize("name", sorted(EXERCISES.keys() - {TRAINS_FOR_MINUTES}))
def test_a_chapters_check_accepts_the_solution(name: str) -> None:
    assert ": passed." in EXERCISES[name].told(EXERCISES[name].solution)


#: What breaks the solution of each exercise: a part of it → what stands there then. Each is a mistake that is made.
BREAKS = r"""
acceleration.best_tile: rows * vectors + vectors + 1 → rows * vectors ;; return min → return max
acceleration.by_rows: += → = ;; b[k] → b[0] ;; range(a.shape[1]) → range(1, a.shape[1])
acceleration.panels: -(-columns // width) → columns // width + 1
acceleration.panels: np.ascontiguousarray(strips.swapaxes(0, 1)) → strips.swapaxes(0, 1) ;; np.zeros → np.ones
benchmarking.flaw: not in → in ;; old.blas_threads != → old.blas_threads == ;; old.caches != → old.caches ==
benchmarking.flaw: > 1, → > 2, ;; median > 1.1 → median < 1.1
benchmarking.choose: .high → .low ;; one.nbytes <= → one.nbytes >= ;; return max → return min
benchmarking.choose: one.accuracy → -one.nbytes
benchmarking.regression: not again.interval.low <= 1 <= again.interval.high → False
benchmarking.regression: changed.interval.high < 1 → changed.median < 2 ;; changed.interval.high < 1 → False
benchmarking.seconds_needed: 0.05 / benchmarks → 0.05 ;; (z + 1.28) → z ;; pi / 2 * →  ;; ** 2 * pair → ** 2
better_rounding.choose_layers: -row.error → row.error ;;  / row.saved_bytes → ;; extra_bytes -= row.saved_bytes → pass
better_rounding.choose_layers: row.saved_bytes <= extra_bytes → True
better_rounding.e4m3: , -6 → , -7 ;; exponent - 3 → exponent - 2 ;; floor(log2 → round(log2
better_rounding.second: w[1] - → w[1] + ;; h[1, 0] / h[1, 1] → h[1, 0] / h[0, 0] ;;  / h[1, 1] →
capstone.predicted: time * ratio → time / ratio ;; sum(seconds) / sum(after) → sum(after) / sum(seconds)
capstone.keep: 1 + matters → 1 ;; gained.low → gained.high ;; >= -budget → >= 0 ;; matters and → matters or
compression.prune: .copy() → ;; np.abs(flat) → flat ;; order[:round → order[round
compression.prune: sparsity * flat.size → sparsity * len(weight)
compression.csr_bytes: (4 + 2) → (4 + 4) ;; (1 - sparsity) → sparsity ;; outputs + 1 → outputs
compression.remove_neurons: np.setdiff1d(np.arange(len(bias)), gone) → gone ;; second[kept] → second
compression.remove_neurons: bias[kept] → bias[: len(kept)] ;; first[:, kept] → first[:, : len(kept)]
distributed.straggler: late = max → late = min ;; return max → return min ;; = cost.get(late, 0) + waited → = waited
distributed.straggler: entry.start → -entry.start
distributed.most_ranks: 2 * (p - 1) → (p - 1) ;; nbytes / p → nbytes ;; alpha + nbytes → nbytes
distributed.most_ranks: return max → return min
distributed.choose_split: return min → return max ;; one.memory.total <= memory → True ;; if fit else None →
memoization.cache_bytes: return 2 * → return ;; * layers → ;; * heads → ;; * itemsize → * 4
memoization.saved_flops: position + 1 → position ;; return layers * → return ;; again - once → again
memoization.append: > memory.shape[1] → >= memory.shape[1] ;; return memory[:, :end] → return new
memoization.append: return memory[:, :end] → return memory[:, :end].copy() ;; position:end] = new → :end] = new
memoization.append: raise ValueError( → print( ;; end > memory.shape[1] → position > memory.shape[1]
memory.in_blocks: range(0, x.size, block) → range(0, x.size - block, block) ;; np.negative(to, out=to) → pass
memory.in_blocks: part, part → part, 2 ;; start + block] → ]
memory.least_seconds: return max → return min ;; 64 * lines → lines ;;  / in_flight →
memory.lines_touched: 4 * stride → stride ;; address +  → ;; // 64 → // 128
memory.sets_used: // 64  → ;; row *  → ;;  % sets →
noise.calls_per_process: within / between → between / within ;;  ** 0.5 → ;; start / call → call / start
noise.calls_per_process: max(1, round( → round(max(0,
noise.effective_sample_size: (block / 4) → block ;; > np.median(times) → > 1.01 * np.median(times) ;; times.size * ( → (
noise.pairs_needed: np.pi / 2 *  → ;;  / difference) ** 2 →  / difference) ;; max(6,  → max(1,
noise.samples_outside: = None, 0 → = 0, 0 ;;  / comparisons → ;; below += → below =
profiling.linear_flops: return 2 * → return ;;  * rows →
profiling.latency: np.median → np.mean ;; range(warm_ups) → range(0) ;; range(runs) → range(warm_ups) ;; - start →
profiling.peak_bytes: max(peak, alive) → alive ;; alive += change → alive = change
profiling.overall_speedup: 1 - sum(shares) → 0 ;; share / speedup → share * speedup ;; 1 / (rest → (rest
profiling.bottleneck: return max → return min ;; seconds.get(row.op, 0) +  →
quantization.scale_and_zero_point: min(low, 0) → low ;; max(high, 0) → high ;; / 255 → / 256 ;; -128 -  → -127 -
quantization.breaks_naive: [100.0, 100.5, 101.0] → [-1.0, 0.0, 1.0] ;; [100.0, 100.5, 101.0] → []
quantization.predicted_decibels: 2**bits - 1 → 2**bits ;; / 12 → / 6 ;; values.max() → abs(values).max()
roofline.intensity: 2 * rows → rows ;; 4 * ( → ( ;;  + rows * columns →
roofline.least_seconds: return max → return min ;; flops / peak → 0 ;; traffic / bandwidth → 0
roofline.limit: peak.low / bandwidth.high → peak.high / bandwidth.low ;; "open" → "compute"
roofline.rows_to_the_ridge: / 2 * → * ;; peak / bandwidth → bandwidth / peak ;; bytes_of_a_weight / 2 → 2
serving.tokens_per_second: batch * cache → cache ;; return batch / → return 1 / ;; calls + →
serving.tokens_of_a_call: guesses + 1 → guesses ;; right**k → right
serving.pages: page - 1 → page ;; (length + page - 1) // page → length // page
whole_model.moved_bytes: 4 * n → 8 * n ;; 0 if isinstance(node, ast.Call) else 1 → 1
whole_model.moved_bytes: and not isinstance(each, ast.Constant) →
whole_model.moved_bytes: ast.BinOp | ast.UnaryOp | ast.Call → ast.BinOp | ast.Call
whole_model.fused_silu: x * sigmoid(x) → sigmoid(x) ;; sigmoid(x) → sigmoid(-x)
whole_model.next_part: return max → return min ;; seconds[name] *  → ;; (1 - 1 / possible[name]) → 1
"""


BROKEN = [
    (name, *(part.strip() for part in change.split("→")))
    for name, _, changes in (row.partition(": ") for row in BREAKS.strip().splitlines())
    for change in changes.split(";;")
]


def test_each_exercise_has_breaks() -> None:
    assert EXERCISES.keys() - {TRAINS_FOR_MINUTES} == {name for name, *_ in BROKEN}


@pytest.mark.parametrize(("name", "old", "new"), BROKEN)
def test_a_chapters_check_fails_a_broken_solution(name: str, old: str, new: str) -> None:
    exercise = EXERCISES[name]
    assert old in exercise.solution, "the solution has changed: break it elsewhere"
    with pytest.raises((AssertionError, ValueError, ZeroDivisionError)):
        exercise.told(exercise.solution.replace(old, new, 1))
