"""Operators answer what the standard says, by the cases that the onnx package has for every backend."""

import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.case import node

from tests.perf.onnx.graphs import answers
from tinytorch.perf.onnx import from_onnx
from tinytorch.perf.onnx.reading import operators

#: Modules of cases that take seconds to make, or that none of our operators is in; of pools, `test_operators` has some.
SLOW = {"averagepool", "maxpool", "lppool", "affinegrid", "image_decoder", "_image_decoder_data", "ai_onnx_ml"}
#: Optional values; float16 in another order of sums; peepholes of sequences of given lengths; a length that is no whole
#: number, which ONNX Runtime rounds.
BEYOND = {"test_if_opt", "test_attention_4d_causal_fp16", "test_lstm_with_peepholes"} | {
    f"test_resize_downsample_scales_{kind}_align_corners" for kind in ("linear", "cubic")
}
#: Operators without such a case: slow ones, Cast's of numbers that NumPy has not, and two that are in no standard.
ELSEWHERE = {"AveragePool", "GlobalLpPool", "MaxPool", "Cast", "Constant", "SimplifiedLayerNormalization"}


@cache
def cases() -> dict[str, list[Any]]:
    """Return the cases of each operator whose values are arrays of NumPy's own numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in iter_modules(node.__path__):
            if module.name not in SLOW:
                import_module(f"{node.__name__}.{module.name}")
    found: dict[str, list[Any]] = {}
    for case in node._NodeTestCases:
        nodes, values = case.model.graph.node, [value for side in case.data_sets[0] for value in side]
        numbers = all(isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf" for value in values)
        if len(nodes) == 1 and case.model.graph.input and numbers and case.name not in BEYOND:
            found.setdefault(nodes[0].op_type, []).append(case)
    return found


NAMES = sorted(name for name in operators() if "." not in name and name not in ELSEWHERE)


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_the_standard_s(name: str, tmp_path: Path) -> None:
    """The first input is given with the call, all others as what the file holds."""
    for case in cases()[name]:
        inputs, outputs = case.data_sets[0]
        names = [value.name for value in case.model.graph.input]
        onnx.save(case.model, str(tmp_path / "made.onnx"))
        model = from_onnx(tmp_path / "made.onnx", given=dict(zip(names[1:], map(np.asarray, inputs[1:]), strict=True)))
        with np.errstate(all="ignore"):
            made = answers(model, np.asarray(inputs[0]))
        assert [(each.shape, each.dtype) for each in made] == [(each.shape, each.dtype) for each in outputs], case.name
        for one, expected in zip(made, outputs, strict=True):
            np.testing.assert_allclose(one, expected, rtol=case.rtol, atol=1e-5, err_msg=case.name)
