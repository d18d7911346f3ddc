"""Training and measuring on several ranks: processes on this machine or on many, which talk through MPI.

Importing this starts no MPI: that is `world`'s work, or `launch`'s in processes of their own. What judges measurements
is loaded when it is first asked for: it brings SciPy, whose import every rank would pay for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinytorch.perf.distributed.messages.ring import ring_all_reduce
from tinytorch.perf.distributed.ranks.communicator import Communicator, Pending, Place, world
from tinytorch.perf.distributed.ranks.launch import RankError, launch
from tinytorch.perf.distributed.ranks.mpi import MPIMissingError
from tinytorch.perf.distributed.ranks.watch import watched
from tinytorch.perf.distributed.recording.clocks import Clocks, align
from tinytorch.perf.distributed.training.batch_norm import SynchronizedBatchNorm2d, synchronized
from tinytorch.perf.distributed.training.checkpoint import load_checkpoint, save_checkpoint
from tinytorch.perf.distributed.training.data_parallel import DataParallel, counted_targets
from tinytorch.perf.distributed.training.pipeline import Pipeline
from tinytorch.perf.distributed.training.run import Checkpoints, train
from tinytorch.perf.distributed.training.sampler import ShardedBatches, micro_batches
from tinytorch.perf.distributed.training.schedules import gpipe, one_forward_one_backward
from tinytorch.perf.distributed.training.stages import GPTStage, sequential_stage
from tinytorch.perf.distributed.training.tensor_parallel import (
    ColumnParallelLinear,
    HeadParallelAttention,
    ParallelFeedForward,
    RowParallelLinear,
    tensor_parallel,
)

if TYPE_CHECKING:
    from tinytorch.perf.distributed.campaigns.campaign import Campaign, CampaignSide, join_campaign, start_campaign
    from tinytorch.perf.distributed.larger.links import Cluster, GivenLink, given_link
    from tinytorch.perf.distributed.larger.prediction import Prediction, Split, predict
    from tinytorch.perf.distributed.larger.published_scaling import PublishedResult, published_results
    from tinytorch.perf.distributed.larger.splits import best_splits, scaling_curve
    from tinytorch.perf.distributed.larger.validation import GPTShape, Validation, measured_workload, validate
    from tinytorch.perf.distributed.larger.workload import Workload, transformer_workload
    from tinytorch.perf.distributed.messages.collective_files import load_collectives, save_collectives
    from tinytorch.perf.distributed.messages.collectives import Collectives, measure_collectives, measure_collectives_on
    from tinytorch.perf.distributed.messages.link_fit import FittedLink, fit, fit_pieces
    from tinytorch.perf.distributed.ranks.oversubscription import Withheld, compare_on_ranks
    from tinytorch.perf.distributed.recording.rank_recording import RankRecording, recorded
    from tinytorch.perf.distributed.recording.step_recording import StepRecordings, record_steps, shares_over, typical
    from tinytorch.perf.distributed.recording.timeline import Timeline
    from tinytorch.perf.distributed.scaling.law_fit import LawFit, fit_law
    from tinytorch.perf.distributed.scaling.overlapping import Overlap, overlap
    from tinytorch.perf.distributed.scaling.scaling_laws import amdahl_speedup, gustafson_speedup
    from tinytorch.perf.distributed.scaling.sharding import RankMemory, ShardedMemory, sharded_memory
    from tinytorch.perf.distributed.scaling.strong_weak import Scaling, ScalingVerdict, strong_scaling, weak_scaling

#: What is loaded later, by module; in the block above for type checkers.
_LATER = {
    "campaigns.campaign": ("Campaign", "CampaignSide", "join_campaign", "start_campaign"),
    "messages.collective_files": ("load_collectives", "save_collectives"),
    "messages.collectives": ("Collectives", "measure_collectives", "measure_collectives_on"),
    "scaling.law_fit": ("LawFit", "fit_law"),
    "messages.link_fit": ("FittedLink", "fit", "fit_pieces"),
    "larger.links": ("Cluster", "GivenLink", "given_link"),
    "scaling.overlapping": ("Overlap", "overlap"),
    "ranks.oversubscription": ("Withheld", "compare_on_ranks"),
    "larger.prediction": ("Prediction", "Split", "predict"),
    "larger.published_scaling": ("PublishedResult", "published_results"),
    "recording.rank_recording": ("RankRecording", "recorded"),
    "scaling.strong_weak": ("Scaling", "ScalingVerdict", "strong_scaling", "weak_scaling"),
    "scaling.scaling_laws": ("amdahl_speedup", "gustafson_speedup"),
    "scaling.sharding": ("RankMemory", "ShardedMemory", "sharded_memory"),
    "larger.splits": ("best_splits", "scaling_curve"),
    "recording.step_recording": ("StepRecordings", "record_steps", "shares_over", "typical"),
    "recording.timeline": ("Timeline",),
    "larger.validation": ("GPTShape", "Validation", "measured_workload", "validate"),
    "larger.workload": ("Workload", "transformer_workload"),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Campaign",
    "CampaignSide",
    "Checkpoints",
    "Clocks",
    "Cluster",
    "Collectives",
    "ColumnParallelLinear",
    "Communicator",
    "DataParallel",
    "FittedLink",
    "GPTShape",
    "GPTStage",
    "GivenLink",
    "HeadParallelAttention",
    "LawFit",
    "MPIMissingError",
    "Overlap",
    "ParallelFeedForward",
    "Pending",
    "Pipeline",
    "Place",
    "Prediction",
    "PublishedResult",
    "RankError",
    "RankMemory",
    "RankRecording",
    "RowParallelLinear",
    "Scaling",
    "ScalingVerdict",
    "ShardedBatches",
    "ShardedMemory",
    "Split",
    "StepRecordings",
    "SynchronizedBatchNorm2d",
    "Timeline",
    "Validation",
    "Withheld",
    "Workload",
    "align",
    "amdahl_speedup",
    "best_splits",
    "compare_on_ranks",
    "counted_targets",
    "fit",
    "fit_law",
    "fit_pieces",
    "given_link",
    "gpipe",
    "gustafson_speedup",
    "join_campaign",
    "launch",
    "load_checkpoint",
    "load_collectives",
    "measure_collectives",
    "measure_collectives_on",
    "measured_workload",
    "micro_batches",
    "one_forward_one_backward",
    "overlap",
    "predict",
    "published_results",
    "record_steps",
    "recorded",
    "ring_all_reduce",
    "save_checkpoint",
    "save_collectives",
    "scaling_curve",
    "sequential_stage",
    "sharded_memory",
    "shares_over",
    "start_campaign",
    "strong_scaling",
    "synchronized",
    "tensor_parallel",
    "train",
    "transformer_workload",
    "typical",
    "validate",
    "watched",
    "weak_scaling",
    "world",
]
