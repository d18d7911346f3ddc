"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


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
