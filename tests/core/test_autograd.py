"""Backward over graphs: several uses, depth, memory, changed arrays; and what layers, ops and losses refuse."""

import copy
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.cases import Recorder, check_gradients, convolution, gradient_of, normal
from tinytorch.core import autograd, ops
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import apply, no_grad, observed_by
from tinytorch.core.layers import Dropout, Embedding, LayerNorm, Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Parameter, Sequential
from tinytorch.core.op import Array, Op
from tinytorch.core.optimizers import SGD, Adam, AdamW, Optimizer
from tinytorch.core.spatial import AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, TransformerBlock
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.ops import gather_pad


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(normal(*shape, seed=seed), requires_grad=True)


#: Ops of one operand and of two that keep a (2, 2) tensor's shape and stay tame however often they are repeated.
UNARY: list[Any] = [
    lambda x: -x,
    lambda x: x.tanh(),
    lambda x: x.reshape(4).reshape(2, 2),
    lambda x: x + x.sum() * 0.1,
    lambda x: apply(ops.softmax, x),
    lambda x: x[[1, 0]],
]
BINARY: list[Any] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x @ y,
    lambda x, y: apply(ops.concatenate, x, y, axis=1)[:, 1:3],
    lambda x, y: apply(ops.where, np.eye(2, dtype=bool), x, y),
]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_graph(data: Any) -> None:
    """A random graph of ops, whose tensors are used any number of times, has the gradient of its differences."""
    steps = data.draw(
        st.lists(
            st.tuples(st.integers(0, len(UNARY) + len(BINARY) - 1), st.integers(0, 20), st.integers(0, 20)),
            min_size=1,
            max_size=8,
        )
    )

    def function(x: Tensor, y: Tensor) -> Tensor:
        made = [x, y]
        for which, first, second in steps:
            one, other = made[first % len(made)], made[second % len(made)]
            made.append(UNARY[which](one) if which < len(UNARY) else BINARY[which - len(UNARY)](one, other))
        total = x * 0 + y * 0
        for tensor in made[2:]:
            total = total + tensor
        return total

    check_gradients(function, leaf(2, 2), leaf(2, 2, seed=1))


def test_leaves_that_get_the_same_gradient_have_their_own_memory() -> None:
    a, b, c = leaf(2, 3), leaf(2, 3), leaf(6)
    ((a + b).reshape(6) + c).backward(np.ones(6))
    grads = [gradient_of(tensor) for tensor in (a, b, c)]
    for index, grad in enumerate(grads):
        for other in grads[index + 1 :]:
            assert not np.shares_memory(grad, other)
        grad += 1
        np.testing.assert_array_equal(grad, 2)


def test_backward_of_a_leaf_adds_the_gradient_to_it() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    seed = np.array([3.0, 4.0], np.float32)
    heard: list[Tensor] = []
    with autograd.when_ready(heard.append):
        x.backward(seed)
    assert heard[0] is x
    x.backward(seed)
    np.testing.assert_array_equal(x.grad, [6, 8])
    np.testing.assert_array_equal(seed, [3, 4])


def test_a_deep_chain_needs_no_recursion() -> None:
    x = y = Tensor(np.array(1.0), requires_grad=True)
    for _ in range(20_000):
        y = y + x
    y.backward()
    assert gradient_of(x) == 20_001


@pytest.mark.parametrize("narrow", [np.float32, np.float16])
def test_a_gradient_has_its_tensors_dtype_beside_a_wider_operand(narrow: Any) -> None:
    x = Tensor(np.ones((2, 2), narrow), requires_grad=True)
    bias = Tensor(np.zeros(2, narrow), requires_grad=True)
    inner = x.exp()
    for made in (inner * np.ones((2, 2)), inner @ np.ones((2, 2)), inner + np.ones((2, 2)) + bias):
        assert made.dtype == np.float64
        made.backward(np.ones((2, 2)), retain_graph=True)
    assert gradient_of(x).dtype == gradient_of(bias).dtype == narrow


