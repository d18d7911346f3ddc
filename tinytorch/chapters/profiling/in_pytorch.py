"""The page's code for PyTorch; it runs where PyTorch is, see `tinytorch.perf.engines.snippets`."""


def profile_gpt() -> None:
    """Print the five operations of the zoo's GPT that take PyTorch the most time, with our weights."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from tinytorch import models
    from tinytorch.perf.engines.pytorch import twin_of

    gpt = twin_of(models.trained("gpt")).module.eval()
    tokens = torch.from_numpy(models.example("gpt", batch=64))
    torch.set_num_threads(1)
    with torch.inference_mode():
        gpt(tokens)  # a warm-up
        with profile(activities=[ProfilerActivity.CPU], with_flops=True) as p:
            gpt(tokens)
    rows = sorted(p.key_averages(), key=lambda row: row.self_cpu_time_total, reverse=True)
    for row in rows[:5]:
        name = row.key.removeprefix("aten::").removesuffix("_for_cpu")
        milliseconds = row.self_cpu_time_total / 1000
        print(f"{name:<36} {row.count:>3} calls {milliseconds:6.2f} ms {row.flops / 1e6:6.0f} MFLOP")
