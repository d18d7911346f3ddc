"""Benchmarking: whole models compared in speed, memory and accuracy, with intervals and verdicts."""

from tinytorch.perf.benchmarking.measuring import benchmark_suite, measure_performance
from tinytorch.perf.benchmarking.pareto import ParetoFront, pareto_front, pareto_frontier, plot_performance_comparison
from tinytorch.perf.benchmarking.performance import Change, Performance, compare
from tinytorch.perf.benchmarking.results import Results, load_results, save_results
from tinytorch.perf.benchmarking.scenarios import server, single_stream

__all__ = [
    "Change",
    "ParetoFront",
    "Performance",
    "Results",
    "benchmark_suite",
    "compare",
    "load_results",
    "measure_performance",
    "pareto_front",
    "pareto_frontier",
    "plot_performance_comparison",
    "save_results",
    "server",
    "single_stream",
]
