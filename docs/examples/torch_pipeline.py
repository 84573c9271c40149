#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a model whose layers are spread over the processes: activations go to the next process, gradients come back, for one
part of the batch after another.  The messages are isend and irecv, so a process computes while they arrive.

    torchrun --nproc-per-node 4 torch_pipeline.py
    mpirun -n 4 python3 torch_pipeline.py
"""

import os

import torch
import torch.distributed as dist
import weft_torch  # noqa: F401 (not needed where weft-torch is installed and torch loads back ends by itself)

STEPS, PARTS, ROWS, WIDTH = 5, 4, 6, 16
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def layer(i):
    torch.manual_seed(i)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()).double().to(DEVICE)


def batches():
    make = torch.Generator().manual_seed(7)
    for _ in range(STEPS):
        yield torch.randn(PARTS, ROWS, WIDTH, generator=make, dtype=torch.float64).to(DEVICE)


def step(net, optimizer, rank, size, batch):
    """All forward passes, then all backward passes."""
    first, last, flying, ins, outs = rank == 0, rank == size - 1, [], [], []
    optimizer.zero_grad()
    if not first:
        ins = [torch.empty(ROWS, WIDTH, dtype=torch.float64, device=DEVICE) for _ in range(PARTS)]
        arrivals = [dist.irecv(t, rank - 1) for t in ins]
    for i in range(PARTS):
        if not first:
            arrivals[i].wait()
        x = batch[i] if first else ins[i].requires_grad_()
        outs.append(net(x))
        if not last:
            flying.append(dist.isend(outs[i].detach(), rank + 1))
    if not last:
        gradients = [torch.empty_like(t) for t in outs]
        arrivals = [dist.irecv(t, rank + 1) for t in gradients]
    for i in range(PARTS):
        if last:
            (outs[i].square().mean() / PARTS).backward()
        else:
            arrivals[i].wait()
            outs[i].backward(gradients[i])
        if not first:
            flying.append(dist.isend(ins[i].grad, rank - 1))
    for work in flying:
        work.wait()
    optimizer.step()


def main():
    if DEVICE.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("weft")
    rank, size = dist.get_rank(), dist.get_world_size()
    net = layer(rank)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in batches():
        step(net, optimizer, rank, size, batch)

    whole = torch.nn.Sequential(*(layer(i) for i in range(size)))
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    for batch in batches():
        optimizer.zero_grad()
        whole(batch.flatten(0, 1)).square().mean().backward()
        optimizer.step()
    for a, b in zip(net.parameters(), whole[rank].parameters()):
        torch.testing.assert_close(a, b)
    dist.barrier()
    if rank == 0:
        print(f"{size} processes: the same layers as one process has")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
