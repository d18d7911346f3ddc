"""Architectures that PyTorch's two exporters write, over several opsets: read, they answer as ONNX Runtime.

All weights are random, and nothing is downloaded. What PyTorch does not export, or ONNX Runtime does not run, says
nothing of the reader and is left out.
"""

import io
import multiprocessing
import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional

from peers.agreement import runtime
from peers.test_onnx import MODELS, Residual, tokens
from tests.perf.onnx.graphs import answers, assert_same
from tinytorch.core.op import Array
from tinytorch.perf.onnx import count_onnx, from_onnx
from tinytorch.perf.onnx.nodes import Graph, Work
from tinytorch.perf.onnx.runtime import File, Settings

#: Largest difference, relative to the largest element.
TOLERANCE = 1e-5
#: The first, one between, and the last that each exporter writes.
OPSETS = {"TorchScript": (13, 17, 20), "dynamo": (18, 21, 23)}
#: What comes of an export.
EQUAL, UNREAD, UNEQUAL, UNEXPORTED, UNRUN = "=?!-x"

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Of(nn.Module):  # type: ignore[misc]
    """Modules with a forward of their own."""

    def __init__(self, forward: Callable[..., torch.Tensor], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if isinstance(part, torch.Tensor) else part)
        self.of = forward

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.of(self, *inputs)


def norm_conv(channels: int, out: int, kernel: int = 3, **how: Any) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, out, kernel, **how), nn.BatchNorm2d(out), nn.ReLU())


def image(channels: int = 3, size: int = 32) -> torch.Tensor:
    return torch.randn(2, channels, size, size)


def row(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def unet() -> Made:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        first = m.down(x)
        low = m.deep(functional.max_pool2d(first, 2))
        return m.last(torch.cat([first, m.up(low)], 1)).sigmoid()

    parts = {"down": norm_conv(3, 8, padding=1), "deep": norm_conv(8, 16, padding=1)}
    return Of(forward, **parts, up=nn.ConvTranspose2d(16, 8, 2, 2), last=nn.Conv2d(16, 1, 1)), (image(),)


def densenet() -> Made:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        for layer in m.layers:
            x = torch.cat([x, layer(x)], 1)
        return m.head(functional.adaptive_avg_pool2d(functional.avg_pool2d(x, 2), 1).flatten(1))

    layers = nn.ModuleList(norm_conv(3 + 4 * i, 4, padding=1) for i in range(3))
    return Of(forward, layers=layers, head=nn.Linear(15, 5)), (image(),)


def shufflenet() -> Made:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = m.stem(x)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        left, right = x.chunk(2, 1)
        return torch.cat([left, m.depth(right)], 1).flatten(2).amax(2)

    return Of(forward, stem=norm_conv(3, 8, 1, groups=1), depth=norm_conv(4, 4, padding=1, groups=4)), (image(),)


def convnext() -> Made:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = m.stem(x)
        y = m.norm(m.depth(x).permute(0, 2, 3, 1))
        return x + (m.scale * m.down(functional.gelu(m.up(y)))).permute(0, 3, 1, 2)

    parts = {"stem": nn.Conv2d(3, 8, 4, 4), "depth": nn.Conv2d(8, 8, 7, padding=3, groups=8), "norm": nn.LayerNorm(8)}
    return Of(forward, **parts, up=nn.Linear(8, 32), down=nn.Linear(32, 8), scale=row(8)), (image(),)


def windows() -> Made:
    """As in Swin: rolled windows with attention inside."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        n, h, w, c = x.shape
        x = torch.roll(x, (-2, -2), (1, 2))
        parts = x.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = m.qkv(m.norm(parts)).view(-1, 16, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = ((q @ k.transpose(-2, -1)) * 0.5 + m.bias).softmax(-1) @ v
        parts = m.out(mixed.transpose(1, 2).reshape(-1, 16, c))
        x = parts.view(n, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        return torch.roll(x, (2, 2), (1, 2))

    parts = {"norm": nn.LayerNorm(8), "qkv": nn.Linear(8, 24), "out": nn.Linear(8, 8), "bias": row(2, 16, 16)}
    return Of(forward, **parts), (row(2, 8, 8, 8),)


def experts() -> Made:
    """A mixture: the two best of four for each token."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        weights, best = m.router(x).softmax(-1).topk(2, -1)
        chosen = torch.zeros(x.shape[0], 4).scatter(1, best, weights)
        return torch.einsum("bo,boi->bi", chosen, torch.stack([expert(x) for expert in m.experts], 1))

    return Of(forward, router=nn.Linear(8, 4), experts=nn.ModuleList(nn.Linear(8, 6) for _ in range(4))), (row(5, 8),)


def upsampled(mode: str) -> Callable[[], Made]:
    def made() -> Made:
        aligned = {} if mode == "nearest" else {"align_corners": False}
        return nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.Upsample(scale_factor=2, mode=mode, **aligned)), (image(),)

    return made


