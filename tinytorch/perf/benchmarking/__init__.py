"""Benchmarking: whole models compared in speed, memory and accuracy, with intervals and verdicts."""

from tinytorch.perf.benchmarking.comparing import compare_processes
from tinytorch.perf.benchmarking.measuring import benchmark_suite, measure_performance
from tinytorch.perf.benchmarking.pareto import ParetoFront, pareto_front, pareto_frontier, plot_performance_comparison
from tinytorch.perf.benchmarking.performance import (
    Change,
    Performance,
    Performances,
    RunConditions,
    compare,
    compare_with_first,
    kept_of_product,
)
from tinytorch.perf.benchmarking.regressions import ResultsChange, compare_results
from tinytorch.perf.benchmarking.results import (
    Plan,
    Results,
    differences,
    load_results,
    results_from_json,
    results_to_json,
    save_results,
)
from tinytorch.perf.benchmarking.running import Side, continued, run, started
from tinytorch.perf.benchmarking.scenarios import server, single_stream
from tinytorch.perf.benchmarking.variants import Task, Variant, scoring, sorting_generation, task_of, zoo_task
from tinytorch.perf.benchmarking.zoo import subject_of, suite, suite_names

__all__ = [
    "Change",
    "ParetoFront",
    "Performance",
    "Performances",
    "Plan",
    "Results",
    "ResultsChange",
    "RunConditions",
    "Side",
    "Task",
    "Variant",
    "benchmark_suite",
    "compare",
    "compare_processes",
    "compare_results",
    "compare_with_first",
    "continued",
    "differences",
    "kept_of_product",
    "load_results",
    "measure_performance",
    "pareto_front",
    "pareto_frontier",
    "plot_performance_comparison",
    "results_from_json",
    "results_to_json",
    "run",
    "save_results",
    "scoring",
    "server",
    "single_stream",
    "sorting_generation",
    "started",
    "subject_of",
    "suite",
    "suite_names",
    "task_of",
    "zoo_task",
]
