"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


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
