# SPDX-License-Identifier: BSD-3-Clause
"""Back end "weft" of torch.distributed, over Weft MPI.

torch finds it by its entry point in the group torch.distributed.backends; versions of torch without that group find it after
`import weft_torch`.  CPU and CUDA tensors are moved; docs/FRAMEWORKS.md of Weft has the rest.
"""

import atexit
import os

import torch
from torch import distributed as dist

__all__ = ["register"]

_state = {"module": None, "started": False}


def _launched_by_pmix(rank):
    """Whether the launcher has made these processes ranks of MPI already: mpirun, srun --mpi=pmix.  torchrun has not, even
    if mpirun has started it."""
    return ("PMIX_NAMESPACE" in os.environ and "TORCHELASTIC_RUN_ID" not in os.environ
            and os.environ.get("PMIX_RANK") == str(rank))


def _world(opts):
    """This process's rank among all, and their number."""
    if not opts.global_ranks_in_group:
        return opts.group_rank, opts.group_size
    return dist.get_rank(), dist.get_world_size()


def _module():
    if _state["module"] is None:
        from . import _build
        _state["module"] = _build.load()
        atexit.register(_state["module"].stop)
    return _state["module"]


def _stream_handle(stream, device, kind):
    return torch.cuda.Stream(stream_id=stream, device_index=device, device_type=kind).cuda_stream


def _create(opts, _backend_options=None):
    module = _module()
    rank, size = _world(opts)
    ranks = list(opts.global_ranks_in_group)
    if not _state["started"]:
        if ranks and len(ranks) != size:
            raise RuntimeError(f"weft: the first group of this back end has {len(ranks)} of {size} processes, but all must "
                               "start MPI together: init_process_group(\"weft\") or (\"cpu:weft,...\")")
        module.start(opts.store, _launched_by_pmix(rank), rank, size, max(1, int(opts.timeout.total_seconds())),
                     _stream_handle)
        _state["started"] = True
    return module.create(opts.group_rank, opts.group_size, ranks, opts.group_id, opts.timeout)


def register():
    """Makes the back end known to torch; repeated calls have no effect."""
    if not hasattr(dist.Backend, "WEFT"):
        dist.Backend.register_backend("weft", _create, extended_api=True, devices=["cpu", "cuda"])


register()
