"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


def count_product() -> None:
    """Print the operations that PyTorch counts of a product, and its arithmetic intensity."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    x, weight = torch.randn(16, 1024), torch.randn(1024, 1024)
    with FlopCounterMode(display=False) as counter:
        y = x @ weight
    flops, moved = counter.get_total_flops(), x.nbytes + weight.nbytes + y.nbytes
    print(f"{flops} FLOP on {moved} B: {flops / moved:.3g} FLOP/B")
