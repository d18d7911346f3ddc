"""The checks of the exercises on noise: they pass what is right, and fail what is nearly right."""

from math import ceil, comb, pi

import numpy as np

from tests.perf.answers import Answer, judged_answers
from tinytorch.chapters.noise import exercises
from tinytorch.core.op import Array


def outside(samples: int, comparisons: int) -> int | None:
    chances = [2 * sum(comb(samples, i) for i in range(k + 1)) / 2**samples for k in range(samples // 2)]
    return max((k for k, chance in enumerate(chances) if chance <= 0.05 / comparisons), default=None)


def worth(times: Array, block: int) -> float:
    heads = (times > np.median(times)).reshape(-1, block).sum(axis=1)
    return float(times.size * block / 4 / heads.var(ddof=1))


RIGHT: list[Answer] = [
    (exercises.check_samples_outside, outside),
    (exercises.check_worth, worth),
    (exercises.check_pairs_needed, lambda scatter, d: max(6, ceil(pi / 2 * (3.24 * scatter / d) ** 2))),
    (exercises.check_calls_per_process, lambda start, call, b, w: max(1, round((start / call) ** 0.5 * w / b))),
]

WRONG: list[Answer] = [
    (exercises.check_samples_outside, lambda samples, comparisons: outside(samples, 1)),
    (exercises.check_samples_outside, lambda samples, comparisons: outside(samples, comparisons) or 0),
    (exercises.check_worth, lambda times, block: times.size),
    (exercises.check_worth, lambda times, block: times.size / block),
    (exercises.check_pairs_needed, lambda scatter, d: max(6, ceil((3.24 * scatter / d) ** 2))),
    (exercises.check_pairs_needed, lambda scatter, d: ceil(pi / 2 * (3.24 * scatter / d) ** 2)),
    (exercises.check_calls_per_process, lambda start, call, b, w: 30),
    (exercises.check_calls_per_process, lambda start, call, b, w: max(1, round((start / call) ** 0.5))),
    (exercises.check_calls_per_process, lambda start, call, b, w: 0),
]

test_a_right_answer_passes, test_a_wrong_answer_fails_and_says_what_would_be_right = judged_answers(RIGHT, WRONG)
