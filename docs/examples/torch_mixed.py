#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two back ends in one program: weft for tensors of the CPU, and for those of the GPU NCCL (where there is no GPU: Gloo in a
group of its own).

    torchrun --nproc-per-node 2 torch_mixed.py
    mpirun -n 2 python3 torch_mixed.py
"""

import os

import torch
import torch.distributed as dist
import weft_torch  # noqa: F401 (not needed where weft-torch is installed and torch loads back ends by itself)


def main():
    gpus = torch.cuda.device_count()
    if gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % gpus)
        dist.init_process_group("cpu:weft,cuda:nccl")
        other, group = "NCCL", None
    else:
        dist.init_process_group("weft")
        other, group = "Gloo", dist.new_group(backend="gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    # Numbers of the program's logic on the CPU, by weft; the data elsewhere, by the other, meanwhile.
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    data = torch.full((1000,), float(rank), device="cuda" if gpus else "cpu")
    works = [dist.all_reduce(data, group=group, async_op=True),
             dist.all_gather(lengths, torch.tensor([100 + rank]), async_op=True)]
    for work in works:
        work.wait()
    assert [int(n) for n in lengths] == [100 + r for r in range(size)], lengths
    assert data.eq(size * (size - 1) / 2).all(), data
    dist.barrier()
    if rank == 0:
        print(f"{size} processes: weft and {other} in one program")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
