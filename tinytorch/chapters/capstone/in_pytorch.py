"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""

from collections.abc import Callable
from typing import Any


def answering(gpt: Any, prompts: Any) -> Callable[[], Any]:
    """Return a call that writes ten tokens after each prompt, and reads the text again for each."""
    import torch

    def call() -> Any:
        tokens = torch.from_numpy(prompts)
        with torch.inference_mode():
            for _ in range(10):
                tokens = torch.cat([tokens, gpt(tokens)[:, -1:].argmax(-1)], 1)
        return tokens.numpy()

    return call


def take_one_step() -> None:
    """Print a plain call's costliest operator, for 1 and 32 questions, and a cache's gain."""
    from torch import profiler, set_num_threads
    from torch.utils.benchmark import Timer

    from tinytorch import models
    from tinytorch.perf.engines.pytorch import generation, twin_of

    set_num_threads(1)
    gpt, questions = models.trained("gpt"), models.example("gpt", 32)[:, :11]
    for asked in (questions[:1], questions):
        plain, cached = answering(twin_of(gpt).module, asked), generation(gpt, asked, 10, "preallocated")
        with profiler.profile() as found:
            told = plain()
        top = max(found.key_averages(), key=lambda op: op.self_cpu_time_total).key
        before, after = (Timer("f()", globals={"f": way}).blocked_autorange().median * 1e3 for way in (plain, cached))
        kept = (told == cached()).all()
        print(f"{len(asked)} asked, most in {top}: plain {before:.1f} ms, cached {after:.1f} ms, same: {kept}")
