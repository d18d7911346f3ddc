"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


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
