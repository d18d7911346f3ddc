"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


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
