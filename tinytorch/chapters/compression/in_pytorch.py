"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


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