def test_no_grad_records_nothing_also_as_a_decorator_and_after_an_error() -> None:
    x = leaf(2)

    @no_grad()
    def doubled() -> Tensor:
        return x * 2

    assert not doubled().requires_grad
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    with no_grad():
        with no_grad():
            pass
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_backward_runs_once_unless_retained_and_refuses_before_it_adds_anything() -> None:
    x, w = leaf(2), leaf(2, seed=1)
    shared = x * x
    shared.backward(np.ones(2))
    before = gradient_of(x).copy()
    mixed = shared * w + w
    with pytest.raises(RuntimeError, match="already run"):
        mixed.backward(np.ones(2))
    assert w.grad is None
    np.testing.assert_array_equal(x.grad, before)


def test_backward_says_what_it_needs() -> None:
    x = leaf(2)
    with pytest.raises(ValueError, match="gradient"):
        (x * 2).backward()
    with pytest.raises(ValueError, match="gradient"):
        (x * 2).backward([1.0, 1.0, 1.0])
    with pytest.raises(RuntimeError, match="backward"):
        Tensor([1.0]).backward()
    assert x.grad is None


def test_branches_that_lead_to_no_leaf_run_no_backward() -> None:
    x, frozen = leaf(2, 2), Tensor(normal(2, 2))
    recorder = Recorder()
    scaled = x * (frozen.exp() @ frozen)
    made = scaled + frozen.tanh()
    with observed_by(recorder):
        made.backward(np.ones((2, 2)))
    assert [(call.op.name, call.needs) for call in recorder.calls] == [
        ("add", (True, False)),
        ("multiply", (True, False)),
    ]
    assert (frozen.grad, scaled.grad) == (None, None)


def test_a_listener_hears_of_each_leaf_once_when_its_gradient_is_whole() -> None:
    shared, late, unused = (Tensor(np.array([value]), requires_grad=True) for value in (2.0, 3.0, 4.0))
    heard: list[tuple[int, float]] = []

    def listen(leaf: Tensor) -> None:
        assert leaf.grad is not None
        heard.append((id(leaf), float(leaf.grad[0])))

    with autograd.when_ready(listen):
        ((shared * late).exp() * shared).sum().backward()
    # f = s exp(l s): df/ds = (1 + l s) exp(l s), df/dl = s² exp(l s); the product that used both ran last.
    assert dict(heard) == {id(shared): pytest.approx(7 * np.exp(6.0)), id(late): pytest.approx(4 * np.exp(6.0))}
    assert len(heard) == 2
    assert unused.grad is None
    (shared * late).sum().backward()
    assert len(heard) == 2, "nobody listens any more"


def test_a_listener_hears_of_a_leaf_before_the_backward_of_earlier_ops() -> None:
    early, late = (Tensor(np.array([value]), requires_grad=True) for value in (2.0, 3.0))
    seen: list[bool] = []
    with autograd.when_ready(lambda leaf: seen.append(early.grad is None)):
        (early.exp() * late).sum().backward()
    assert seen == [True, False]


X = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)
Change = Callable[[Sequential], Any]


def deep() -> Sequential:
    return Sequential(Linear(3, 4, seed=0), Linear(4, 2, seed=1))


def step(make: Callable[[list[Any]], Any], which: int) -> Change:
    def change(model: Sequential) -> None:
        for parameter in model.parameters():
            parameter.grad = np.ones_like(parameter.data)
        make(model[which].parameters()).step()
        model.zero_grad()

    return change


def more(tensor: Tensor) -> None:
    tensor.data += 1


def zero(array: Array) -> None:
    array[0] = 0


NEEDED: dict[str, Change] = {
    "writing into data": lambda model: zero(model[1].weight.data),
    "writing into numpy()": lambda model: zero(model[1].weight.numpy()),
    "np.copyto": lambda model: np.copyto(model[1].weight.data, 0),
    "SGD": step(SGD, 1),
    "Adam": step(Adam, 1),
    "in place": lambda model: more(model[1].weight),
    "state": lambda model: model.load_state_dict(model.state_dict()),
}
UNNEEDED: dict[str, Change] = {
    "reading data": lambda model: model[1].weight.data.sum(),
    "writing the same": lambda model: np.copyto(model[1].weight.data, model[1].weight.data),
    "writing into a bias": lambda model: zero(model[1].bias.data),
    "weight whose input has no gradient": step(SGD, 0),
    "bias": lambda model: more(model[1].bias),
    "another array": lambda model: setattr(model[1].weight, "data", model[1].weight.data + 1),
    "another tensor": lambda model: more(Tensor(model[1].weight.data.copy())),
}


