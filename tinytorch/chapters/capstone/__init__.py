"""The capstone: the whole method on one model, from the plain GPT to the fastest one that holds its accuracy."""

from tinytorch.chapters.capstone.configuration import GOOD_BASELINE, PLAIN, Configuration
from tinytorch.chapters.capstone.ladder import Ladder, climb_ladder
from tinytorch.chapters.capstone.rule import Rule
from tinytorch.chapters.capstone.rungs import performances
from tinytorch.chapters.capstone.steps import STEPS, Step
from tinytorch.chapters.capstone.workload import Workload

__all__ = [
    "GOOD_BASELINE",
    "PLAIN",
    "STEPS",
    "Configuration",
    "Ladder",
    "Rule",
    "Step",
    "Workload",
    "climb_ladder",
    "performances",
]
