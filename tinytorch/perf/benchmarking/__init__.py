"""Benchmarking: whole models compared in speed, memory and accuracy, with intervals and verdicts."""

from tinytorch.perf.benchmarking.between_runs import compare_processes
from tinytorch.perf.benchmarking.comparing import Change, SizeChange, compare, compare_with_first
from tinytorch.perf.benchmarking.measuring import benchmark_suite, measure_performance
from tinytorch.perf.benchmarking.pareto import ParetoFront, pareto_front
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.plot import plot_performance_comparison
from tinytorch.perf.benchmarking.results import Plan, Results, differences
from tinytorch.perf.benchmarking.results_json import load_results, results_from_json, results_to_json, save_results
from tinytorch.perf.benchmarking.running import Side, continued, run, started
from tinytorch.perf.benchmarking.subjects import subject_of
from tinytorch.perf.benchmarking.task import Task, scoring, sorting_generation, task_of, zoo_task
from tinytorch.perf.benchmarking.variants import Variant
from tinytorch.perf.benchmarking.zoo import suite, suite_names

__all__ = [
    "Change",
    "ParetoFront",
    "Performance",
    "Plan",
    "Results",
    "Side",
    "SizeChange",
    "Task",
    "Variant",
    "benchmark_suite",
    "compare",
    "compare_processes",
    "compare_with_first",
    "continued",
    "differences",
    "load_results",
    "measure_performance",
    "pareto_front",
    "plot_performance_comparison",
    "results_from_json",
    "results_to_json",
    "run",
    "save_results",
    "scoring",
    "sorting_generation",
    "started",
    "subject_of",
    "suite",
    "suite_names",
    "task_of",
    "zoo_task",
]