@pytest.mark.parametrize("change", NEEDED.values(), ids=[*NEEDED])
def test_a_backward_that_needs_what_was_changed_raises_and_adds_nothing(change: Change) -> None:
    model = deep()
    value = (model(X) * model(X)).sum()
    change(model)
    with pytest.raises(RuntimeError, match="forward"):
        value.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    (model(X) * model(X)).sum().backward()  # a new forward is of the new values


@pytest.mark.parametrize("change", UNNEEDED.values(), ids=[*UNNEEDED])
def test_a_backward_that_does_not_need_what_was_changed_is_what_it_was(change: Change) -> None:
    model, as_it_was = deep(), deep()
    value = model(X).sum()
    change(model)
    value.backward()
    as_it_was(X).sum().backward()
    for ours, expected in zip(model.parameters(), as_it_was.parameters(), strict=True):
        assert ours.grad is not None
        np.testing.assert_array_equal(ours.grad, expected.grad)


def running_statistics() -> tuple[Tensor, Callable[[], Any]]:
    layer, images = BatchNorm2d(1).eval(), Tensor(np.ones((2, 1, 2, 2), np.float32))
    return layer(images).sum(), lambda: layer.train()(images)


def transposed_table() -> tuple[Tensor, Callable[[], Any]]:
    table = Embedding(5, 3, seed=0)
    return table.project(Tensor(X.data, requires_grad=True)).sum(), lambda: more(table.weight)


def result() -> tuple[Tensor, Callable[[], Any]]:
    hidden = Tensor(X.data, requires_grad=True) * 1
    return (hidden * hidden).sum(), lambda: more(hidden)


def frozen_input() -> tuple[Tensor, Callable[[], Any]]:
    x = Tensor(X.data.copy())
    return Linear(3, 2)(x).sum(), lambda: more(x)


def test_a_write_is_of_the_forward_that_came_before_it() -> None:
    """Of two graphs that wait, the one whose forward had the new values runs its backward."""
    x = Tensor([2.0], requires_grad=True)
    before = x * x
    x.data[...] = 3
    after = x * x
    after.backward()
    assert gradient_of(x).tolist() == [6]
    held = x.data
    again = x * x
    held[...] = 4  # handed out before that forward, while another one waited
    for stale in (again, before):
        with pytest.raises(RuntimeError, match="forward"):
            stale.backward()


INDICES: dict[str, tuple[Any, Callable[[Tensor, Any], Tensor]]] = {
    "integers": (np.array([0, 2, 2]), lambda x, index: x[index]),
    "list": ([0, 2, 2], lambda x, index: x[index]),
    "tuple": (np.array([0, 2, 2]), lambda x, index: x[index, :2]),
    "mask": (np.array([False, True, True]), lambda x, index: x[index]),
    "tensor": (Tensor(np.array([0, 2, 2])), lambda x, index: x[index]),
    "embedding": (np.array([0, 2, 2]), lambda x, index: apply(ops.embedding, index, x)),
    "where": (np.array([[False], [True], [True]]), lambda x, index: apply(ops.where, index, x, 0.0)),
    "cross-entropy": (np.array([0, 2, 2]), lambda x, index: CrossEntropyLoss()(x, index)),
    "gather": (np.array([0, 2, 2]), lambda x, index: apply(gather_pad.gather, x, index, axis=0)),
}


@pytest.mark.parametrize("kernels", [nullcontext, accelerated], ids=["numpy", "compiled"])
@pytest.mark.parametrize("kind", INDICES)
def test_an_index_that_changes_after_the_forward_changes_no_gradient(kind: str, kernels: Callable[[], Any]) -> None:
    given, run = INDICES[kind]
    table = np.arange(9, dtype=np.float32).reshape(3, 3)

    def gradient(change: bool) -> Array:
        index, x = copy.deepcopy(given), Tensor(table.copy(), requires_grad=True)
        with kernels():
            total = run(x, index).sum()
        if change:
            (index._data if isinstance(index, Tensor) else index)[0] = 1
        total.backward()
        return gradient_of(x)

    np.testing.assert_array_equal(gradient(change=True), gradient(change=False))


