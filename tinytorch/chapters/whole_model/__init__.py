"""The page on a whole model: what an expression moves, what calls cost, and which technique a workload asks for."""

from tinytorch.chapters.whole_model.beside import libraries, race_engines, record_engines
from tinytorch.chapters.whole_model.expressions import (
    EXPRESSIONS,
    claim_fusion,
    power_cliff,
    record_cliff,
    record_expressions,
    study_expressions,
)
from tinytorch.chapters.whole_model.passes import (
    batched_gain,
    begin,
    record_answers,
    record_climb,
    record_proof,
    record_situations,
    record_techniques,
    training_steps,
    whole_passes,
)
from tinytorch.chapters.whole_model.plans import calls_by_size, record_calls, record_plan, study_plan

__all__ = [
    "EXPRESSIONS",
    "batched_gain",
    "begin",
    "calls_by_size",
    "claim_fusion",
    "libraries",
    "power_cliff",
    "race_engines",
    "record_answers",
    "record_calls",
    "record_cliff",
    "record_climb",
    "record_engines",
    "record_expressions",
    "record_plan",
    "record_proof",
    "record_situations",
    "record_techniques",
    "study_expressions",
    "study_plan",
    "training_steps",
    "whole_passes",
]