def shuffled_pixels() -> Made:
    return nn.Sequential(nn.Conv2d(3, 12, 3, 1, 1), nn.PReLU(12), nn.PixelShuffle(2), nn.Tanh()), (image(),)


def volumes() -> Made:
    parts = (nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 4, (1, 3, 3)))
    return nn.Sequential(*parts, nn.AdaptiveAvgPool3d(1), nn.Flatten()), (row(2, 2, 6, 8, 8),)


def gated_lines() -> Made:
    """As in WaveNet: dilated causal convolutions with gates."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(m.layers):
            y = layer(functional.pad(x, (2**number, 0)))
            x = x + y[:, :4].tanh() * y[:, 4:].sigmoid()
        return x

    layers = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2**i) for i in range(4))
    return Of(forward, layers=layers), (row(2, 4, 30),)


def transformer_of_places() -> Made:
    """As in a spatial transformer: an image sampled along a grid that the net makes."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        angles = m.where(functional.adaptive_avg_pool2d(x, 2).flatten(1)).view(-1, 2, 3)
        across = torch.linspace(-1, 1, 9)
        ones = torch.ones(9, 9)
        places = torch.stack([across.expand(9, 9), across[:, None].expand(9, 9), ones], -1).view(-1, 3)
        grid = (places @ angles.transpose(1, 2)).view(-1, 9, 9, 2)
        return functional.grid_sample(x, grid, align_corners=False)

    return Of(forward, where=nn.Linear(12, 6)), (image(),)


def dilated() -> Made:
    """As in DeepLab: pyramids of dilated convolutions, made as large as the image again."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.stem(x)
        y = torch.cat([layer(y) for layer in m.layers], 1)
        return functional.interpolate(m.head(y), size=x.shape[2:], mode="bilinear", align_corners=True).argmax(1)

    layers = nn.ModuleList(norm_conv(6, 4, padding=rate, dilation=rate) for rate in (1, 2, 4))
    return Of(forward, stem=norm_conv(3, 6, stride=2, padding=1), layers=layers, head=nn.Conv2d(12, 5, 1)), (image(),)


def points() -> Made:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.head(torch.logsumexp(m.each(x.transpose(1, 2)), 2))

    each = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1))
    return Of(forward, each=each, head=nn.Linear(32, 4)), (row(2, 20, 3),)


def graph() -> Made:
    """Messages along edges, summed where they arrive."""

    def forward(m: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        messages = m.message(x.index_select(0, edges[0]))
        return functional.elu(m.own(x) + torch.zeros(6, 5).index_add(0, edges[1], messages))

    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 0, 4, 5, 3, 2]])
    return Of(forward, message=nn.Linear(4, 5), own=nn.Linear(4, 5)), (row(6, 4), edges)


def queries() -> Made:
    """As in DETR: learned queries look at an image."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        seen = m.patches(x).flatten(2).transpose(1, 2)
        made, _ = m.across(m.asked.expand(x.shape[0], -1, -1), seen, seen)
        return m.boxes(m.norm(made)).sigmoid()

    across = nn.MultiheadAttention(16, 4, batch_first=True)
    parts = {"patches": nn.Conv2d(3, 16, 8, 8), "across": across, "asked": row(1, 5, 16)}
    return Of(forward, **parts, norm=nn.LayerNorm(16), boxes=nn.Linear(16, 4)), (image(),)


def capsules() -> Made:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        votes, logits = torch.einsum("bid,iodk->biok", x, m.weight), torch.zeros(2, 6, 3)
        for _ in range(2):
            poses = torch.einsum("bio,biok->bok", logits.softmax(-1), votes)
            poses = poses * poses.norm(dim=-1, keepdim=True) / (1 + poses.pow(2).sum(-1, keepdim=True))
            logits = logits + torch.einsum("biok,bok->bio", votes, poses)
        return poses.norm(dim=-1)

    return Of(forward, weight=row(6, 3, 4, 5)), (row(2, 6, 4),)


