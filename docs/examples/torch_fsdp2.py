#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small model with FSDP2 (fully_shard), each process holding a part of each parameter, and compares it with the same
training in one process:

    torchrun --nproc-per-node 2 torch_fsdp2.py
    mpirun -n 2 python3 torch_fsdp2.py
"""

import os

import torch
import torch.distributed as dist
import weft_torch  # noqa: F401 (not needed where weft-torch is installed and torch loads back ends by itself)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS, BATCH, WIDTH = 10, 24, 32
KIND = "cuda" if torch.cuda.is_available() else "cpu"


def model():
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(3)]
    return torch.nn.Sequential(*layers, torch.nn.Tanh(), torch.nn.Linear(WIDTH, 1)).double().to(KIND)


def train(net, rank, size):
    """Each process has its part of every batch; FSDP2 averages the gradients."""
    make = torch.Generator().manual_seed(2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        x = torch.randn(BATCH, WIDTH, generator=make, dtype=torch.float64).to(KIND)
        y = x.sum(1, keepdim=True).sin()
        loss = torch.nn.functional.mse_loss(net(x.chunk(size)[rank]), y.chunk(size)[rank])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    if KIND == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("weft")
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh, net = init_device_mesh(KIND, (size,)), model()
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(net, rank, size)
    alone = model()
    train(alone, 0, 1)
    for part, whole in zip(net.parameters(), alone.parameters()):
        torch.testing.assert_close(part.full_tensor(), whole)
    if rank == 0:
        held = sum(p.to_local().numel() for p in net.parameters())
        print(f"{size} processes: the same model as one process has, {held} of {sum(p.numel() for p in alone.parameters())} "
              "parameters in this one")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
