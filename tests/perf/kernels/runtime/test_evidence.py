"""What is read from assembly: packed instructions, and nothing that works on one element."""

import platform

import pytest
from llvmlite import binding

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


#: Twelve sums of a loop, which a CPU with sixteen registers keeps, or more than any CPU can.
MADE_LOOP = """
target triple = "{triple}"
define void @f(ptr %x, i64 %count, ptr %sums) {{
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  {phis}
  %at = getelementptr <4 x float>, ptr %x, i64 %i
  %v = load <4 x float>, ptr %at
  {adds}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  {stores}
  ret void
}}
declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
"""


@pytest.mark.parametrize(
    ("triple", "cpu"),
    [
        ("x86_64-unknown-linux-gnu", "haswell"),
        ("aarch64-unknown-linux-gnu", "neoverse-n1"),
        ("arm64-apple-darwin23.0.0", "apple-m1"),
    ],
)
def test_llvm_s_own_loops_are_looked_at_on_every_system(triple: str, cpu: str) -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)
    for sums, moved in ((10, False), (40, True)):
        lines = {
            "phis": [f"%s{k} = phi <4 x float> [ zeroinitializer, %start ], [ %t{k}, %loop ]" for k in range(sums)],
            "adds": [
                f"%t{k} = call <4 x float> @llvm.fma.v4f32(<4 x float> %v, <4 x float> %s{(k + 1) % sums}, "
                f"<4 x float> %s{k})"
                for k in range(sums)
            ],
            "stores": [
                f"%p{k} = getelementptr <4 x float>, ptr %sums, i64 {k}\n  store <4 x float> %t{k}, ptr %p{k}"
                for k in range(sums)
            ],
        }
        text = MADE_LOOP.format(triple=triple, **{name: "\n  ".join(each) for name, each in lines.items()})
        assembly = machine.emit_assembly(binding.parse_assembly(text))
        assert (spills(assembly, sums) > 0) == moved, assembly
        with pytest.raises(ValueError, match="loop"):
            spills(assembly, sums + 1)
        assert sum(count for name, count in packed_instructions(assembly).items() if "fm" in name) == sums


def test_the_probes_are_made_of_packed_instructions() -> None:
    kernels = [probes.read(4), probes.triad(4), probes.multiply_add(4, 32)]
    for kernel in kernels:
        assert sum(evidence(kernel).values()) >= 8
    if platform.machine() == "x86_64":
        multiply_adds = {k: n for k, n in evidence(kernels[-1]).items() if "fmadd" in k or "mulps" in k}
        assert sum(multiply_adds.values()) == 32 * probes.CHAINS


def test_the_chains_have_no_packed_instruction() -> None:
    assert evidence(probes.integer_chain()) == {}
    assert evidence(probes.chase()) == {}


def test_the_assembly_is_of_the_function_alone() -> None:
    assembly = function_assembly(probes.chase())
    assert "cpython" not in assembly
    assert "PyErr" not in assembly
