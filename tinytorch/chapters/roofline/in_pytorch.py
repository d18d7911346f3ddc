"""Arithmetic intensity of a product as PyTorch counts it; run by itself, in an environment that has PyTorch."""


def product_intensity(rows: int, width: int) -> float:
    """Return the FLOPs that PyTorch counts of a product, over the bytes of its operands and its result."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    x, weight = torch.randn(rows, width), torch.randn(width, width)
    with FlopCounterMode(display=False) as counter:
        y = x @ weight
    moved = sum(each.numel() * each.element_size() for each in (x, weight, y))
    return counter.get_total_flops() / moved


if __name__ == "__main__":
    print(product_intensity(rows=16, width=1024))