@pytest.mark.parametrize("make", [running_statistics, transposed_table, result, frozen_input])
def test_buffers_views_inputs_and_results_count_too(make: Callable[[], tuple[Tensor, Callable[[], Any]]]) -> None:
    value, change = make()
    change()
    with pytest.raises(RuntimeError, match="forward"):
        value.backward()


WINDOW = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0)}
EPSILON = {"epsilon": 1e-5}
#: An op, its operands, of which a tuple is the shape of random numbers, its parameters, and what is named.
OPERANDS: list[tuple[Op, tuple[Any, ...], dict[str, Any], str]] = [
    (ops.matmul, ((2, 3), (2, 3)), {}, r"mismatch: \(2, 3\) ends in 3, but \(2, 3\)"),
    (ops.matmul, ((3,), (2,)), {}, r"mismatch: \(3,\) ends in 3, but \(2,\)"),
    (ops.matmul, ((2, 3), ()), {}, r"\(2, 3\) and \(\)"),
    (ops.linear, ((2, 3), (4, 5)), {}, r"length 4.*\(2, 3\)"),
    (ops.conv2d, ((2, 3, 4, 4), (2, 2, 2, 2)), convolution(), r"\(N, 2, H, W\).*\(2, 3, 4, 4\)"),
    (ops.conv2d, ((3, 4, 4), (2, 3, 2, 2)), convolution(), r"\(N, 3, H, W\).*\(3, 4, 4\)"),
    (ops.conv2d, ((1, 4, 4, 4), (3, 2, 2, 2)), convolution(groups=2), "groups"),
    (ops.conv2d, ((1, 2, 4, 2), (2, 2, 2, 3)), convolution(), r"window of 3 .* 2 with padding 0"),
    (ops.conv2d, ((1, 2, 4, 4), (2, 2, 3, 3)), convolution(dilation=(2, 2)), r"window of 3 \(dilation 2\)"),
    (ops.conv2d, ((1, 2, 4, 4), (5, 2, 2, 2), (4,)), convolution(), "broadcast"),
    (ops.max_pool2d, ((2, 2),), WINDOW, r"\(N, C, H, W\).*\(2, 2\)"),
    (ops.max_pool2d, ((1, 1, 1, 4),), WINDOW, "fit in 1"),
    (ops.avg_pool2d, ((1, 1, 1, 4),), WINDOW, "fit in 1"),
    (ops.attention, ((1, 1, 2, 4), (1, 1, 3, 5), (1, 1, 3, 5)), {"causal": False}, r"\(1, 1, 2, 4\), \(1, 1, 3, 5\)"),
    (ops.attention, ((1, 1, 2, 4), (1, 1, 3, 4), (1, 1, 2, 4)), {"causal": False}, "shape"),
    (ops.attention, ((1, 2, 4), (1, 2, 4), (1, 2, 4)), {"causal": False}, "shape"),
    (ops.attention, ((1, 1, 3, 4), (1, 1, 2, 4), (1, 1, 2, 4)), {"causal": True}, "2 for 3"),
    (ops.self_attention, ((2, 3),), {"heads": 2, "causal": True}, r"3 \* 2 \* D"),
    (ops.self_attention, ((1, 2, 10),), {"heads": 2, "causal": True}, r"3 \* 2 \* D"),
    (ops.layer_norm, ((2, 3), (4,), (4,)), EPSILON, r"axis of 4.*\(2, 3\)"),
    (ops.layer_norm, ((2, 3), (3,), (1,)), EPSILON, r"axis of \d.*\(2, 3\)"),
    (ops.layer_norm, ((2, 3), (1,), (3,)), EPSILON, r"axis of \d.*\(2, 3\)"),
    *(
        (ops.batch_norm, ((2, channels, 2, 2), *[(count,)] * given), EPSILON, rf"\(N, {count}, H, W\)")
        for channels, count in ((4, 3), (4, 1), (1, 2))
        for given in (2, 4)  # by the batch's statistics, or by those that are given
    ),
    (ops.batch_norm, ((0, 2, 3, 3), (2,), (2,)), EPSILON, "element"),
    (ops.batch_norm, ((1, 2, 1, 1), (2,), (2,)), EPSILON, r"two elements .*\(1, 2, 1, 1\)"),
    (ops.cross_entropy, ((2, 4), np.array([0, 4])), {}, r"target.*0\.\.3"),
    (ops.cross_entropy, ((2, 4), np.array([0, -1])), {}, r"target.*0\.\.3"),
    (ops.cross_entropy, ((2, 4), np.array([0, -100])), {"ignore_index": 2}, r"target.*0\.\.3"),
    (ops.cross_entropy, ((2, 4), np.array([0.0, 1.0])), {}, "integers.*float64"),
    (ops.cross_entropy, ((2, 4), np.array([0, 1, 2])), {}, r"integers of shape \(2,\).*\(3,\)"),
    (ops.cross_entropy, ((2, 4), np.array([1, 1])), {"ignore_index": 1}, "ignore_index"),
    (ops.mean_squared_error, ((3, 1), (3,)), {}, r"target.*\(3, 1\).*\(3,\)"),
    (ops.mean_squared_error, ((0,), (0,)), {}, "prediction"),
]


