"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


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
