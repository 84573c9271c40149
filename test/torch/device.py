#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""CUDA tensors of the back end over the fake CUDA driver: what the back end puts on which stream, and that the host waits for no
device.  Run by a launcher that sets RANK and WORLD_SIZE; "--build FOLDER" compiles fake_device.cpp first, without a launcher."""

import importlib.util
import os
import sys

import torch
import torch.distributed as dist
import weft_torch
from weft_torch import _build

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = sys.argv[-1]


def build():
    library = _build.find_library()
    libs = os.path.join(os.path.dirname(torch.__file__), "lib")
    _build._run([*_build._compiler(), *_build._flags(_build.find_header(library)), "-shared",
                 os.path.join(HERE, "fake_device.cpp"), f"-L{libs}", "-lc10", "-ltorch_cpu", "-ltorch_python", "-ldl", "-o",
                 os.path.join(FOLDER, "fake_device.so")])


def load():
    spec = importlib.util.spec_from_file_location("fake_device", os.path.join(FOLDER, "fake_device.so"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if sys.argv[1] == "--build":
    build()
    sys.exit()

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
fake = load()


def filled(n, values):
    return fake.filled(torch.tensor(values, dtype=torch.float32).expand(n).contiguous())


def put(t, values):
    if t.numel():
        fake.copy(t, filled(t.numel(), values))


def tensor(n, values):
    put(t := fake.empty(n), values)
    return t


def same(t, expected):
    got, expected = fake.load(t), torch.as_tensor(expected, dtype=torch.float32).expand(t.numel())
    assert torch.equal(got, expected), f"rank {RANK} of {SIZE}: got {got}, expected {expected}"


SUM = float(SIZE * (SIZE + 1) // 2)


def collectives():
    for n in (0, 1, 1000, 700000):  # short and long calls
        t = tensor(n, [RANK + 1.0])
        dist.all_reduce(t)
        same(t, [SUM])
        t = tensor(n, [RANK + 1.0])
        dist.all_reduce(t, dist.ReduceOp.MAX)
        same(t, [float(SIZE)])
        dist.broadcast(put(t, [RANK + 1.0]) or t, SIZE - 1)
        same(t, [float(SIZE)])
        dist.reduce(put(t, [RANK + 1.0]) or t, 0)
        same(t, [SUM if RANK == 0 else RANK + 1.0])
        whole = fake.empty(n * SIZE)
        dist.all_gather_into_tensor(whole, tensor(n, [float(RANK)]))
        same(whole, torch.arange(SIZE).float().repeat_interleave(n))
        part = fake.empty(n)
        dist.reduce_scatter_tensor(part, whole)
        same(part, [float(RANK * SIZE)])
        if n:
            out = fake.empty(n * SIZE)
            dist.all_to_all_single(out, tensor(n * SIZE, [float(RANK)]))
            same(out, torch.arange(SIZE).float().repeat_interleave(n))
    out = fake.empty(SIZE * (SIZE - 1) // 2 if RANK else SIZE)  # rank 0 gets 1 element of each, the others r of rank r
    rows = [1] * SIZE if RANK == 0 else list(range(SIZE))
    dist.all_to_all_single(out, tensor(1 + RANK * (SIZE - 1), [float(RANK)]), rows, [1] + [RANK] * (SIZE - 1))
    same(out, torch.repeat_interleave(torch.arange(SIZE).float(), torch.tensor(rows)))


def order():
    """The data are those that the current stream has when it gets there; the host does not wait; later work waits."""
    t = tensor(1000, [0.0])
    dist.all_reduce(t)
    waits, recorded = fake.waits(), fake.recorded()
    fake.hold()
    put(t, [RANK + 1.0])
    work = dist.all_reduce(t, async_op=True)
    assert not work.is_completed()
    work.wait()
    put(twice := fake.empty(1000), [5.0])
    dist.all_reduce(t)
    assert fake.waits() == waits and fake.recorded() > recorded
    fake.release()
    same(t, [SUM * SIZE])
    same(twice, [5.0])
    work = dist.all_reduce(t, async_op=True)
    work.wait(timeout=__import__("datetime").timedelta(seconds=60))
    assert work.is_completed() and work.result()[0].data_ptr() == t.data_ptr()


def streams():
    """A wait on another stream than that of the call."""
    first = fake.new_stream()
    t = tensor(1000, [RANK + 1.0])
    fake.hold()
    put(t, [RANK + 2.0])
    work = dist.all_reduce(t, async_op=True)
    fake.new_stream()
    work.wait()
    fake.release()
    same(t, [SUM + SIZE])
    fake.set_stream(first)


def messages():
    if SIZE == 1:
        return
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for n in (1, 1000, 300000):
        got = [fake.empty(n) for _ in range(2)]
        data = [tensor(n, [float(RANK + 10 * i)]) for i in range(2)]
        # All receives first: the batch brings them into an order that works.
        ops = [dist.P2POp(dist.irecv, got[0], left), dist.P2POp(dist.irecv, got[1], left),
               dist.P2POp(dist.isend, data[0], right), dist.P2POp(dist.isend, data[1], right)]
        for w in dist.batch_isend_irecv(ops):
            w.wait()
        for i in range(2):
            same(got[i], [float(left + 10 * i)])
    if RANK < 2:  # without a batch, in both orders
        for n in (10, 300000):
            got = fake.empty(n)
            works = [dist.irecv(got, 1 - RANK, tag=3), dist.isend(tensor(n, [float(RANK)]), 1 - RANK, tag=3)]
            for w in works if RANK else works[::-1]:
                w.wait()
            assert RANK or works[0]._source_rank() == 1
            same(got, [float(1 - RANK)])
    if RANK == 0:
        try:
            dist.recv(fake.empty(1))
            raise AssertionError("no error")
        except (RuntimeError, ValueError) as e:
            assert "given rank" in str(e), e


def coalesced():
    many = [tensor(n, [float(RANK + 1)]) for n in (1, 70, 3000)]
    with dist._coalescing_manager(device=many[0].device, async_ops=True) as manager:
        for t in many:
            dist.all_reduce(t)
    manager.wait()
    for t in many:
        same(t, [SUM])


def groups():
    part = dist.new_group([0])
    if RANK == 0:
        t = tensor(10, [3.0])
        dist.all_reduce(t, group=part)
        same(t, [3.0])
    everybody = dist.new_group(list(range(SIZE))[::-1])
    t = tensor(10, [RANK + 1.0])
    dist.broadcast(t, SIZE - 1, group=everybody)
    same(t, [float(SIZE)])
    dist.destroy_process_group(everybody)


def graphs():
    """A captured allreduce between two copies, launched several times."""
    own, a, other = filled(1000, [RANK + 1.0]), fake.empty(1000), fake.empty(1000)
    dist.all_reduce(own.detach())  # creates what cannot be created during a capture
    fake.copy(own, filled(1000, [RANK + 1.0]))
    fake.load(own)
    fake.capture()
    fake.copy(a, own)
    dist.all_reduce(a)
    fake.copy(other, a)
    dist.broadcast(a, 0)
    graph = fake.captured()
    for i in range(3):
        put(a, [99.0])
        put(own, [RANK + 1.0 + i])
        fake.launch(graph)
        same(a, [SUM + i * SIZE])
        same(other, [SUM + i * SIZE])


def futures():
    t = tensor(1000, [RANK + 1.0])
    future = dist.all_reduce(t, async_op=True).get_future()
    future.wait()
    same(t, [SUM])


def main():
    fake.start(RANK)
    weft_torch._stream_handle = lambda stream, device, kind: stream
    torch.cuda.get_device_capability = lambda device: (9, 0)  # torch asks the runtime, which does not know the fake driver
    dist.init_process_group("cpu:weft,cuda:weft")
    for case in (collectives, order, streams, messages, coalesced, groups, graphs, futures):
        if sys.argv[1:-1] and case.__name__ not in sys.argv[1:-1]:
            continue
        case()
        dist.barrier()
        if RANK == 0:
            print(f"passed {case.__name__} with {SIZE} ranks", flush=True)
    dist.destroy_process_group()


main()
