"""Reading an ONNX file: its graph is folded, what is missing is named, and the rest becomes steps of an `OnnxModel`."""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from tinytorch.core.dispatch import no_grad, unobserved
from tinytorch.core.layers import Embedding, Linear
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array, Shape
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx import elementwise, fused, layers, quantized, shapes
from tinytorch.perf.onnx.model import Block, Guards, Input, OnnxModel, Part, Run, Step
from tinytorch.perf.onnx.node import Node, Runner, Translation, Untranslatable, UntranslatedError

_TRANSLATIONS: dict[str, Translation] = {
    **elementwise.TRANSLATIONS,
    **shapes.TRANSLATIONS,
    **layers.TRANSLATIONS,
    **quantized.TRANSLATIONS,
    **fused.TRANSLATIONS,
}
#: What tells of shapes is known whenever the inputs' shapes are.
_OF_SHAPES = {"Shape": shapes.shape_of, "Size": shapes.size_of}
_BRANCHES = ("then_branch", "else_branch")


def operators() -> list[str]:
    """Return the names of the operators that run on data."""
    return sorted({*_TRANSLATIONS, *_OF_SHAPES, "Constant", "If"})


def from_onnx(
    path: str | os.PathLike[str],
    outputs: Sequence[str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> OnnxModel:
    """Return the model of an ONNX file, in eval mode.

    Products with constant weights are Linear, convolutions `Conv2d`, lookups Embedding, normalizations LayerNorm and
    BatchNorm2d: what profiles, quantizes and plans these does so here. All else runs op by op through dispatch.
    Layers have the names of their nodes, in the scopes that these names show. Weights are trainable parameters.

    Args:
        path: of the file; weights beside it are read, too.
        outputs: names of those to compute, by default all.
        given: inputs that are fixed, by name: they are no inputs any more, and what depends on them alone is folded.

    Raises:
        UntranslatedError: if nodes have no translation; it names all of them.
        ValueError: if this is not an ONNX file, or an output or given input is none of the graph's.
        FileNotFoundError: if there is no such file.
        RuntimeError: if the onnx package is not installed.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> import numpy as np
        >>> import onnx
        >>> from onnx import TensorProto, helper, numpy_helper
        >>> from tinytorch import from_onnx
        >>> weight = numpy_helper.from_array(np.ones((4, 2), np.float32), "weight")
        >>> x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", c]) for n, c in (("x", 4), ("y", 2)))
        >>> graph = helper.make_graph([helper.make_node("MatMul", ["x", "weight"], ["y"])], "g", [x], [y], [weight])
        >>> with TemporaryDirectory() as folder:
        ...     onnx.save(helper.make_model(graph), f"{folder}/model.onnx")
        ...     model = from_onnx(f"{folder}/model.onnx")
        >>> model(np.ones((3, 4), np.float32)).numpy()[0]
        array([4., 4.], dtype=float32)
    """
    return _Reader(loaded(path), os.path.basename(os.fspath(path)), dict(given or {})).model(outputs)


def loaded(path: str | os.PathLike[str], weights: bool = True) -> Any:
    """Return the file as the onnx package reads it, its functions written out.

    ``weights`` that lie beside it are left out if they are not asked for.

    Raises:
        ValueError: if it is no ONNX file, or weights beside it cannot be read.
        FileNotFoundError: if there is no such file, or a file with weights is not beside it.
        RuntimeError: if the onnx package is not installed.
    """
    try:
        import onnx
        from onnx import external_data_helper, inliner
    except ImportError as error:
        raise RuntimeError("reading ONNX files needs the onnx package: pip install onnx") from error
    name, folder = os.path.basename(os.fspath(path)), os.path.dirname(os.path.abspath(path))
    try:
        file = onnx.load(os.fspath(path), load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # of the parser, which raises what it likes
        raise ValueError(f"{name} is no ONNX file that can be read: {_sentence(error)}") from error
    if not file.opset_import:
        raise ValueError(f"{name} is no ONNX file: it declares no opset")
    if not file.graph.node:
        raise ValueError(f"{name} holds no nodes, so that there is nothing to run")
    outside = [each for each in external_data_helper._get_all_tensors(file) if each.external_data]
    places = {entry.value for each in outside for entry in each.external_data if entry.key == "location"}
    lost = sorted(place for place in places if not os.path.exists(os.path.join(folder, place)))
    if weights and lost:
        raise FileNotFoundError(f"{name} keeps weights in {', '.join(lost)}, and no such file lies beside it")
    if weights and outside:
        try:
            external_data_helper.load_external_data_for_model(file, folder)
        except Exception as error:  # of a file that is too short, or lies elsewhere
            raise ValueError(
                f"weights of {name} in {', '.join(sorted(places))} cannot be read: {_sentence(error)}"
            ) from error
    return inliner.inline_local_functions(file) if file.functions else file


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class _Reader:
    """The graph of a file while it is read."""

    def __init__(self, file: Any, name: str, given: Mapping[str, Any]) -> None:
        from tinytorch.perf.onnx import folding, reference  # which import onnx

        self._folding, self._reference = folding, reference
        self._name, self._graph = name, file.graph
        self._opsets = {each.domain: each.version for each in file.opset_import}
        self._opsets.setdefault("", self._opsets.get("ai.onnx", 1))
        self._constants: dict[str, Array] = {}
        self._initialized: set[str] = set()
        self._coded: dict[str, quantized.Coded] = {}
        self._add_initializers(file.graph)
        self._total = len(file.graph.node)
        self._missing: Counter[str] = Counter()
        self._stopped: dict[str, set[str]] = {}
        self._guards: dict[str, Guards] = {}
        self._parameters: dict[tuple[str, str], Parameter] = {}
        self._layers: dict[tuple[Any, ...], Runner] = {}
        self._transposed: dict[str, str] = {}
        self._tied: dict[str, str] = {}
        self._inputs = self._declared_inputs(given)
        self._nodes = self._live_nodes()
        self._protos = {tuple(node.output): node for node in self._nodes}

    def _add_initializers(self, graph: Any) -> None:
        for tensor in graph.initializer:
            self._constants[tensor.name] = self._folding.array_of(tensor)
            self._initialized.add(tensor.name)

    def _declared_inputs(self, given: Mapping[str, Any]) -> list[Input]:
        """Return the inputs that stay open; those that are given become constants."""
        inputs = [_declared(each) for each in self._graph.input if each.name not in self._constants]
        for name, value in given.items():
            declared = next((each for each in inputs if each.name == name), None)
            if declared is None:
                raise ValueError(f"given must name inputs of {', '.join(each.name for each in inputs)}, not {name!r}")
            array = np.asarray(value.data if isinstance(value, Tensor) else value, declared.dtype)
            declared.bind(array.shape, {})
            self._constants[name] = array
        open_ones = [each for each in inputs if each.name not in given]
        if not open_ones:
            raise ValueError(f"{self._name} must have an input that is not given")
        return open_ones

    def _live_nodes(self) -> list[Any]:
        """Return the nodes that depend on an input; the others are folded into constants."""
        live: list[Any] = []
        waiting = deque(sorted_nodes(self._graph.node, self._name))
        self._refuse_lost(waiting)
        while waiting:
            node = waiting.popleft()
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
                value = self._folding.constant_of(node)
                if value is None:
                    self._miss("Constant of text or sparse numbers", node)
                else:
                    self._constants[node.output[0]] = value
            elif (plain := self._expanded(node)) is not None:
                waiting.extendleft(reversed(plain))
            elif node.op_type == "If" and not self._is_choice(node):
                waiting.extendleft(reversed(self._branches(node)))
            elif self._folding.is_pure(node) and all(name in self._constants for name in node.input if name):
                self._fold(node)
            else:
                live.append(node)
        return live

    def _refuse_lost(self, nodes: Sequence[Any]) -> None:
        """Raise ValueError, naming it, for what a node or the graph reads and nothing makes."""
        made = {
            *self._constants,
            *(each.name for each in self._inputs),
            *(name for node in nodes for name in node.output),
        }
        readers = [(node.name or node.op_type, name) for node in nodes for name in (*node.input, *_outer_names(node))]
        readers += [("its output", each.name) for each in self._graph.output]
        lost = [f"{name} (for {reader})" for reader, name in readers if name and name not in made]
        if lost:
            raise ValueError(f"{self._name} reads what no node makes and no file holds: {', '.join(lost[:5])}")

    def _expanded(self, node: Any) -> list[Any] | None:
        """Return what an operator of codes stands for; None for others."""
        try:
            made = quantized.expanded(node, self._constants)
        except Untranslatable as reason:
            self._miss(f"{node.op_type} with {reason}", node)
            return []
        for each in made or ():
            self._guards.update((name, self._guards.get(node.output[0], ())) for name in each.output)
        return made

    @staticmethod
    def _is_choice(node: Any) -> bool:
        """Return whether a node is an If whose branches were written out before it."""
        return node.op_type == "If" and not node.attribute

    def _branches(self, node: Any) -> list[Any]:
        """Return the nodes of an If: of one branch if its condition is constant, else of both, and the choice.

        Which of both runs is seen at each call: their steps have the condition, and what it must be, as a guard.
        """
        from onnx import helper

        condition, outputs = node.input[0], list(node.output)
        outer = self._guards.get(outputs[0], ())
        if condition in self._constants:
            nodes, handed = self._branch(node, _BRANCHES[0 if self._constants[condition].item() else 1], outer)
            nodes += [helper.make_node("Identity", [i], [o]) for i, o in zip(handed, outputs, strict=True)]
        else:
            nodes, handed = self._branch(node, _BRANCHES[0], (*outer, (condition, True)))
            others, last = self._branch(node, _BRANCHES[1], (*outer, (condition, False)))
            nodes += [*others, helper.make_node("If", [condition, *handed, *last], outputs, name=node.name)]
        self._guards.update((name, outer) for name in outputs)
        return nodes

    def _branch(self, node: Any, name: str, guards: Guards) -> tuple[list[Any], list[str]]:
        """Return the nodes of a branch and the names of its outputs, none of which another branch has."""
        (branch,) = (each.g for each in node.attribute if each.name == name)
        made = {each for inner in branch.node for each in inner.output if each}
        made.update(tensor.name for tensor in branch.initializer)
        own = {each: f"{name} of {node.output[0]}: {each}" for each in made}
        for tensor in branch.initializer:
            tensor.name = own[tensor.name]
        _rename(branch.node, own)
        self._add_initializers(branch)
        self._total += len(branch.node)
        self._guards.update((each, guards) for inner in branch.node for each in inner.output)
        return sorted_nodes(branch.node, self._name), [own.get(each.name, each.name) for each in branch.output]

    def _fold(self, node: Any) -> None:
        own = self._node(node, 0)
        weight = quantized.coded(own)
        if weight is None and node.input and node.input[0] in self._coded:
            weight = quantized.moved(own, self._coded[node.input[0]])
        if weight is not None:
            self._coded[node.output[0]] = weight
            self._constants[node.output[0]] = weight.numbers()
            self._initialized.add(node.output[0])
            return
        operands = [self._constants.get(name) for name in node.input]
        try:
            made = self._folded(node, operands)
        except Exception as error:  # of what runs it, which raises what it likes
            self._miss(f"{node.op_type} of constants ({type(error).__name__})", node)
            return
        if node.op_type == "Transpose" and node.input[0] in self._initialized and _turns_a_matrix(node, operands[0]):
            self._transposed[node.output[0]] = node.input[0]
        from_weights = not self._initialized.isdisjoint(node.input)
        for name, value in zip(node.output, _as_tuple(made), strict=False):
            if name:
                self._constants[name] = value
                if from_weights:
                    self._initialized.add(name)

    def _folded(self, proto: Any, operands: Sequence[Any]) -> Any:
        """Return what a node makes of known numbers: by the reference, and by our own translation where that fails."""
        try:
            return self._reference.Evaluated(proto, self._opsets)(*operands)
        except Exception:  # of the reference, for what it does not know
            node = self._node(proto, 0)
            if node.kind not in _TRANSLATIONS:
                raise
            return _by_translation(node, operands)

    def _miss(self, kind: str, node: Any) -> None:
        self._missing[kind] += 1
        self._stopped.setdefault(kind, set()).update(name for name in node.output if name)

    def model(self, outputs: Sequence[str] | None) -> OnnxModel:
        """Return the model for these outputs."""
        declared = [each.name for each in self._graph.output]
        wanted = declared if outputs is None else list(outputs)
        unknown = [name for name in wanted if name not in declared]
        if unknown or not wanted:
            raise ValueError(f"outputs must be some of {', '.join(declared)}, not {', '.join(unknown) or 'none'}")
        nodes = self._needed(wanted)
        known = self._known_names(nodes)
        self._tied = self._tied_names(nodes)
        read = [self._node(proto, number) for number, proto in enumerate(nodes)]
        read = self._with_biases(quantized.joined(read, wanted, self._coded, self._guards), wanted)
        made = [self._translated(node, known) for node in read]
        self._refuse_missing(nodes)
        return self._assembled([each for each in made if each is not None], wanted, known)

    def _needed(self, outputs: Sequence[str]) -> list[Any]:
        """Return the nodes that lead to ``outputs``, in order."""
        needed, kept = set(outputs), []
        for node in reversed(self._nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(node.input)
                for attribute in node.attribute:  # a branch or body reads outer values by their names
                    for inner in (attribute.g, *attribute.graphs):
                        needed.update(name for each in inner.node for name in each.input)
        return kept[::-1]

    def _tied_names(self, nodes: Sequence[Any]) -> dict[str, str]:
        """Return the matrices that are read in two forms, by the name of each: as they are, and transposed.

        An embedding whose table makes the logits, too, is one.
        """
        forms: dict[str, set[bool]] = {}
        names: dict[str, str] = {}
        for node in nodes:
            turned = node.op_type == "Gemm" and any(each.name == "transB" and each.i for each in node.attribute)
            for index, name in enumerate(node.input):
                root = self._transposed.get(name, name)
                if root in self._constants:
                    forms.setdefault(root, set()).add((name != root) != (turned and index == 1))
                    names[name] = root
        return {name: root for name, root in names.items() if len(forms[root]) == 2}

    def _known_names(self, nodes: Sequence[Any]) -> frozenset[str]:
        """Return the names of values that depend on nothing but the shapes of the inputs and on constants.

        What reads a table or matrix of weights, such as the places of a sequence's length, runs like data.
        """
        numbers = {name for name, array in self._constants.items() if not (self._is_weight(name) and array.ndim > 1)}
        known: set[str] = set()
        for node in nodes:
            from_known = all(name in known or name in numbers for name in node.input if name)
            if (node.op_type in _OF_SHAPES and not node.domain) or (from_known and self._folding.is_pure(node)):
                known.update(name for name in node.output if name)
        return frozenset(known)

    def _with_biases(self, nodes: Sequence[Node], outputs: Sequence[str]) -> list[Node]:
        """Return the nodes, a product with a constant matrix and the row that is added to it as one."""
        readers = Counter(name for node in nodes for name in node.inputs)
        readers.update(outputs)
        made: list[Node] = []
        makers: dict[str, int] = {}
        for node in nodes:
            if node.kind == "Add" and len(node.inputs) == 2:
                for product, row in (node.inputs, node.inputs[::-1]):
                    at = makers.get(product)
                    if at is not None and readers[product] == 1 and self._is_bias(row, node, made[at]):
                        before = made[at]
                        constants = {**before.constants, row: self._constants[row]}
                        made[at] = replace(
                            before, inputs=(*before.inputs, row), outputs=node.outputs, constants=constants
                        )
                        break
                else:
                    made.append(node)
                continue
            if node.kind == "MatMul":
                makers[node.outputs[0]] = len(made)
            made.append(node)
        return made

    def _guards_of(self, node: Node) -> Guards:
        return self._guards.get(node.outputs[0], ())

    def _is_bias(self, name: str, added: Node, product: Node) -> bool:
        row, weight = self._constants.get(name), product.constant(1)
        if row is None or weight is None or weight.ndim != 2 or len(product.inputs) != 2:
            return False
        fits = row.shape == weight.shape[1:] and row.dtype == weight.dtype and row.dtype.kind == "f"
        return fits and self._guards_of(product) == self._guards_of(added)

    def _is_weight(self, name: str) -> bool:
        """Return whether a constant was learned, as far as a file tells: several floats that are kept as such."""
        array = self._constants[name]
        return name in self._initialized and array.dtype.kind == "f" and array.size > 1

    def _node(self, proto: Any, number: int) -> Node:
        standard = proto.domain in ("", "ai.onnx")
        kind = proto.op_type if standard else f"{proto.domain}.{proto.op_type}"
        return Node(
            kind,
            proto.name or f"{proto.op_type}_{number}",
            tuple(proto.input),
            tuple(proto.output),
            self._folding.attributes_of(proto),
            self._opsets.get("" if standard else proto.domain, 1),
            # Its own alone: what runs a node may hold on to it, and is not to hold the file's weights.
            {name: self._constants[name] for name in proto.input if name in self._constants},
            self._parameters,
            self._tied,
        )

    def _translated(self, node: Node, known: frozenset[str]) -> tuple[Node, Runner, Translation, bool] | None:
        """Return what runs a node, and whether it is known; None, counted as missing, if there is nothing."""
        if node.kind in _OF_SHAPES:
            return node, _OF_SHAPES[node.kind](node), Translation(_OF_SHAPES[node.kind]), True
        if node.kind == "If":
            return node, shapes.chosen, _KNOWN, node.outputs[0] in known
        if any(name in known for name in node.outputs):
            return node, self._evaluated(node), _KNOWN, True
        translation = _TRANSLATIONS.get(node.kind)
        try:
            if translation is None:
                raise Untranslatable("")
            from_data = {
                index
                for index in translation.known
                if node.has(index) and node.inputs[index] not in known and node.constant(index) is None
            }
            runner = quantized.in_codes(node, self._made(node, translation))
            if translation.for_floats:
                with suppress(Untranslatable):
                    others = self._referred(node)[1]
                    runner = _by_numbers(runner, others, keeps_dtype=node.kind.startswith("Reduce"))
            return node, _looking_at(from_data, runner) if from_data else runner, translation, False
        except Untranslatable as reason:
            try:
                return self._referred(node)
            except Untranslatable as other:
                why = str(reason) or str(other)
                self._miss(f"{node.kind} with {why}" if why else node.kind, _Outputs(node.outputs))
                return None

    def _made(self, node: Node, translation: Translation) -> Runner:
        """Return what a translation makes of a node: the same layer of nodes that read the same weights.

        Raises:
            Untranslatable: also for an attribute that it did not look at, or an output that it does not make.
        """
        held = [name for index, name in enumerate(node.inputs) if index not in translation.reads]
        key = (node.kind, *held, *sorted((name, repr(value)) for name, value in node.attributes.items()))
        if key in self._layers:
            return self._layers[key]
        runner = translation.make(node)
        for name, value in node.attributes.items():
            if not (name in node.looked_at or name in translation.ignores or self._folding.is_default(node, name)):
                raise Untranslatable(f"{name}={node.get(name, value)!r}")
        if translation.outputs is not None:
            for index, output in enumerate(node.outputs[translation.outputs :], translation.outputs):
                if output:
                    raise Untranslatable(f"output {index}")
        if isinstance(runner, (Linear, Conv2d, Embedding)) and all(name in node.constants for name in held if name):
            self._layers[key] = runner
        return runner

    def _referred(self, node: Node) -> tuple[Node, Runner, Translation, bool]:
        """Return what runs a node by the reference.

        Raises:
            Untranslatable: if the reference does not know it.
        """
        proto = self._protos.get(node.outputs)
        if proto is None or tuple(proto.input) != node.inputs:  # it was joined with others
            raise Untranslatable("")
        outer = [name for name in _outer_names(proto) if name not in node.inputs]
        reads = (*node.inputs, *outer)
        runner = self._reference.referred(proto, node, self._opsets, reads)
        constants = {name: self._constants[name] for name in reads if name in self._constants}
        return replace(node, inputs=reads, constants=constants), runner, _REFERRED, False

    def _evaluated(self, node: Node) -> Runner:
        proto = self._protos[node.outputs]
        if tuple(proto.input) != node.inputs:  # it was joined with others
            return lambda *operands: _by_translation(node, operands)
        return lambda *operands: self._folded(proto, [_array(each) for each in operands])

    def _refuse_missing(self, nodes: Sequence[Any]) -> None:
        if not self._missing:
            return
        said = []
        for kind, count in sorted(self._missing.items(), key=lambda item: (-item[1], item[0])):
            own = self._stopped[kind]
            reached, behind = set(own), 0
            for node in nodes:
                if reached.intersection(node.input):
                    reached.update(node.output)
                    behind += not own.intersection(node.output)
            nodes_of, stop = ("node", "stops") if count == 1 else ("nodes", "stop")
            said.append(f"{kind} ({count} {nodes_of}, which {stop} {behind} more)")
        total = sum(self._missing.values())
        raise UntranslatedError(
            f"{self._name} holds {total} of {self._total} nodes that have no translation: {'; '.join(said)}",
            self._missing,
        )

    def _assembled(
        self, made: Sequence[tuple[Node, Runner, Translation, bool]], outputs: Sequence[str], known: frozenset[str]
    ) -> OnnxModel:
        steps = [
            (node, *_step(node, runner, translation, is_known, self._guards_of(node)))
            for node, runner, translation, is_known in made
        ]
        constants = self._operands(made, outputs)
        model = OnnxModel(self._inputs, outputs, constants, known)
        _drop_when_read([step for _, step, _ in steps], {*outputs, *constants, *known})
        blocks: dict[tuple[str, ...], Block] = {(): model}
        for node, _, layer in steps:
            scope, own = named_scope(node.name)
            block = _block(blocks, scope)
            if layer is not None:
                block.named(own, layer)
        model.parts = _grouped([(named_scope(node.name)[0], step) for node, step, _ in steps], (), blocks)
        model.eval()
        return model

    def _operands(
        self, made: Sequence[tuple[Node, Runner, Translation, bool]], outputs: Sequence[str]
    ) -> dict[str, Tensor | Array]:
        """Return the constants that steps read when they run; weights of more than one number are parameters."""
        found: dict[str, Tensor | Array] = {}
        for node, runner, translation, is_known in made:
            for index, name in enumerate(node.inputs):
                array = self._constants.get(name)
                if array is None or (isinstance(runner, Module) and index not in translation.reads):
                    continue
                if self._is_weight(name) and not is_known and index not in translation.known:
                    found[name] = self._parameters.setdefault((name, ""), Parameter(array))
                else:
                    found.setdefault(name, array)
        for name in outputs:
            if name in self._constants:
                found.setdefault(name, self._constants[name])
        return found


def _by_translation(node: Node, operands: Sequence[Any]) -> Any:
    """Return the arrays that our own code makes of known numbers, as a tuple if there are several."""
    translation = _TRANSLATIONS[node.kind]
    runner = translation.make(node)
    reads = translation.reads if isinstance(runner, Module) else range(len(operands))
    with unobserved(), no_grad():
        made = runner(*(operands[index] if index < len(operands) else None for index in reads))
    arrays = tuple(_array(each) for each in _as_tuple(made))
    return arrays if len(arrays) > 1 else arrays[0]


def sorted_nodes(nodes: Sequence[Any], file: str) -> list[Any]:
    """Return nodes in an order in which each comes behind those that it reads; the order of a sorted graph stays.

    Raises:
        ValueError: if nodes wait for each other.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = {
        index: {makers[name] for name in (*node.input, *_outer_names(node)) if name in makers}
        for index, node in enumerate(nodes)
    }
    if all(max(before, default=-1) < index for index, before in needs.items()):
        return list(nodes)
    try:
        return [nodes[index] for index in TopologicalSorter(needs).static_order()]
    except CycleError as error:
        waiting = [nodes[at].name or nodes[at].op_type for at in sorted({*error.args[1]})]
        raise ValueError(f"{file} holds nodes that wait for each other: {', '.join(waiting[:5])}") from error


def _turns_a_matrix(node: Any, operand: Any) -> bool:
    return operand.ndim == 2 and [list(each.ints) for each in node.attribute] != [[0, 1]]


def _as_tuple(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def _rename(nodes: Sequence[Any], names: Mapping[str, str]) -> None:
    """Give values other names, also where the graphs that nodes hold read them."""
    for node in nodes:
        node.input[:] = [names.get(each, each) for each in node.input]
        node.output[:] = [names.get(each, each) for each in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner.node, names)


class _Outputs:
    """The outputs of a node that was translated under another form."""

    def __init__(self, output: Sequence[str]) -> None:
        self.output = output


_KNOWN = Translation(shapes.shape_of)
_REFERRED = Translation(shapes.shape_of)


def _array(operand: Any) -> Any:
    return operand.data if isinstance(operand, Tensor) else operand


def _by_numbers(runner: Runner, others: Runner, keeps_dtype: bool) -> Runner:
    """Return what runs a node on floats by its translation, and on other numbers, or none at all, otherwise.

    With ``keeps_dtype`` the result has the dtype of the first operand, which the reference's sums widen.
    """

    def run(*operands: Any) -> Any:
        first = operands[0]
        if first.dtype.kind == "f" and first.size:
            return runner(*operands)
        made = others(*operands)
        return made.astype(first.dtype) if keeps_dtype and made.dtype != first.dtype else made

    return run


def _looking_at(places: set[int], runner: Runner) -> Runner:
    """Return what runs a node that takes a shape, axes or ends from data: as they are at that call."""
    return lambda *operands: runner(*(_array(each) if at in places else each for at, each in enumerate(operands)))


def _outer_names(node: Any) -> list[str]:
    """Return the names that the graphs in a node read and do not make."""
    found: list[str] = []
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            made = {each.name for each in (*inner.input, *inner.initializer)}
            made.update(name for each in inner.node for name in each.output)
            read = [name for each in inner.node for name in (*each.input, *_outer_names(each))]
            read += [each.name for each in inner.output]
            found += [name for name in read if name and name not in made]
    return list(dict.fromkeys(found))


def bound_inputs(graph: Any, first: Shape | None, lengths: Mapping[str, int]) -> list[Input]:
    """Return the inputs of a graph with a number for each length: of ``lengths`` by name, or of the ``first`` input.

    Raises:
        ValueError: if a length stays open, or the shape of the first does not fit.
    """
    held = {tensor.name for tensor in graph.initializer}
    inputs = [_declared(each) for each in graph.input if each.name not in held]
    known, bound = dict(lengths), list[Input]()
    declared = inputs[0].shape if inputs else ()
    if first is None and declared:
        front = known.get(declared[0], 1) if isinstance(declared[0], str) else declared[0] or 1
        first = (front, *(known.get(each, -1) if isinstance(each, str) else each or -1 for each in declared[1:]))
    for each in inputs:
        if first is not None and each is inputs[0]:
            if -1 in first:
                raise ValueError(f"input_shape must be given for input {each.described()}, which leaves lengths open")
            each.bind(first, known)
            bound.append(replace(each, shape=first))
        else:
            bound.append(replace(each, shape=each.example(known, first or ()).shape))
    return bound


def is_learned(node: Any, index: int, initialized: bool) -> bool:
    """Return whether a constant in this place is a weight: no shape or the like, and no statistics.

    What is not ``initialized``, but the constant of a node, is one where a layer holds it.
    """
    if not initialized and node.op_type not in layers.TRANSLATIONS:
        return False
    translation = _TRANSLATIONS.get(node.op_type)
    numbers = translation.known if translation is not None else ()
    return index not in ((3, 4) if node.op_type == "BatchNormalization" else numbers)


def _declared(value: Any) -> Input:
    """Return an input as the graph declares it."""
    from onnx import helper

    kind = value.type
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        raise ValueError(f"input {value.name} must be a tensor whose number of axes the file declares")
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type))
    if dtype.kind not in "fiub":
        raise ValueError(f"input {value.name} must hold numbers, not {dtype}")
    lengths = kind.tensor_type.shape.dim
    return Input(value.name, dtype, tuple(_declared_length(each) for each in lengths))


def _declared_length(length: Any) -> int | str | None:
    """Return a length, its name, or None for one that is open: some exporters write that as -1 or "?"."""
    if length.HasField("dim_value"):
        return length.dim_value if length.dim_value >= 0 else None
    return length.dim_param if length.dim_param.strip("? ") else None


def _step(
    node: Node, runner: Runner, translation: Translation, known: bool, guards: Guards
) -> tuple[Step, Module | None]:
    """Return the step of a node, and its layer if one runs it, which is called with what it does not hold itself."""
    if not isinstance(runner, Module):
        return Step(runner, node.inputs, node.outputs, known, guards), None
    inputs = [node.inputs[index] if node.has(index) else "" for index in translation.reads]
    run = _from_the_end(runner) if isinstance(runner, Embedding) else runner
    return Step(run, inputs, node.outputs, known, guards), runner


def _from_the_end(table: Embedding) -> Runner:
    """Return what looks up rows, of which those below 0 count from the end."""

    def run(places: Any) -> Any:
        rows = _array(places)
        return table(np.where(rows < 0, rows + table.num_embeddings, rows) if rows.size and rows.min() < 0 else places)

    return run


def _drop_when_read(steps: Sequence[Step], kept: set[str]) -> None:
    """Let each step drop what no later one reads."""
    seen = set(kept)
    for step in reversed(steps):
        conditions = (name for name, _ in step.guards)
        last = [name for name in dict.fromkeys((*step.inputs, *conditions, *step.outputs)) if name and name not in seen]
        step.drops = tuple(last)
        seen.update(last)


def named_scope(name: str) -> tuple[tuple[str, ...], str]:
    """Return the scopes in a node's name and its own, as PyTorch and TensorFlow write them: /encoder/layer.0/MatMul."""
    *scope, own = [re.sub(r"[^\w.\-]", "_", part) for part in name.split("/") if part] or ["node"]
    return tuple(scope), own


def _block(blocks: dict[tuple[str, ...], Block], scope: tuple[str, ...]) -> Block:
    """Return the module of a scope, made now if it is new."""
    if scope not in blocks:
        outer, made = _block(blocks, scope[:-1]), Block()
        outer.named(scope[-1], made)
        blocks[scope] = made
    return blocks[scope]


def _grouped(
    steps: Sequence[tuple[tuple[str, ...], Step]], scope: tuple[str, ...], blocks: Mapping[tuple[str, ...], Block]
) -> list[Part]:
    """Return the steps in order, those of inner scopes as calls of these."""
    parts: list[Part] = []
    depth, at = len(scope), 0
    while at < len(steps):
        inner = steps[at][0][: depth + 1]
        if len(inner) == depth:
            parts.append(steps[at][1])
            at += 1
            continue
        end = at
        while end < len(steps) and steps[end][0][: depth + 1] == inner:
            end += 1
        parts.append(Run(blocks[inner], _grouped(steps[at:end], inner, blocks)))
        at = end
    return parts
