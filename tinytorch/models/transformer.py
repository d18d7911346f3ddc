"""The parts of a transformer from where the course's students import them."""

from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.layers import Embedding, LayerNorm
from tinytorch.core.transformers import GPT, FeedForward, Transformer, TransformerBlock

MLP = FeedForward
TinyGPT = GPT

__all__ = ["GPT", "MLP", "Embedding", "LayerNorm", "MultiHeadAttention", "TinyGPT", "Transformer", "TransformerBlock"]
