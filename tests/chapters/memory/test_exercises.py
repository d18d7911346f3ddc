"""The checks of the exercises on memory: they pass what is right, and fail what is nearly right."""

import numpy as np

from tests.perf.answers import Answer, judged_answers
from tinytorch.chapters.memory import exercises
from tinytorch.chapters.memory.exercises import Floats


def bell(x: Floats, out: Floats, block: int) -> None:
    for start in range(0, x.size, block):
        part, to = x[start : start + block], out[start : start + block]
        np.multiply(part, part, out=to)
        np.negative(to, out=to)
        np.exp(to, out=to)


def whole_bell(x: Floats, out: Floats, block: int) -> None:
    out[:] = np.exp(-x * x)


def bell_without_the_rest(x: Floats, out: Floats, block: int) -> None:
    for start in range(0, x.size // block * block, block):
        bell(x[start : start + block], out[start : start + block], block)


RIGHT: list[Answer] = [
    (
        exercises.check_lines_touched,
        lambda address, count, stride: len({(address + 4 * stride * i) // 64 for i in range(count)}),
    ),
    (
        exercises.check_sets_used,
        lambda rows, row_bytes, sets: len({row * row_bytes // 64 % sets for row in range(rows)}),
    ),
    (exercises.check_least_seconds, lambda lines, wait, many, speed: max(lines * wait / many, 64 * lines / speed)),
    (exercises.check_in_blocks, bell),
]

WRONG: list[Answer] = [
    (exercises.check_lines_touched, lambda address, count, stride: -(-count * stride // 16)),
    (exercises.check_lines_touched, lambda address, count, stride: count),
    (exercises.check_sets_used, lambda rows, row_bytes, sets: min(rows, sets)),
    (exercises.check_sets_used, lambda rows, row_bytes, sets: None),
    (exercises.check_least_seconds, lambda lines, wait, many, speed: lines * wait / many + 64 * lines / speed),
    (exercises.check_least_seconds, lambda lines, wait, many, speed: max(lines * wait, 64 * lines / speed)),
    (exercises.check_in_blocks, whole_bell),
    (exercises.check_in_blocks, bell_without_the_rest),
]

test_a_right_answer_passes, test_a_wrong_answer_fails_and_says_what_would_be_right = judged_answers(RIGHT, WRONG)
