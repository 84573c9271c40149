#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small model with DistributedDataParallel on CPUs and compares it with the same training in one process:

    torchrun --nproc-per-node 2 torch_ddp.py [weft|gloo]
    mpirun -n 2 python3 torch_ddp.py
"""

import sys

import torch
import torch.distributed as dist
import weft_torch  # noqa: F401 (not needed where weft-torch is installed and torch loads back ends by itself)
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 20, 24


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).double()


def train(net, rank, size):
    """Each process has its part of every batch; DDP averages the gradients."""
    make = torch.Generator().manual_seed(2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        x = torch.randn(BATCH, 16, generator=make, dtype=torch.float64)
        y = x.sum(1, keepdim=True).sin()
        loss = torch.nn.functional.mse_loss(net(x.chunk(size)[rank]), y.chunk(size)[rank])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    dist.init_process_group(sys.argv[1] if sys.argv[1:] else "weft")
    rank, size = dist.get_rank(), dist.get_world_size()
    if BATCH % size:
        raise SystemExit(f"a batch of {BATCH} cannot be divided equally among {size} processes")
    net = DistributedDataParallel(model(), bucket_cap_mb=0.001)
    train(net, rank, size)
    alone = model()
    loss = train(alone, 0, 1)
    for a, b in zip(net.module.parameters(), alone.parameters()):
        torch.testing.assert_close(a, b)
    if rank == 0:
        print(f"{size} processes: the same model as one process has, loss {loss:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
