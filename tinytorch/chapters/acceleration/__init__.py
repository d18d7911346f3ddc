"""The page on acceleration: one product and one expression in every way, whole models, and other engines."""

from tinytorch.chapters.acceleration.beside import libraries, race_engines, record_engines
from tinytorch.chapters.acceleration.expressions import (
    EXPRESSIONS,
    power_cliff,
    record_expressions,
    record_roof,
    study_expressions,
)
from tinytorch.chapters.acceleration.ladder import (
    STEPS,
    matmul_ladder,
    record_ladder,
    record_second_core,
    record_vectorization,
    second_core,
    vectorization_scaling,
)
from tinytorch.chapters.acceleration.passes import (
    batched_gains,
    begin,
    placed_pass,
    record_answers,
    record_compile,
    record_first_climb,
    record_second_climb,
    record_techniques,
    whole_passes,
)
from tinytorch.chapters.acceleration.plans import record_plan, study_plan

__all__ = [
    "EXPRESSIONS",
    "STEPS",
    "batched_gains",
    "begin",
    "libraries",
    "matmul_ladder",
    "placed_pass",
    "power_cliff",
    "race_engines",
    "record_answers",
    "record_compile",
    "record_engines",
    "record_expressions",
    "record_first_climb",
    "record_ladder",
    "record_plan",
    "record_roof",
    "record_second_climb",
    "record_second_core",
    "record_techniques",
    "record_vectorization",
    "second_core",
    "study_expressions",
    "study_plan",
    "vectorization_scaling",
    "whole_passes",
]
