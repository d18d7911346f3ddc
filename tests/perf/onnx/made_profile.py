"""A profile of a file in ONNX Runtime whose times are given, so that each gain is known by hand."""

from collections.abc import Mapping
from pathlib import Path

from tests.perf.onnx.graphs import Made
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.onnx.nodes import Graph, Origins, Row, Work
from tinytorch.perf.onnx.runtime import Calibration, NodeTimes, Settings
from tinytorch.perf.onnx.runtime_profile import RuntimeProfile

#: Rounds, and what one more node costs at least.
ROUNDS, NODE = 6, 1e-6


def made_profile(
    folder: Path,
    graph: Made,
    seconds: Mapping[str, float],
    *,
    latency: float,
    works: Mapping[str, Work] | None = None,
    call: float = 0.0,
    scale: float = 1.0,
    cores: int = 1,
    ceilings: Ceilings | None = None,
) -> RuntimeProfile:
    """Return the profile on one thread of a graph whose nodes, by the operator and its number, take ``seconds``."""

    def measured(name: str, value: float) -> Measurement:
        return Measurement(name, (value,) * ROUNDS, "s", Conditions(blas_threads=1))

    for node in graph.nodes:
        node.name = node.output[0]
    path = graph.file(folder)
    ran = Graph(path)
    rows = [
        Row(
            node.name, node.kind, "", (seconds[node.name],) * ROUNDS, (works or {}).get(node.name, Work()), None, (),
            ("float",), ((1,),), "", node.reads, node.outputs,
        )
        for node in ran.nodes
    ]  # fmt: skip
    nodes = {row.name: row.seconds for row in rows}
    times = NodeTimes(measured("latency", latency), measured("the call", call), nodes, scale, 1.1)
    return RuntimeProfile(
        path, Settings(1), {}, times, tuple(sorted(rows, key=lambda row: -row.middle)), Work(), Origins({}, ()),
        Calibration((NODE,) * ROUNDS, 0.0, 0.0), 0, 0, 0.0, cores, ran, (), ceilings,
    )  # fmt: skip
