"""The checks of the exercises on rooflines: they pass what is right, and fail what is nearly right."""

from tests.perf.answers import Answer, judged_answers
from tinytorch.chapters.roofline import exercises
from tinytorch.perf.measuring.statistics import Interval


def limit(intensity: float, peak: Interval, bandwidth: Interval) -> str:
    if intensity < peak.low / bandwidth.high:
        return "memory"
    return "compute" if intensity > peak.high / bandwidth.low else "open"


def limit_of_middles(intensity: float, peak: Interval, bandwidth: Interval) -> str:
    ridge = (peak.low + peak.high) / (bandwidth.low + bandwidth.high)
    return "memory" if intensity < ridge else "compute"


def limit_of_same_ends(intensity: float, peak: Interval, bandwidth: Interval) -> str:
    ends = sorted((peak.low / bandwidth.low, peak.high / bandwidth.high))
    return "memory" if intensity < ends[0] else "compute" if intensity > ends[1] else "open"


RIGHT: list[Answer] = [
    (exercises.check_intensity, lambda m, k, n: 2 * m * k * n / (4 * (m * k + k * n + m * n))),
    (exercises.check_least_seconds, lambda flops, traffic, peak, bandwidth: max(flops / peak, traffic / bandwidth)),
    (exercises.check_rows_to_the_ridge, lambda peak, bandwidth, width: width / 2 * peak / bandwidth),
    (exercises.check_limit, limit),
]

WRONG: list[Answer] = [
    (exercises.check_intensity, lambda m, k, n: m * k * n / (4 * (m * k + k * n + m * n))),
    (exercises.check_intensity, lambda m, k, n: 2 * m * k * n / (4 * (m * k + k * n))),
    (exercises.check_least_seconds, lambda flops, traffic, peak, bandwidth: flops / peak + traffic / bandwidth),
    (exercises.check_least_seconds, lambda flops, traffic, peak, bandwidth: None),
    (exercises.check_rows_to_the_ridge, lambda peak, bandwidth, width: 2 * peak / bandwidth),
    (exercises.check_rows_to_the_ridge, lambda peak, bandwidth, width: width * peak / bandwidth),
    (exercises.check_limit, limit_of_middles),
    (exercises.check_limit, limit_of_same_ends),
]

test_a_right_answer_passes, test_a_wrong_answer_fails_and_says_what_would_be_right = judged_answers(RIGHT, WRONG)
