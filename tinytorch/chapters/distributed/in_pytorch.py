"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


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
