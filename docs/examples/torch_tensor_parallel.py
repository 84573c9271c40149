#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Inference with each layer's matrices split over the processes: one all_reduce a layer.  On GPUs a step is captured in a CUDA
graph, with its all_reduces, and replayed; on CPUs it runs as it is.

    torchrun --nproc-per-node 2 torch_tensor_parallel.py
    mpirun -n 2 python3 torch_tensor_parallel.py
"""

import os

import torch
import torch.distributed as dist
import weft_torch  # noqa: F401 (not needed where weft-torch is installed and torch loads back ends by itself)

LAYERS, WIDTH, HIDDEN, ROWS, STEPS = 3, 32, 96, 4, 5
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def weights():
    make = torch.Generator().manual_seed(3)
    return [tuple(torch.randn(shape, generator=make, dtype=torch.float64).to(DEVICE) / 8 for shape in ((WIDTH, HIDDEN), (HIDDEN, WIDTH)))
            for _ in range(LAYERS)]


def forward(layers, x, reduce=lambda t: t):
    for up, down in layers:
        x = x + reduce((x @ up).relu() @ down)
    return x


def all_reduce(t):
    dist.all_reduce(t)
    return t


def main():
    if DEVICE.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("weft")
    rank, size = dist.get_rank(), dist.get_world_size()
    if HIDDEN % size:
        raise SystemExit(f"{HIDDEN} columns cannot be divided equally among {size} processes")
    whole = weights()
    own = [(up.chunk(size, 1)[rank].contiguous(), down.chunk(size, 0)[rank].contiguous()) for up, down in whole]
    make = torch.Generator().manual_seed(4)
    x = torch.zeros(ROWS, WIDTH, dtype=torch.float64, device=DEVICE)
    with torch.inference_mode():
        y = forward(own, x, all_reduce)  # before a capture: starts what the group needs on the device
        graph = torch.cuda.CUDAGraph() if DEVICE.type == "cuda" else None
        if graph:
            with torch.cuda.graph(graph):
                y = forward(own, x, all_reduce)
        for _ in range(STEPS):
            x.copy_(torch.randn(ROWS, WIDTH, generator=make, dtype=torch.float64))
            if graph:
                graph.replay()
            else:
                y = forward(own, x, all_reduce)
            torch.testing.assert_close(y, forward(whole, x))
    dist.barrier()
    if rank == 0:
        print(f"{size} processes: the same output as one process has, {'by a graph' if graph else 'on CPUs'}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
