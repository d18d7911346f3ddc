"""What is read from assembly: packed instructions, and nothing that works on one element."""

import platform

import pytest

from tinytorch.perf.kernels import compute_probes, memory_probes
from tinytorch.perf.kernels.evidence import evidence, function_assembly, packed_instructions, spills

ASSEMBLY = """
	.p2align	4
.LBB0_4:
	vaddps	(%rcx,%r9,4), %zmm7, %zmm7
	vaddps	64(%rcx,%r9,4), %zmm6, %zmm6
	vfmadd213ps	%ymm1, %ymm0, %ymm2
	mulps	%xmm1, %xmm2
	vaddss	%xmm1, %xmm0, %xmm1
	vmovss	%xmm0, (%rdi)
	vpdpbusd	%zmm1, %zmm2, %zmm3
	movq	%rdx, (%rdi)
	popq	%rbp
	fmla	v0.4s, v1.4s, v2.4s
	fadd	s0, s1, s2
	retq
"""


def test_packed_instructions_are_counted_with_their_widest_register() -> None:
    assert packed_instructions(ASSEMBLY) == {
        "fmla v": 1,
        "mulps xmm": 1,
        "vaddps zmm": 2,
        "vfmadd213ps ymm": 1,
        "vpdpbusd zmm": 1,
    }


LOOPS = """
	vmovups	%zmm9, 64(%rsp)
.LBB0_4:
	vmovups	64(%rsp), %zmm1
	vfmadd231ps	%zmm1, %zmm2, %zmm3
	vfmadd231ps	%zmm1, %zmm2, %zmm4
	vmovups	%zmm3, (%rsp)
	vmovups	(%rdi), %zmm5
	jne	.LBB0_4
	vmovups	%zmm9, 64(%rsp)
.LBB0_5:
	vmovups	64(%rsp), %zmm1
	vfmadd231ps	%zmm1, %zmm2, %zmm3
	vfmadd231ps	%zmm1, %zmm2, %zmm4
	retq
"""


def test_registers_that_a_loop_keeps_on_the_stack_are_counted() -> None:
    assert spills(LOOPS, least=2) == 2
    assert spills(LOOPS, least=3) == 0


def test_the_probes_are_made_of_packed_instructions() -> None:
    kernels = [memory_probes.read(4), memory_probes.triad(4), compute_probes.multiply_add(4, 32)]
    for kernel in kernels:
        assert sum(evidence(kernel).values()) >= 8
    if platform.machine() == "x86_64":
        multiply_adds = {k: n for k, n in evidence(kernels[-1]).items() if "fmadd" in k or "mulps" in k}
        assert sum(multiply_adds.values()) == 32 * compute_probes.CHAINS


def test_the_chains_have_no_packed_instruction() -> None:
    assert evidence(compute_probes.integer_chain()) == {}
    assert evidence(memory_probes.chase()) == {}


def test_the_assembly_is_of_the_function_alone() -> None:
    assembly = function_assembly(memory_probes.chase())
    assert "cpython" not in assembly
    assert "PyErr" not in assembly


class _CompiledTwice:
    def inspect_asm(self) -> dict[int, str]:
        return {1: "", 2: ""}


def test_a_kernel_of_two_signatures_has_no_one_assembly() -> None:
    with pytest.raises(ValueError, match="one signature, not 2"):
        function_assembly(_CompiledTwice())