@pytest.mark.parametrize("kernels", [nullcontext, accelerated], ids=["numpy", "compiled"])
@pytest.mark.parametrize(("op", "operands", "params", "named"), OPERANDS, ids=lambda value: getattr(value, "name", ""))
def test_operands_that_do_not_fit(
    op: Op, operands: tuple[Any, ...], params: dict[str, Any], named: str, kernels: Callable[[], Any]
) -> None:
    arrays = [normal(*each).astype(np.float32) if isinstance(each, tuple) else each for each in operands]
    with kernels(), pytest.raises(ValueError, match=named):
        apply(op, *map(Tensor, arrays), **params)


def parameters() -> list[Parameter]:
    return [Parameter([1.0])]


ARGUMENTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Linear(0, 3), "in_features.*not 0"),
    (lambda: Linear(3, 2.5), r"out_features.*not 2\.5"),  # type: ignore[arg-type]
    (lambda: Linear(3, 2)(Tensor([[1.0, 2.0]])), r"length 3.*\(1, 2\)"),
    (lambda: Embedding(-1, 3), "num_embeddings"),
    (lambda: LayerNorm(0), "normalized_shape"),
    (lambda: LayerNorm(3)(Tensor([[1.0, 2.0]])), r"axis of 3.*\(1, 2\)"),
    (lambda: Dropout(1.1), r"p must.*not 1\.1"),
    (lambda: Dropout(-0.1), r"p must.*not -0\.1"),
    (lambda: Dropout(math.nan), "p must.*not nan"),
    (lambda: Conv2d(0, 1, 1), "in_channels"),
    (lambda: Conv2d(1, 1, 1, groups=0), "groups"),
    (lambda: Conv2d(4, 6, 1, groups=3), "groups.*in_channels 4 and out_channels 6"),
    (lambda: Conv2d(1, 1, 0), "kernel_size.*not 0"),
    (lambda: Conv2d(1, 1, 2.5), r"kernel_size.*not 2\.5"),  # type: ignore[arg-type]
    (lambda: Conv2d(1, 1, None), "kernel_size.*not None"),  # type: ignore[arg-type]
    (lambda: Conv2d(1, 1, (1, 2, 3)), r"kernel_size.*not \(1, 2, 3\)"),  # type: ignore[arg-type]
    (lambda: Conv2d(1, 1, 1, stride=0), "stride"),
    (lambda: Conv2d(1, 1, 1, padding=-1), "padding"),
    (lambda: Conv2d(1, 1, 1, dilation=(1, 0)), "dilation"),
    (lambda: MaxPool2d(2, padding=2), "padding.*half"),
    (lambda: AvgPool2d(2, stride=0), "stride"),
    (lambda: AdaptiveAvgPool2d(0), "output_size"),
    (lambda: BatchNorm2d(0), "num_features"),
    (lambda: BatchNorm2d(1).eval()(Tensor(normal(1, 3, 2, 2))), r"\(N, 1, H, W\).*\(1, 3, 2, 2\)"),
    (lambda: MultiHeadAttention(8, 0), "num_heads"),
    (lambda: MultiHeadAttention(0, 1), "embed_dim"),
    (lambda: TransformerBlock(8, 2, mlp_ratio=0), "mlp_ratio"),
    (lambda: GPT(0, 8, 1, 1, 4), "vocab_size"),
    (lambda: GPT(5, 8, 0, 1, 4), "num_layers"),
    (lambda: GPT(5, 8, 1, 1, 0), "max_seq_len"),
    (lambda: GPT(5, 8, 1, 3, 4), "num_heads.*embed_dim 8"),
    (lambda: GPT(5, 8, 1, 2, 4)(np.zeros((1, 5), int)), "tokens.*not 5"),
    (lambda: GPT(5, 8, 1, 2, 4)(np.zeros((1, 0), int)), "tokens.*not 0"),
    (lambda: GPT(5, 8, 1, 2, 4)(np.zeros(3, int)), r"tokens.*not \(3,\)"),
    (lambda: CrossEntropyLoss()(Tensor([[1.0, 2.0]]), [0.5]), "target"),
    (lambda: DataLoader(), "arrays"),
    (lambda: DataLoader(np.ones(3), np.ones(4)), r"length.*\(3,\), \(4,\)"),
    (lambda: DataLoader(np.ones((0, 3))), r"length.*\(0, 3\)"),
    (lambda: DataLoader(np.float64(3)), "length"),  # type: ignore[arg-type]
    (lambda: DataLoader(np.ones(3), batch_size=1.5), "batch_size"),  # type: ignore[arg-type]
    (lambda: Embedding(4, 2)(np.array([0, 4])), r"must lie in 0\.\.3, but run from 0 to 4"),
    (lambda: Embedding(4, 2)(np.array([-1, 2])), r"must lie in 0\.\.3, but run from -1 to 2"),
    (lambda: apply(ops.embedding, np.array([0.0, 1.0]), normal(4, 2)), "integer indices, not float64"),
    (lambda: Optimizer(parameters(), 0.1).step(), "step"),
    (lambda: SGD(parameters(), momentum=1.0), "momentum"),
    (lambda: Adam(parameters(), betas=(1.0, 0.9)), r"betas\[0\]"),
    (lambda: AdamW(parameters(), betas=(0.9, -0.1)), r"betas\[1\]"),
    (lambda: Adam(parameters(), betas=0.9), "betas"),  # type: ignore[arg-type]
    (lambda: Adam(parameters(), betas=(0.9,)), "betas"),  # type: ignore[arg-type]
    (lambda: Adam(parameters(), eps=-1), "eps"),
    (lambda: Adam(parameters(), eps=math.inf), "eps"),
]


