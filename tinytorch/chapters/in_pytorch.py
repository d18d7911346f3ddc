"""The code for PyTorch that each chapter shows; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""

from collections.abc import Callable
from typing import Any


def profile_gpt() -> None:
    """Print the five operations of the zoo's GPT that take PyTorch the most time, with our weights."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from tinytorch import models
    from tinytorch.perf.engines.pytorch import twin_of

    gpt = twin_of(models.trained("gpt")).module.eval()
    tokens = torch.from_numpy(models.example("gpt", batch=64))
    torch.set_num_threads(1)
    with torch.inference_mode():
        gpt(tokens)  # a warm-up
        with profile(activities=[ProfilerActivity.CPU], with_flops=True) as p:
            gpt(tokens)
    rows = sorted(p.key_averages(), key=lambda row: row.self_cpu_time_total, reverse=True)
    for row in rows[:5]:
        name = row.key.removeprefix("aten::").removesuffix("_for_cpu")
        milliseconds = row.self_cpu_time_total / 1000
        print(f"{name:<36} {row.count:>3} calls {milliseconds:6.2f} ms {row.flops / 1e6:6.0f} MFLOP")


def compare_batches() -> None:
    """Print how long PyTorch takes for 64 images with our MLP's weights, by ones and at once."""
    import torch
    from torch.utils.benchmark import Compare, Timer

    from tinytorch import models
    from tinytorch.perf.engines.pytorch import twin_of

    mlp = twin_of(models.trained("mlp")).module.eval()
    images = torch.from_numpy(models.example("mlp", batch=64).data)
    ways = {"one by one": "for image in images.split(1): mlp(image)", "one batch": "mlp(images)"}
    known = {"mlp": mlp, "images": images}
    with torch.inference_mode():
        rows = [
            Timer(
                way, globals=known, label="64 images", sub_label=name, description="median", num_threads=1
            ).blocked_autorange(min_run_time=0.2)
            for name, way in ways.items()
        ]
    Compare(rows).print()
    for name, row in zip(ways, rows, strict=True):
        print(f"{name}: {row.iqr / row.median:.1%} between the quartiles of {len(row.times)} samples")


def time_it_twice() -> None:
    """Print what PyTorch's timer says of one product and itself."""
    import torch
    from torch.utils.benchmark import Timer

    square = torch.ones(64, 64)
    for name in ("once", "again"):
        timer = Timer("square @ square", globals={"square": square}, num_threads=1)
        found = timer.blocked_autorange(min_run_time=0.2)
        print(f"{name}: median {found.median * 1e6:.2f} us, the middle half within {found.iqr * 1e6:.2f} us")
        print(f"{name}: {len(found.times)} samples of {found.number_per_run} calls each")


def show_layouts() -> None:
    """Print how far the next number of each axis lies, of one tensor in three layouts."""
    import torch

    images = torch.zeros(8, 3, 32, 32)
    print("as made:      ", images.stride(), images.is_contiguous())
    print("transposed:   ", images.transpose(2, 3).stride(), images.transpose(2, 3).is_contiguous())
    print("channels last:", images.to(memory_format=torch.channels_last).stride())


