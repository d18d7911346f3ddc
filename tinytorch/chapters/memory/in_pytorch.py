"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


def show_layouts() -> None:
    """Print how far the next number of each axis lies, of one tensor in three layouts."""
    import torch

    images = torch.zeros(8, 3, 32, 32)
    print("as made:      ", images.stride(), images.is_contiguous())
    print("transposed:   ", images.transpose(2, 3).stride(), images.transpose(2, 3).is_contiguous())
    print("channels last:", images.to(memory_format=torch.channels_last).stride())
