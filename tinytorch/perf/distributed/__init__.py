"""Training and measuring on several ranks: processes on this machine or on many, which talk through MPI.

Importing this starts no MPI: that is `world`'s work, or `launch`'s in processes of their own. What judges measurements
is loaded when it is first asked for: it brings SciPy, whose import every rank would pay for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinytorch.perf.distributed.batch_norm import SynchronizedBatchNorm2d, synchronized
from tinytorch.perf.distributed.checkpoint import load_checkpoint, save_checkpoint
from tinytorch.perf.distributed.clocks import Clocks, align
from tinytorch.perf.distributed.communicator import Communicator, Pending, Place, world
from tinytorch.perf.distributed.data_parallel import DataParallel, counted_targets
from tinytorch.perf.distributed.launch import RankError, launch
from tinytorch.perf.distributed.mpi import MPIMissingError
from tinytorch.perf.distributed.pipeline import Pipeline
from tinytorch.perf.distributed.ring import ring_all_reduce
from tinytorch.perf.distributed.run import Checkpoints, train
from tinytorch.perf.distributed.sampler import ShardedBatches, micro_batches
from tinytorch.perf.distributed.schedules import gpipe, one_forward_one_backward
from tinytorch.perf.distributed.stages import GPTStage, sequential_stage
from tinytorch.perf.distributed.tensor_parallel import (
    ColumnParallelLinear,
    HeadParallelAttention,
    ParallelFeedForward,
    RowParallelLinear,
    tensor_parallel,
)
from tinytorch.perf.distributed.watch import watched

if TYPE_CHECKING:
    from tinytorch.perf.distributed.campaign import Campaign, CampaignSide, join_campaign, start_campaign
    from tinytorch.perf.distributed.collective_files import load_collectives, save_collectives
    from tinytorch.perf.distributed.collectives import Collectives, measure_collectives, measure_collectives_on
    from tinytorch.perf.distributed.law_fit import LawFit, fit_law
    from tinytorch.perf.distributed.link_fit import FittedLink, fit, fit_pieces
    from tinytorch.perf.distributed.links import Cluster, GivenLink, given_link
    from tinytorch.perf.distributed.overlapping import Overlap, overlap
    from tinytorch.perf.distributed.oversubscription import Withheld, compare_on_ranks
    from tinytorch.perf.distributed.prediction import Prediction, Split, predict
    from tinytorch.perf.distributed.published_scaling import PublishedResult, published_results
    from tinytorch.perf.distributed.rank_recording import RankRecording, recorded
    from tinytorch.perf.distributed.scaling import Scaling, ScalingVerdict, strong_scaling, weak_scaling
    from tinytorch.perf.distributed.scaling_laws import amdahl_speedup, gustafson_speedup
    from tinytorch.perf.distributed.sharding import RankMemory, ShardedMemory, sharded_memory
    from tinytorch.perf.distributed.splits import best_splits, scaling_curve
    from tinytorch.perf.distributed.step_recording import StepRecordings, record_steps, shares_over, typical
    from tinytorch.perf.distributed.timeline import Timeline
    from tinytorch.perf.distributed.validation import GPTShape, Validation, measured_workload, validate
    from tinytorch.perf.distributed.workload import Workload, transformer_workload

#: What is loaded later, by module; in the block above for type checkers.
_LATER = {
    "campaign": ("Campaign", "CampaignSide", "join_campaign", "start_campaign"),
    "collective_files": ("load_collectives", "save_collectives"),
    "collectives": ("Collectives", "measure_collectives", "measure_collectives_on"),
    "law_fit": ("LawFit", "fit_law"),
    "link_fit": ("FittedLink", "fit", "fit_pieces"),
    "links": ("Cluster", "GivenLink", "given_link"),
    "overlapping": ("Overlap", "overlap"),
    "oversubscription": ("Withheld", "compare_on_ranks"),
    "prediction": ("Prediction", "Split", "predict"),
    "published_scaling": ("PublishedResult", "published_results"),
    "rank_recording": ("RankRecording", "recorded"),
    "scaling": ("Scaling", "ScalingVerdict", "strong_scaling", "weak_scaling"),
    "scaling_laws": ("amdahl_speedup", "gustafson_speedup"),
    "sharding": ("RankMemory", "ShardedMemory", "sharded_memory"),
    "splits": ("best_splits", "scaling_curve"),
    "step_recording": ("StepRecordings", "record_steps", "shares_over", "typical"),
    "timeline": ("Timeline",),
    "validation": ("GPTShape", "Validation", "measured_workload", "validate"),
    "workload": ("Workload", "transformer_workload"),
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