def count_product() -> None:
    """Print the operations that PyTorch counts of a product, and its arithmetic intensity."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    x, weight = torch.randn(16, 1024), torch.randn(1024, 1024)
    with FlopCounterMode(display=False) as counter:
        y = x @ weight
    flops, moved = counter.get_total_flops(), x.nbytes + weight.nbytes + y.nbytes
    print(f"{flops} FLOP on {moved} B: {flops / moved:.3g} FLOP/B")


def multiply_squares() -> None:
    """Print which BLAS PyTorch was built with, and the rate of its products on one core, by width."""
    import torch
    from torch.utils.benchmark import Timer

    print(torch.__config__.show().split("BLAS_INFO=")[1].split(",")[0])
    for width in (64, 256, 1024, 2048):
        square = torch.randn(width, width)
        timer = Timer("square @ square", globals={"square": square}, num_threads=1)
        seconds = timer.blocked_autorange(min_run_time=0.5).median
        print(f"{width:>5} wide: {2 * width**3 / seconds / 1e9:6.1f} GFLOP/s")


def compile_gelu() -> None:
    """Print the time of the page's line by operators and compiled, and what compiling took."""
    from time import perf_counter

    import torch
    from torch.utils.benchmark import Timer

    def line(x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    torch.set_num_threads(1)
    x = torch.randn(10_000_000)
    fused, start = torch.compile(line), perf_counter()
    apart = (fused(x) - line(x)).abs().max().item()
    print(f"first call: {perf_counter() - start:.0f} s, and a difference of {apart:.0e}")
    for name, run in (("line", line), ("compiled", fused), ("x**3", lambda x: x**3), ("x*x*x", lambda x: x * x * x)):
        print(f"{name}: {Timer('run(x)', globals={'run': run, 'x': x}).blocked_autorange().median * 1e3:.1f} ms")


def quantize_mlp() -> None:
    """Print bytes, time and right answers of the zoo's MLP in floats and in PyTorch's eight bits."""
    import torch
    from torch.ao.quantization import quantize_dynamic
    from torch.utils.benchmark import Timer

    from tinytorch import models
    from tinytorch.perf.engines.pytorch import twin_of

    mlp = twin_of(models.trained("mlp")).module.eval()
    small = quantize_dynamic(mlp, {torch.nn.Linear}, dtype=torch.qint8)
    data = models.entry("mlp").data()
    images, labels = torch.tensor(data.test_inputs), torch.tensor(data.test_targets)
    floats, codes = mlp[1].weight, small[1].weight().int_repr()
    print(f"first weight: {floats.nbytes} B, codes from {codes.min()} to {codes.max()}: {codes.nbytes} B")
    for name, model in (("float32", mlp), ("8 bits", small)):
        timer = Timer("model(x)", globals={"model": model, "x": images[:64]}, num_threads=1)
        right = (model(images).argmax(1) == labels).sum().item()
        print(f"{name}: {timer.blocked_autorange().median * 1e6:.0f} µs, {right} of {len(labels)} right")


def prune_mlp() -> None:
    """Print the bytes of the zoo's MLP before pruning, with masks, without them, and sparse."""
    import torch
    from torch.nn.utils import prune

    from tinytorch import models
    from tinytorch.perf.engines.pytorch import twin_of

    def show(name: str) -> None:
        print(f"{name}:", sum(each.nbytes for each in mlp.state_dict().values()), "B")

    mlp = twin_of(models.trained("mlp")).module
    layers = [layer for layer in mlp if isinstance(layer, torch.nn.Linear)]
    show("dense")
    prune.global_unstructured([(layer, "weight") for layer in layers], prune.L1Unstructured, amount=0.9)
    show("pruned, with masks")
    for layer in layers:
        prune.remove(layer, "weight")
    show("masks removed")
    sparse = [layer.weight.detach().to_sparse_csr() for layer in layers]
    parts = [part for each in sparse for part in (each.values(), each.col_indices(), each.crow_indices())]
    print("zeros:", sum((layer.weight == 0).sum().item() for layer in layers))
    print("weights in CSR:", sum(part.nbytes for part in parts), "B")


def attend_step_by_step() -> None:
    """Print how far attention through a cache is from that over the whole text, and its bytes."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend

    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 12, 1024, 64)  # three of (B, H, S, D), as a layer of GPT-2 has them
    whole = attend(q, k, v, is_causal=True)
    keys, values = torch.empty(2, 1, 12, 1024, 64)  # room for all positions
    steps = torch.empty_like(whole)
    for n in range(1024):
        keys[:, :, n], values[:, :, n] = k[:, :, n], v[:, :, n]
        steps[:, :, n : n + 1] = attend(q[:, :, n : n + 1], keys[:, :, : n + 1], values[:, :, : n + 1])
    print(f"largest difference: {(steps - whole).abs().max().item():.1e}")
    print("cache of a layer:", keys.nbytes + values.nbytes, "B")


def sum_gradients() -> None:
    """Print how far gradients of ranks that share a batch are from those of all of it."""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.benchmark import Timer

    from tinytorch import models
    from tinytorch.perf.engines.pytorch import twin_of

    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    data, loss = models.entry("mlp").data(), torch.nn.CrossEntropyLoss()
    x, y = torch.tensor(data.train_inputs[:64]), torch.tensor(data.train_targets[:64])
    alone, shared = (twin_of(models.entry("mlp").make(0)).module for _ in range(2))
    loss(alone(x), y).backward()
    joined = DistributedDataParallel(shared, bucket_cap_mb=25)
    loss(joined(x[rank::ranks]), y[rank::ranks]).backward()  # buckets are summed meanwhile
    apart = max((a.grad - b.grad).abs().max() for a, b in zip(alone.parameters(), shared.parameters(), strict=True))
    number = {"sum": torch.distributed.all_reduce, "number": torch.zeros(1)}
    seconds = Timer("sum(number)", globals=number).timeit(1000).median
    if rank == 0:
        print(f"gradients differ by {apart:.0e} at most")
        print(f"an all-reduce of one number: {seconds * 1e6:.0f} µs")


def shard_everything() -> None:
    """Print what a rank keeps after a step if parameters and optimizer's state are shared out."""
    import torch
    from torch.distributed.fsdp import fully_shard

    from tinytorch import models
    from tinytorch.perf.engines.pytorch import twin_of

    ranks = torch.distributed.get_world_size()
    mlp = twin_of(models.entry("mlp").make(0)).module
    whole = sum(each.nbytes for each in mlp.parameters())
    fully_shard(mlp, mesh=torch.distributed.init_device_mesh("cpu", (ranks,)))
    optimizer = torch.optim.AdamW(mlp.parameters(), lr=3e-3)
    mlp(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    kept = sum(each.to_local().nbytes for each in mlp.parameters())
    states = [each[name].to_local() for each in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    if torch.distributed.get_rank() == 0:
        print(f"parameters: {whole} B, of which rank 0 keeps {kept}")
        print(f"optimizer's state: {2 * whole} B, of which rank 0 keeps {sum(each.nbytes for each in states)}")


def on_rank(rank: int, folder: str) -> None:
    """Run both snippets on a rank of two."""
    import torch

    torch.distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    sum_gradients()
    shard_everything()
    torch.distributed.destroy_process_group()


def train_on_two_ranks() -> None:
    """Start two processes that run `on_rank`."""
    from tempfile import TemporaryDirectory

    import torch

    with TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(on_rank, args=(folder,), nprocs=2)


def answering(gpt: Any, prompts: Any) -> Callable[[], Any]:
    """Return a call that writes ten tokens after each prompt, and reads the text again for each."""
    import torch

    def call() -> Any:
        tokens = torch.from_numpy(prompts)
        with torch.inference_mode():
            for _ in range(10):
                tokens = torch.cat([tokens, gpt(tokens)[:, -1:].argmax(-1)], 1)
        return tokens.numpy()

    return call


def take_one_step() -> None:
    """Print a plain call's costliest operator, for 1 and 32 questions, and a cache's gain."""
    from torch import profiler, set_num_threads
    from torch.utils.benchmark import Timer

    from tinytorch import models
    from tinytorch.perf.engines.pytorch import decoding, twin_of

    set_num_threads(1)
    gpt, questions = models.trained("gpt"), models.example("gpt", 32)[:, :11]
    for asked in (questions[:1], questions):
        plain, cached = answering(twin_of(gpt).module, asked), decoding("eager", gpt, asked, 10)
        with profiler.profile() as found:
            told = plain()
        top = max(found.key_averages(), key=lambda op: op.self_cpu_time_total).key
        before, after = (Timer("f()", globals={"f": way}).blocked_autorange().median * 1e3 for way in (plain, cached))
        kept = (told == cached()).all()
        print(f"{len(asked)} asked, most in {top}: plain {before:.1f} ms, cached {after:.1f} ms, same: {kept}")
