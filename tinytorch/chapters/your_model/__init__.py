"""The page on a reader's own model: from a file of another framework to a verdict, and what to do about it."""

from tinytorch.chapters.your_model.subject import FILE, LINES, lines, right_answers, trees
from tinytorch.chapters.your_model.verdicts import (
    begin,
    place_kinds,
    record_answers,
    record_kinds,
    record_pass,
    record_read,
    record_remains,
    record_techniques,
    show_counts,
)

__all__ = [
    "FILE",
    "LINES",
    "begin",
    "lines",
    "place_kinds",
    "record_answers",
    "record_kinds",
    "record_pass",
    "record_read",
    "record_remains",
    "record_techniques",
    "right_answers",
    "show_counts",
    "trees",
]