def lines_of_text() -> Made:
    """As in CRNN: convolutions, then an LSTM both ways, then letters."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        seen, _ = m.along(m.stem(x).mean(2).permute(2, 0, 1))
        return m.letters(seen).log_softmax(-1)

    stem = nn.Sequential(norm_conv(1, 8, padding=1), nn.MaxPool2d((2, 1)))
    return Of(forward, stem=stem, along=nn.LSTM(8, 6, bidirectional=True), letters=nn.Linear(12, 9)), (image(1, 16),)


def styled() -> Made:
    def forward(m: Any, x: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        shift, scale = m.style(style)[:, :, None, None].chunk(2, 1)
        return m.group(functional.instance_norm(m.conv(x)) * (1 + scale) + shift)

    parts = {"conv": nn.Conv2d(3, 8, 3, padding=1), "style": nn.Linear(6, 16), "group": nn.GroupNorm(2, 8)}
    return Of(forward, **parts), (image(), row(2, 6))


def generator() -> Made:
    up = [nn.ConvTranspose2d(8, 6, 4, 1, 0), nn.BatchNorm2d(6), nn.ReLU(), nn.ConvTranspose2d(6, 3, 4, 2, 1), nn.Tanh()]
    return nn.Sequential(nn.Unflatten(1, (8, 1, 1)), *up), (row(2, 8),)


def of_peers(name: str) -> Callable[[], Made]:
    make, inputs, _ = MODELS[name]
    return lambda: (make(), inputs)


ARCHITECTURES: dict[str, Callable[[], Made]] = {
    **{name: of_peers(name) for name in MODELS},
    "residual": lambda: (Residual(3, 4, 2), (image(),)),
    **{
        each.__name__: each
        for each in (
            unet, densenet, shufflenet, convnext, windows, experts, shuffled_pixels, volumes, gated_lines,
            transformer_of_places, dilated, points, graph, queries, capsules, lines_of_text, styled, generator,
        )
    },
    **{mode: upsampled(mode) for mode in ("nearest", "bilinear", "bicubic")},
}  # fmt: skip


def _small(kind: str, **how: Any) -> Callable[[], nn.Module]:
    """Return what makes a model of transformers, two layers of width 32."""

    def made() -> nn.Module:
        config = getattr(transformers, f"{kind}Config")
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
        return getattr(transformers, f"{kind}Model")(config(**{**sizes, **how}))

    return made


_WORDS = {"vocab_size": 60}
TEXT = (tokens(2, 9, 60), torch.ones(2, 9, dtype=torch.int64))
PUBLISHED: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "Bert": (_small("Bert", **_WORDS), TEXT),
    "DistilBert": (_small("DistilBert", **_WORDS, dim=32, n_layers=2, n_heads=4, hidden_dim=48), TEXT),
    "Roberta": (_small("Roberta", **_WORDS), TEXT),
    "GPT2": (_small("GPT2", **_WORDS, n_embd=32, n_layer=2, n_head=4), TEXT),
    "Llama": (_small("Llama", **_WORDS, num_key_value_heads=2), TEXT),
    "Qwen3": (_small("Qwen3", **_WORDS, num_key_value_heads=2, head_dim=8), TEXT),
    "ViT": (_small("ViT", image_size=32, patch_size=8), (image(),)),
    "Wav2Vec2": (
        _small(
            "Wav2Vec2", conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
            num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
        ),
        (row(2, 400),),
    ),
    "MobileNetV2": (_small("MobileNetV2", depth_multiplier=0.25, image_size=32), (image(),)),
    "T5": (
        _small("T5", **_WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4),
        (*TEXT, tokens(2, 5, 60)),
    ),
}  # fmt: skip


def published(name: str) -> Made:
    """Return a model of transformers and its inputs."""
    make, inputs = PUBLISHED[name]
    return Plain(make()), inputs


class Plain(nn.Module):  # type: ignore[misc]
    """A model of transformers that returns its first tensor and keeps nothing for later."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.names = ("input_ids", "attention_mask", "decoder_input_ids")

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        named = dict(zip(self.names, inputs, strict=False)) if len(inputs) > 1 else {}
        more = {"use_cache": False} if hasattr(self.model.config, "use_cache") else {}
        return self.model(*(() if named else inputs), **named, return_dict=False, **more)[0]


def export(model: nn.Module, inputs: tuple[torch.Tensor, ...], path: Path, exporter: str, opset: int) -> str:
    """Write a file; return why PyTorch did not, or nothing."""
    names = [f"x{index}" for index in range(len(inputs))]
    said = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said):
            warnings.simplefilter("ignore")
            torch.onnx.export(
                model, inputs, str(path), input_names=names, opset_version=opset, dynamo=exporter == "dynamo"
            )
    except Exception as error:  # of the exporter, which raises what it likes
        return f"{type(error).__name__}: {error}"
    return ""


