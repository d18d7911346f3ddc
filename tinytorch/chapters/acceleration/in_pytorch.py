"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


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
