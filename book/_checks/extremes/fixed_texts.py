"""The longest and the shortest texts that a build can put where a page leaves room for them, on made machines."""

from types import SimpleNamespace

from fixed_records import PROVENANCE

from tinytorch.perf.measuring import Measurement


def _spread(name: str, value: float, unit: str, by: float) -> Measurement:
    """Seven samples around a value, apart by a share of it."""
    return Measurement(name, tuple(value * (1 + by * step / 3) for step in (-3, 2, -1, 0, 1, -2, 3)), unit)


LONGEST = SimpleNamespace(
    numbers={
        "time": _spread("an epoch of training with every technique of the ladder switched on", 98_765.4, "s", 0.0471),
        "rate": _spread("eight-bit products of the widest layer of the largest model", 987.654e12, "FLOP/s", 0.0471),
        "ratio": _spread("the baseline over the variant with every technique", 0.987654, "", 0.0471),
        "bytes": _spread("bytes that all ranks sent in an epoch", 987.654e12, "B/s", 0.0471),
    },
    word="below every roof",
    because_absent="This processor reports no caches, and its operating system lets no process choose its core; a "
    "build on Linux with at least two cores, or one with `make book PEERS=1`, measures it.",
    header="Time of a step on all ranks",
    caption="Every technique beside the baseline on the model with the most parameters, each with what it saves, "
    "gains and costs in one run, sorted by what is gained",
    rows=tuple(
        f"attention of the generating model: NumPy to the compiled kernel in tiles of registers, step {step}"
        for step in range(6)
    ),
    claims=8,
    statement="Weights of a hundred and twenty-eight channels that were pruned in blocks of one by thirty-two run in a "
    "fraction of the time of the dense product that they replace, at any number of rows and on any processor.",
    source="After D. E. Knuth, Structured Programming with go to Statements, 1974: optimize the critical code, once "
    "measurement has identified it; and a course that repeats it with a condition of its own that is as long again",
    claimed=0.987654,
    evidence="In batches of 64 the multilayer perceptron became {measured}`ratio` as fast, moving {measured}`bytes`. "
    "It reached {measured}`rate` in {measured}`time`; for the convolutional network and for the transformer that "
    "generates text it was another factor each, "
    "where a tenth less than each factor is allowed. "
    + "Other programs took this machine's time from what was measured here, so this build judges nothing. " * 5,
    printed="x" * 400,
    machine={
        "system": "Linux-6.11.0-1018-azure-x86_64-with-glibc2.39 (Ubuntu 24.04.3 LTS, container)",
        "cpu": "Intel(R) Xeon(R) Platinum 8573C with 3rd generation extensions for high-bandwidth memory @ 2.30GHz",
        "vectors": "AVX-512 with VNNI, BF16 and FP16; AMX with INT8 and BF16",
        "cores_physical": 1024,
        "cores_logical": 2048,
        "cores_usable": 2048,
        "memory_bytes": 2**44,
        "load": 1999.99,
    },
)  # fmt: skip

SHORTEST = SimpleNamespace(
    numbers={key: Measurement(key, (1.0,) * 7, unit) for key, unit in {
        "time": "s", "rate": "FLOP/s", "ratio": "", "bytes": "B/s"}.items()},
    word="fast",
    because_absent="No.",
    header="t",
    caption="All",
    rows=("a",),
    claims=1,
    statement="Fast.",
    source="Me too",
    claimed=2.0,
    evidence="{measured}`time`",
    printed="x",
    machine={**PROVENANCE["machine"], "system": "x", "cpu": "x", "vectors": "x"},
)  # fmt: skip
