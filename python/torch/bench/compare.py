#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares back end "weft" with another one for CPU tensors, in alternation:

    compare.py [--ranks 2] [--turns 5] [--peer gloo] [--largest BYTES]     operations and start, a table
    torchrun ... compare.py --worker ...                                   one process of it

The processes of one torchrun have a group of each back end and measure them in turns, in the same run: the table has the medians
of the turns, in microseconds, of the slowest rank.  The time to start is that of init_process_group and a barrier, of the slowest
rank, after all have imported torch; for it, torchrun is started anew for each turn and back end."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

CALLS = ("allreduce", "broadcast", "allgather")


def parse():
    options = argparse.ArgumentParser()
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--peer", default="gloo")
    options.add_argument("--largest", type=int, default=1 << 24)
    options.add_argument("--worker", choices=("operations", "start"))
    options.add_argument("--backend", default="weft")
    return options.parse_args()


def sizes(largest):
    n = 8
    while n <= largest:
        yield n
        n *= 8


def repeats(nbytes):
    """About the same time for each size: of the size of 8 to 16 MiB, 4 calls."""
    return max(4, min(200, (1 << 24) // max(nbytes, 1)))


def call_of(name, nbytes, group):
    import torch
    import torch.distributed as dist
    data = torch.zeros(nbytes // 4)
    if name == "allreduce":
        return lambda: dist.all_reduce(data, group=group)
    if name == "broadcast":
        return lambda: dist.broadcast(data, 0, group=group)
    whole = torch.zeros(nbytes // 4 * dist.get_world_size())
    return lambda: dist.all_gather_into_tensor(whole, data, group=group)


def operations(options):
    import torch
    import torch.distributed as dist
    import weft_torch  # noqa: F401 (registers the back end)
    dist.init_process_group("gloo")
    groups = {name: dist.new_group(backend=name) for name in ("weft", options.peer)}
    for name in CALLS:
        for nbytes in sizes(options.largest):
            calls = {b: call_of(name, nbytes, g) for b, g in groups.items()}
            times = {b: [] for b in groups}
            for turn in range(options.turns + 1):
                for b in sorted(groups, reverse=turn % 2 == 1):
                    n = repeats(nbytes)
                    dist.barrier()
                    begin = time.perf_counter()
                    for _ in range(n):
                        calls[b]()
                    mine = torch.tensor([(time.perf_counter() - begin) / n])
                    dist.all_reduce(mine, dist.ReduceOp.MAX)
                    if turn:  # the first one prepares memory and connections
                        times[b].append(mine.item() * 1e6)
            if dist.get_rank() == 0:
                print(json.dumps({"call": name, "bytes": nbytes, **times}), flush=True)
    dist.destroy_process_group()


def start(options):
    import torch
    import torch.distributed as dist
    import weft_torch
    if options.backend == "weft":
        weft_torch._module()  # found and loaded, as torch has loaded its own
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, is_master=False)
    store.set(f"here{rank}", "")
    store.wait([f"here{r}" for r in range(size)])
    begin = time.perf_counter()
    dist.init_process_group(options.backend)
    dist.barrier()
    mine = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"start": options.backend, "s": mine.item()}), flush=True)
    dist.destroy_process_group()


def torchrun(options, *arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.ranks),
               os.path.abspath(__file__), "--turns", str(options.turns), "--peer", options.peer, "--largest", str(options.largest)]
    r = subprocess.run([*command, *arguments], env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.PIPE, text=True)
    if r.returncode:
        sys.exit(f"compare.py: torchrun ended with {r.returncode}")
    return [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")]


def line(name, what, ours, peer):
    us, other = statistics.median(ours), statistics.median(peer)
    print(f"{name:<10} {what:>9} {us:>11.1f} {other:>11.1f} {us / other:>7.2f}", flush=True)


def main():
    options = parse()
    if options.worker:
        return {"operations": operations, "start": start}[options.worker](options)
    print(f"{options.ranks} processes, {os.cpu_count()} cores, medians of {options.turns} turns in alternation, us")
    print(f"{'':<10} {'bytes':>9} {'weft':>11} {options.peer:>11} {'ratio':>7}")
    for row in torchrun(options, "--worker", "operations"):
        line(row["call"], row["bytes"], row["weft"], row[options.peer])
    times = {"weft": [], options.peer: []}
    for turn in range(options.turns):
        for b in sorted(times, reverse=turn % 2 == 1):
            times[b] += [row["s"] * 1e6 for row in torchrun(options, "--worker", "start", "--backend", b)]
    line("start", "", times["weft"], times[options.peer])


if __name__ == "__main__":
    main()
