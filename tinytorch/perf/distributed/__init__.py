"""Training on several ranks, processes on this machine or on many that talk through MPI; and a model of more of them.

Importing this starts no MPI: that is `world`'s work, or `launch`'s in processes of their own. Every rank imports it, so
what judges measurements, and brings SciPy, is imported from where it stands, `collectives.measured`.
"""

from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, given_link
from tinytorch.perf.distributed.cluster_model.prediction import Prediction, Split, best_splits, possible_splits, predict
from tinytorch.perf.distributed.cluster_model.workload import Workload
from tinytorch.perf.distributed.ranks.communicator import Communicator, world
from tinytorch.perf.distributed.ranks.launch import RankError, launch
from tinytorch.perf.distributed.ranks.watch import watched
from tinytorch.perf.distributed.training.batches import ShardedBatches
from tinytorch.perf.distributed.training.data_parallel import DataParallel, counted_targets
from tinytorch.perf.distributed.training.run import Checkpoints, train

__all__ = [
    "Checkpoints",
    "Cluster",
    "Communicator",
    "DataParallel",
    "Prediction",
    "RankError",
    "ShardedBatches",
    "Split",
    "Workload",
    "best_splits",
    "counted_targets",
    "given_link",
    "launch",
    "possible_splits",
    "predict",
    "train",
    "watched",
    "world",
]
