"""The capstone: the whole method on one model, from the plain GPT to the fastest one that holds its accuracy."""

from tinytorch.perf.capstone.configuration import GOOD_BASELINE, PLAIN, Configuration, Ready, ready
from tinytorch.perf.capstone.ladder import Ladder, Stage, Trial, climb_ladder
from tinytorch.perf.capstone.prediction import (
    Counted,
    Forecast,
    Profile,
    amdahl_of_parts,
    counted,
    forecast,
    profiled,
)
from tinytorch.perf.capstone.rule import Rule
from tinytorch.perf.capstone.rungs import (
    COMBINED,
    on_all_cores,
    performances,
    product_configurations,
)
from tinytorch.perf.capstone.steps import STEPS, Move, Step, name_of, step_named
from tinytorch.perf.capstone.workload import Workload, accuracy_change, correct, new_questions, predicted_bytes

__all__ = [
    "COMBINED",
    "GOOD_BASELINE",
    "PLAIN",
    "STEPS",
    "Configuration",
    "Counted",
    "Forecast",
    "Ladder",
    "Move",
    "Profile",
    "Ready",
    "Rule",
    "Stage",
    "Step",
    "Trial",
    "Workload",
    "accuracy_change",
    "amdahl_of_parts",
    "climb_ladder",
    "correct",
    "counted",
    "forecast",
    "name_of",
    "new_questions",
    "on_all_cores",
    "performances",
    "predicted_bytes",
    "product_configurations",
    "profiled",
    "ready",
    "step_named",
]