def compared(path: Path, inputs: tuple[torch.Tensor, ...], expected: list[Array]) -> tuple[str, str]:
    """Return whether we read a file and answer the same, as a mark, and what is wrong, if anything is."""
    try:
        model = from_onnx(path)
    except Exception as error:  # whatever it is: that is what is counted
        return UNREAD, f"{type(error).__name__}: {error}"
    given = {f"x{index}": each.numpy() for index, each in enumerate(inputs)}
    try:
        ours = answers(model, *(given[each.name] for each in model.inputs))
        assert_same(ours, expected, TOLERANCE)
    except Exception as error:
        return UNEQUAL, f"{type(error).__name__}: {' '.join(str(error).split())}"
    return EQUAL, ""


def judged(case: tuple[str, str]) -> list[tuple[str, str]]:
    """Return what comes of a model's exports by one exporter, for each opset."""
    name, exporter = case
    torch.set_num_threads(1)
    found = []
    for opset in OPSETS[exporter]:
        torch.manual_seed(0)
        model, inputs = ARCHITECTURES[name]() if name in ARCHITECTURES else published(name)
        model.eval()
        with TemporaryDirectory() as folder, torch.no_grad():
            path = Path(folder) / "exported.onnx"
            if said := export(model, inputs, path, exporter, opset):
                found.append((UNEXPORTED, said))
                continue
            try:
                expected = runtime(path, inputs)
            except Exception:  # of the runtime, which raises what it likes
                found.append((UNRUN, ""))
            else:
                found.append(compared(path, inputs, expected))
    return found


Table = dict[tuple[str, str], list[tuple[str, str]]]


@pytest.fixture(scope="module")
def table() -> Table:
    """Return the outcomes of all: each core exports some, as that is what takes the time."""
    cases = [(name, exporter) for exporter in reversed(OPSETS) for name in (*PUBLISHED, *ARCHITECTURES)]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), multiprocessing.get_context("spawn")) as pool:
        return dict(zip(cases, pool.map(judged, cases), strict=True))


def marks(table: Table, names: Collection[str]) -> list[str]:
    """Return the marks of all exports of some models."""
    return [mark for name in names for exporter in OPSETS for mark, _ in table[name, exporter]]


def written(table: Table, names: Collection[str]) -> str:
    """Return the table as text, and below it what is wrong."""
    lines = [f"{'':24}" + "".join(f"{exporter} {' '.join(map(str, each))}   " for exporter, each in OPSETS.items())]
    for name in names:
        row = (f"{'  '.join(mark for mark, _ in table[name, each]):>{len(each) + 9}}   " for each in OPSETS)
        lines.append(f"{name:24}{''.join(row)}")
    legend = {EQUAL: "equal", UNREAD: "not read", UNEQUAL: "not equal", UNEXPORTED: "not exported", UNRUN: "not run"}
    count = Counter(marks(table, names))
    lines.append(", ".join(f"{mark} {said}: {count[mark]}" for mark, said in legend.items()))
    for (name, exporter), found in table.items():
        wrong = {why for mark, why in found if mark in (UNREAD, UNEQUAL) and name in names}
        lines += [f"{name} by {exporter}: {why}" for why in sorted(wrong)]
    return "\n".join(lines)


@pytest.mark.parametrize("names", [ARCHITECTURES, PUBLISHED], ids=["architectures", "published"])
def test_exports_answer_as_in_onnx_runtime(
    table: Table, names: Collection[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 26 architectures and more, 97 of 100 exports that run are equal; of ten published ones all of nine."""
    text = written(table, names)
    with capsys.disabled():
        print(f"\n{text}")
    ran = {name: {*marks(table, [name])} - {UNEXPORTED, UNRUN} for name in names}
    if names is PUBLISHED:
        assert sum(found == {EQUAL} for found in ran.values()) >= 9, text
        return
    count = Counter(marks(table, names))
    assert sum(map(bool, ran.values())) >= 26, text
    assert count[EQUAL] >= 0.97 * (count[EQUAL] + count[UNREAD] + count[UNEQUAL]), text


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_flops_in_onnx_runtime_are_those_of_the_file(name: str, tmp_path: Path) -> None:
    """Shapes of a run in ONNX Runtime and shapes that follow from the file alone give the same FLOPs."""
    torch.manual_seed(0)
    model, inputs = ARCHITECTURES[name]()
    path = tmp_path / "exported.onnx"
    if said := export(model.eval(), inputs, path, "TorchScript", 17):
        pytest.skip(said)
    feeds = {f"x{index}": each.numpy() for index, each in enumerate(inputs)}
    with File(path, Settings(1, "none"), tmp_path, profiled=True, dump=True) as file:
        file.feed(feeds)
        events = file.events()
        total = sum(Graph(file.graph, events).work(events, feeds).values(), Work())
    assert not total.uncounted
    assert total.flops == count_onnx(path).flops > 0
