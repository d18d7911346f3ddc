"""A GPT small enough for tests, in eval mode, whose logits depend clearly on every earlier token."""

import numpy as np
import numpy.typing as npt

from tinytorch.core.transformers import GPT


def small_gpt(seed: int = 0, max_seq_len: int = 12, num_heads: int = 2) -> GPT:
    """Return a GPT of two blocks with 13 tokens, 20 wide, with weights of the size of trained ones."""
    model = GPT(13, 20, 2, num_heads, max_seq_len, seed=seed).eval()
    draw = np.random.default_rng(seed)
    for parameter in model.parameters():
        parameter.data[...] += draw.normal(0, 0.3, parameter.shape).astype(np.float32)
    return model


def tokens_of(batch: int, length: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Return random tokens (batch, length) for `small_gpt`."""
    return np.random.default_rng(seed).integers(0, 13, (batch, length))
