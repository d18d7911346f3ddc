"""What a compiled kernel is made of: the vector instructions in its assembly."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

#: Vector registers of x86-64, widest first, and of 64-bit Arm.
_REGISTERS = (("zmm", r"%zmm\d"), ("ymm", r"%ymm\d"), ("xmm", r"%xmm\d"), ("v", r"\bv\d+\.\d+[bhsd]\b"))
#: Packed instructions: of floats (vaddps, vfmadd213ps, movups), of integers (vpdpbusd), and all on Arm's v registers.
_ON_THE_STACK = re.compile(r"\tvmov\w+\s+(?:-?\w*\(%rsp[^)]*\), %[xyz]mm|%[xyz]mm\d+, -?\w*\(%rsp)")
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
        parts = line.replace("{vex}", "").split(None, 1)
        if len(parts) < 2 or parts[0].startswith((".", "#", "/")):
            continue
        kind = next((kind for kind, pattern in _REGISTERS if re.search(pattern, parts[1])), None)
        if kind == "v" or (kind and _PACKED_X86.match(parts[0])):
            found[f"{parts[0]} {kind}"] += 1
    return dict(sorted(found.items()))


def spills(assembly: str, least: int) -> int:
    """Return how many vector registers x86-64 ``assembly`` moves to or from the stack in its innermost loops.

    Only loops of at least ``least`` fused multiply-adds count: there each such move is a load or a store in place of
    arithmetic.
    """
    count = 0
    for block in re.split(r"^(?=\.?LBB)", assembly, flags=re.MULTILINE):
        label, _, body = block.partition(":")
        repeats = re.search(rf"\tj\w+\s+{re.escape(label)}\b", body)
        loop = body[: repeats.end()] if repeats else ""
        if len(re.findall(r"\tvfn?m\w+ps\b", loop)) >= least:
            count += len(_ON_THE_STACK.findall(loop))
    return count


def evidence(kernel: Any) -> dict[str, int]:
    """Return the packed vector instructions of the one compiled version of ``kernel``, counted."""
    return packed_instructions(function_assembly(kernel))
