"""GPT-2 small as its makers publish it, and its formulas: the one model that eight chapters carry through a problem.

Its shape is that of the published configuration (https://github.com/openai/gpt-2, src/model.py); a token embedding that
also makes the logits, learned positions and blocks that normalize first are those of A. Radford et al., Language models
are unsupervised multitask learners, 2019.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.events.stream import Event, recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.call_costs import least_call_seconds
from tinytorch.perf.machine.time_bound import TimeBound, at_cost, at_rate
from tinytorch.perf.ops.affine import Scheme
from tinytorch.perf.roofline.bounds import bandwidth_at

#: Bytes of a number in float32, and of a parameter in training: itself, its gradient and the two moments of Adam.
NUMBER, TRAINED = 4, 16
#: Codes of eight bits with a scale for each group, as the chapter on quantization has them.
CODES = Scheme(bits=8, per="group")


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a GPT whose token embedding also makes its logits, and what follows from them; d is its ``width``.

    A step is one token that is read and one that is written: each matrix is multiplied by one row.
    """

    layers: int
    width: int
    heads: int
    positions: int
    vocabulary: int

    @property
    def block_matrices(self) -> int:
        """Numbers in the matrices of a block, 12 d²: 3 d² make queries, keys and values, d² projects, 8 d² are the MLP.

        Source: J. Kaplan et al., Scaling laws for neural language models, 2020, equation 2.1.
        """
        return 12 * self.width**2

    @property
    def block_parameters(self) -> int:
        """Parameters of a block, 12 d² + 13 d: its matrices, 9 d biases, and 4 d of two normalizations."""
        return self.block_matrices + 13 * self.width

    @property
    def mlp_matrices(self) -> int:
        """Numbers in the matrices of all MLPs, each d by 4 d and back."""
        return self.layers * 8 * self.width**2

    @property
    def parameters(self) -> int:
        """Parameters in all: of the blocks, the rows of tokens and positions, and 2 d of the last normalization."""
        return self.layers * self.block_parameters + (self.vocabulary + self.positions + 2) * self.width

    @property
    def training_bytes(self) -> int:
        """Bytes that training with Adam in float32 keeps for the parameters, before any activation.

        Source: S. Rajbhandari et al., ZeRO, 2020, section 3.1, with float32 for all four numbers.
        """
        return TRAINED * self.parameters

    @property
    def step_matrices(self) -> int:
        """Numbers in the matrices that a step multiplies by its row: those of the blocks, and the token embedding."""
        return self.layers * self.block_matrices + self.vocabulary * self.width

    @property
    def step_bytes(self) -> int:
        """Bytes of the parameters that a step reads in float32: all but the rows of other positions than its own."""
        return NUMBER * (self.parameters - (self.positions - 1) * self.width)

    def step_flops(self, kept: int = 1) -> int:
        """Return the FLOPs of a step's contractions that attends to ``kept`` positions, its own among them.

        They are 2 for each number of the matrices, and 4 d for each layer and kept position: the scores and the mixing.
        """
        return 2 * self.step_matrices + 4 * self.layers * self.width * kept

    def text_flops(self, count: int) -> int:
        """Return the FLOPs of a forward pass over ``count`` tokens, which makes logits for each of them."""
        return FLOPCounter().count_transformer(self.vocabulary, self.width, self.layers, count)

    def reread_flops(self, count: int) -> int:
        """Return the FLOPs of a step that has no cache and reads ``count`` tokens again: logits for the last alone."""
        return self.text_flops(count) - 2 * self.vocabulary * self.width * (count - 1)

    def cache_bytes(self, count: int) -> int:
        """Return the bytes of the keys and values of ``count`` positions in float32: two rows of d a layer."""
        return 2 * self.layers * self.width * count * NUMBER

    @property
    def coded_bytes(self) -> int:
        """Bytes that a step reads where matrices and embeddings are `CODES`, with float32 scales; the rest stays."""
        return self._coded(self.step_matrices)

    @property
    def halving_rank(self) -> int:
        """Largest r at which two factors, r (d + 4 d) numbers, hold at most half of a matrix of an MLP, d by 4 d."""
        return 4 * self.width**2 // (2 * 5 * self.width)

    @property
    def halving_saves(self) -> int:
        """Parameters that two factors of `halving_rank` in place of each matrix of the MLPs save."""
        return self.mlp_matrices - self.layers * 2 * self.halving_rank * 5 * self.width

    @property
    def halved_parameters(self) -> int:
        """Parameters that are left with such factors."""
        return self.parameters - self.halving_saves

    @property
    def halved_coded_bytes(self) -> int:
        """Bytes that a step reads with such factors and all matrices as `CODES`."""
        return self._coded(self.step_matrices - self.halving_saves)

    def _coded(self, matrices: int) -> int:
        """Return the bytes of a step with so many numbers in matrices, and a row of positions, as codes."""
        numbers = matrices + self.width
        rest = self.step_bytes - NUMBER * (self.step_matrices + self.width)
        return numbers * CODES.bits // 8 + NUMBER * (numbers // CODES.group) + rest


GPT2 = Shape(layers=12, width=768, heads=12, positions=1024, vocabulary=50_257)


def step_calls() -> Sequence[Event]:
    """Return the ops of GPT-2's step, which depend on its layers alone: as they ran in the narrowest GPT as deep."""
    narrow = GPT(GPT2.heads, GPT2.heads, GPT2.layers, GPT2.heads, 1, seed=0).eval()
    with no_grad(), recording() as recorded:
        narrow(np.zeros((1, 1), np.int64))
    return recorded.profile.events


def call_seconds(machine: Ceilings) -> TimeBound:
    """Return the seconds that calling the ops of GPT-2's step takes at least, one by one, by NumPy."""
    return at_cost(1, least_call_seconds(step_calls(), machine.calls.op))


def read_seconds(nbytes: int, machine: Ceilings) -> TimeBound:
    """Return the seconds in which ``nbytes`` are read once, as fast as this machine's memory delivers so many."""
    return at_rate(nbytes, bandwidth_at(nbytes, machine))
