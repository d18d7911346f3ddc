"""What is read from assembly: packed instructions, and nothing that works on one element."""

import platform

import pytest

from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.runtime.evidence import evidence, function_assembly, packed_instructions, spills

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
	mov	v0.s[1], v1.s[0]
	fmul	z0.s, z1.s, z2.s
	fadd	s0, s1, s2
	fmla.4s	v0, v1, v2[0]
	ld1.4s	{ v0 }, [x0]
	mov.s	v0[1], v1[0]
	b.ne	LBB0_4
	retq
"""


def test_packed_instructions_are_counted_with_their_widest_register() -> None:
    assert packed_instructions(ASSEMBLY) == {
        "fmla v": 2,
        "fmul z": 1,
        "ld1 v": 1,
        "mulps xmm": 1,
        "vaddps zmm": 2,
        "vfmadd213ps ymm": 1,
        "vpdpbusd zmm": 1,
    }
    with pytest.raises(ValueError, match="loop"):
        spills(ASSEMBLY, 12)


def test_the_probes_are_made_of_packed_instructions() -> None:
    kernels = [probes.read(4), probes.triad(4), probes.multiply_add(4, 32)]
    for kernel in kernels:
        assert sum(evidence(kernel).values()) >= 8
    if platform.machine() == "x86_64":
        multiply_adds = {k: n for k, n in evidence(kernels[-1]).items() if "fmadd" in k or "mulps" in k}
        assert sum(multiply_adds.values()) == 32 * probes.CHAINS


def test_the_chains_have_no_packed_instruction_and_their_assembly_is_theirs_alone() -> None:
    assert evidence(probes.integer_chain()) == {}
    assert evidence(probes.chase()) == {}
    assembly = function_assembly(probes.chase())
    assert "cpython" not in assembly
    assert "PyErr" not in assembly
