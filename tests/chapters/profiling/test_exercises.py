"""The checks of the exercises on profiling: they pass what is right, and fail what is nearly right."""

from typing import Any

from tests.perf.answers import Answer, judged_answers
from tinytorch.chapters.profiling import exercises


def bottleneck(rows: list[Any]) -> str:
    seconds: dict[str, float] = {}
    for row in rows:
        seconds[row.op] = seconds.get(row.op, 0) + row.self_seconds
    return max(seconds, key=lambda op: seconds[op])


RIGHT: list[Answer] = [
    (exercises.check_linear_flops, lambda width, out, rows: 2 * width * out * rows),
    (
        exercises.check_overall_speedup,
        lambda shares, speedups: 1 / (1 - sum(shares) + sum(p / s for p, s in zip(shares, speedups, strict=True))),
    ),
    (exercises.check_bottleneck, bottleneck),
]

WRONG: list[Answer] = [
    (exercises.check_linear_flops, lambda width, out, rows: width * out * rows),
    (exercises.check_linear_flops, lambda width, out, rows: 2 * width * out),
    (exercises.check_overall_speedup, lambda shares, speedups: sum(speedups) / len(speedups)),
    (exercises.check_overall_speedup, lambda shares, speedups: 1 / (1 - sum(shares))),
    (exercises.check_bottleneck, lambda rows: min(rows, key=lambda row: row.self_seconds).op),
]

test_a_right_answer_passes, test_a_wrong_answer_fails_and_says_what_would_be_right = judged_answers(RIGHT, WRONG)
