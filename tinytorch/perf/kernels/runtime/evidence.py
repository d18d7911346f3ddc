"""Evidence of what a compiled kernel is made of: the vector instructions in its assembly."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

#: Vector registers of x86-64, widest first, and of 64-bit Arm: of SVE and of NEON, as Linux and as macOS write them.
_REGISTERS = (
    ("zmm", r"%zmm\d"),
    ("ymm", r"%ymm\d"),
    ("xmm", r"%xmm\d"),
    ("z", r"\bz\d+\.[bhsd]\b"),
    ("v", r"\bv\d+\.\d+[bhsd]\b|^\w+\.\d+[bhsd]\s"),
)
#: A move of vector registers to or from the stack, on x86-64 and on Arm; there it can be of two at once.
_ON_THE_STACK = re.compile(
    r"\tvmov\w+\s+(?:-?\w*\(%rsp[^)]*\), %[xyz]mm|%[xyz]mm\d+, -?\w*\(%rsp)"
    r"|\t(?:ld|st)[ru]?[rp]\s+[qz]\d+, (?:(?P<second>q)\d+, )?\[(?:sp|x29)"
)
#: Of floats, and of bytes whose products an instruction adds up.
_MULTIPLY_ADD = re.compile(r"\t(?:vfn?m\w+ps|fm(?:la|ls|ad|sb)(?:\.\d[sd])?|vpdpbusd|u?s?dot|usmmla)\s")
#: Packed instructions: of floats (vaddps, vfmadd213ps, movups), of integers (vpdpbusd), and all on Arm's registers.
_PACKED_X86 = re.compile(r"v?(?!pextr|pinsr|pbroadcast)(?:\w+p[sd]|p\w+|movdq[au]\w*)$")


def function_assembly(kernel: Any) -> str:
    """Return the assembly of the one compiled version of ``kernel``, without the wrappers around it.

    Raises:
        ValueError: if it was compiled for more than one signature, or none.
    """
    texts = kernel.inspect_asm()
    if len(texts) != 1:
        raise ValueError(f"kernel must be compiled for one signature, not {len(texts)}")
    (signature, text) = next(iter(texts.items()))
    name = re.escape(kernel.overloads[signature].fndesc.llvm_func_name)
    body = re.search(rf'^_?"?{name}"?:(.*?)^\.?L?func_end', text, re.MULTILINE | re.DOTALL) or re.search(
        rf'^_?"?{name}"?:(.*?)^\s*\.size', text, re.MULTILINE | re.DOTALL
    )
    if body is None:
        raise ValueError(f"the assembly of {name} holds no function of that name")
    return body[1]


def packed_instructions(assembly: str) -> dict[str, int]:
    """Return how often each packed vector instruction stands in ``assembly``: ``{"vfmadd213ps zmm": 12}``.

    The name is followed by the kind of the widest register that it uses. Instructions on one element of a
    vector (addss) do not count.
    """
    found: Counter[str] = Counter()
    for line in assembly.splitlines():
        # {vex} says how the instruction is encoded, where there are two ways.
        text = line.replace("{vex}", "").strip()
        name, *operands = text.split(None, 1) or [""]
        if not operands or name.startswith((".", "#", "/")):
            continue
        kind = next((kind for kind, pattern in _REGISTERS if re.search(pattern, text)), None)
        if kind in ("v", "z"):
            found[f"{name.partition('.')[0]} {kind}"] += 1
        elif kind and _PACKED_X86.match(name):
            found[f"{name} {kind}"] += 1
    return dict(sorted(found.items()))


def spills(assembly: str, least: int) -> int:
    """Return how many vector registers ``assembly`` moves to or from the stack in its innermost loops.

    Only loops of at least ``least`` fused multiply-adds, of floats or bytes, count: there each such move is a load or a
    store in place of arithmetic.

    Raises:
        ValueError: if there is no such loop, so that nothing was looked at.
    """
    loops = []
    for block in re.split(r"^(?=\.?LBB)", assembly, flags=re.MULTILINE):
        label, _, body = block.partition(":")
        repeats = re.search(rf"\t(?:j\w+|b(?:\.\w+)?|[ct]bn?z)\s+(?:\S+, )*{re.escape(label)}\b", body)
        loop = body[: repeats.end()] if repeats else ""
        if len(_MULTIPLY_ADD.findall(loop)) >= least:
            loops.append(loop)
    if not loops:
        raise ValueError(f"assembly must have a loop of at least {least} fused multiply-adds, but has none")
    moves = [move for loop in loops for move in _ON_THE_STACK.finditer(loop)]
    return len(moves) + sum(move["second"] is not None for move in moves)


def evidence(kernel: Any) -> dict[str, int]:
    """Return the packed vector instructions of the one compiled version of ``kernel``, counted."""
    return packed_instructions(function_assembly(kernel))