@pytest.mark.parametrize(("make", "named"), ARGUMENTS, ids=[named for _, named in ARGUMENTS])
def test_arguments_that_no_layer_loss_or_optimizer_takes(make: Callable[[], Any], named: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError), match=named):
        make()


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "one Parameter": lambda make: make(Parameter(np.ones((3, 2)))),
    "a model": lambda make: make(Linear(1, 1)),
    "pairs with names": lambda make: make(Linear(1, 1).named_parameters()),
    "names": lambda make: make(Linear(1, 1).state_dict()),
    "a buffer": lambda make: make([Tensor([1.0])]),
    "a result": lambda make: make([Parameter([1.0]) * 2]),
    "none": lambda make: make([]),
    "negative lr": lambda make: make(parameters(), lr=-1),
    "infinite lr": lambda make: make(parameters(), lr=np.inf),
    "lr of text": lambda make: make(parameters(), lr="0.1"),
    "negative weight decay": lambda make: make(parameters(), weight_decay=-1),
    "NaN as weight decay": lambda make: make(parameters(), weight_decay=np.nan),
}


@pytest.mark.parametrize("make", [SGD, Adam, AdamW])
@pytest.mark.parametrize("given", OPTIMIZERS.values(), ids=[*OPTIMIZERS])
def test_an_optimizer_refuses_by_name(make: Any, given: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"parameters|lr|weight_decay"):
        given(make)
