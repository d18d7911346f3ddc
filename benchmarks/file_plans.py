"""Plans of models that PyTorch exported: against the same model without a plan, and against ONNX Runtime, one thread.

    python -m benchmarks.file_plans [--rounds 15] [name ...]

Weights are random, and answers are compared first. The target is at most 1.0 of the time of the model itself, on
NumPy's ops and on the compiled kernels, and at most 1.0 of ONNX Runtime's. All take turns in one process.
"""

from __future__ import annotations

import argparse
import io
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
import torch
import transformers
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.conditions import one_core
from tinytorch.core.dispatch import no_grad
from tinytorch.core.op import Array
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.measuring import interleave, ratio
from tinytorch.perf.onnx import from_onnx

#: Largest difference of answers, relative to the largest of them.
TOLERANCE = 1e-4
AT_MOST = 1.0


class Plain(nn.Module):  # type: ignore[misc]
    """A model of transformers that returns its first tensor alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        more = {"use_cache": False} if hasattr(self.model.config, "use_cache") else {}
        return self.model(x, return_dict=False, **more)[0]


class Lines(nn.Module):  # type: ignore[misc]
    """Text of an image of a line, as in B. Shi et al., arXiv:1507.05717: convolutions, two LSTMs both ways, letters."""

    def __init__(self) -> None:
        super().__init__()

        def layer(channels: int, out: int, kernel: int = 3, padding: int = 1) -> list[nn.Module]:
            return [nn.Conv2d(channels, out, kernel, padding=padding), nn.BatchNorm2d(out), nn.ReLU()]

        self.seen = nn.Sequential(
            *layer(1, 64), nn.MaxPool2d(2), *layer(64, 128), nn.MaxPool2d(2), *layer(128, 256), *layer(256, 256),
            nn.MaxPool2d((2, 1)), *layer(256, 512), nn.MaxPool2d((2, 1)), *layer(512, 512, 2, 0),
        )  # fmt: skip
        self.along, self.letters = nn.LSTM(512, 256, 2, bidirectional=True), nn.Linear(512, 97)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        along, _ = self.along(self.seen(x).squeeze(2).permute(2, 0, 1))
        return self.letters(along).log_softmax(-1)


def _of(kind: str, head: str, **sizes: Any) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        config = getattr(transformers, f"{kind}Config")(**sizes)
        return Plain(getattr(transformers, f"{kind}{head}")(config))

    return made


def _tokens(count: int, vocabulary: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, vocabulary, (1, count)))


_SMALL_BERT = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048}
_IMAGE = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
MODELS: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "gpt2-small": (_of("GPT2", "LMHeadModel"), _tokens(64, 50_257)),
    "bert-small": (_of("Bert", "Model", **_SMALL_BERT), _tokens(128, 30_522)),
    "resnet-18": (
        _of("ResNet", "ForImageClassification", layer_type="basic", depths=[2] * 4, hidden_sizes=[64, 128, 256, 512]),
        _IMAGE,
    ),
    "mobilenet-v2": (_of("MobileNetV2", "ForImageClassification", tf_padding=False), _IMAGE),
    "lines-of-text": (Lines, _IMAGE[:, :1, :32, :160].contiguous()),
}


def exported(name: str, folder: Path) -> tuple[Path, Array]:
    """Return the file that PyTorch writes of a model, and an input."""
    make, x = MODELS[name]
    torch.manual_seed(0)
    model, path, said = make().eval(), folder / "model.onnx", io.StringIO()
    with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said):
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), str(path), dynamo=True)
    return path, x.numpy()


def runners(path: Path, x: Array) -> dict[str, Callable[[], Array]]:
    """Return a forward of each: the plan, ONNX Runtime, and the model itself on NumPy's ops and on the kernels."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: x}
    model = from_onnx(path)
    planned = plan(model, x)

    def eager() -> Array:
        with no_grad():
            made: Array = model(x).data
        return made

    def on_kernels() -> Array:
        with accelerated():
            return eager()

    return {
        "plan": lambda: planned(x).data,
        "ONNX Runtime": lambda: session.run(None, given)[0],
        "model": eager,
        "on kernels": on_kernels,
    }


def main(arguments: list[str]) -> int:
    """Print the times and ratios; return 1 if the interval of a ratio lies wholly above its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*MODELS, []], help="all if none is named")
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args(arguments)
    table = Table("model", "plan (ms)", "plan over", "ms", "ratio", "verdict", title=f"target: at most {AT_MOST:g}")
    missed = 0
    with one_core() as conditions, TemporaryDirectory() as folder:
        torch.set_num_threads(1)
        for name in asked.names or MODELS:
            runs = runners(*exported(name, Path(folder)))
            expected = runs["ONNX Runtime"]()
            for who, run in runs.items():
                np.testing.assert_allclose(
                    run(), expected, rtol=0, atol=TOLERANCE * np.abs(expected).max(), err_msg=who
                )
            times = interleave(runs, repeats=asked.rounds, at_most_seconds=60)
            for other in [each for each in runs if each != "plan"]:
                found = ratio(times["plan"], times[other])
                low, high = found.interval.low, found.interval.high
                verdict = "met" if high <= AT_MOST else "missed" if low > AT_MOST else "unclear"
                missed += verdict == "missed"
                ms = [f"{times[who].median * 1e3:.2f}" for who in ("plan", other)]
                table.add_row(name, ms[0], other, ms[1], f"{found.median:.2f} [{low:.2f}, {high:.2f}]", verdict)
    console = Console(width=110)
    console.print(conditions, f"ONNX Runtime {onnxruntime.__version__}, models by PyTorch {torch.__version__}.")
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
