#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The operations of back end "weft", each against what it must give; run by a launcher that sets RANK and WORLD_SIZE.
Rank 0 prints a line for each case; a rank whose check fails ends with 1."""

import datetime
import os
import sys
import threading

import torch
import torch.distributed as dist
import weft_torch  # noqa: F401 (registers the back end where torch has no entry points for it)

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
OTHERS = (torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn)
Op = dist.ReduceOp


def same(got, expected):
    assert torch.equal(got, expected), f"rank {RANK} of {SIZE}: got {got}, expected {expected}"


def fails(call, kind=(RuntimeError, ValueError), text=""):
    try:
        call()
    except kind as e:
        assert text in str(e), f"expected {text!r} in: {e}"
        return
    raise AssertionError(f"rank {RANK}: no error")


def inputs(dtype, n=5):
    """What each rank has: small numbers, exact in every dtype."""
    return [(torch.arange(n) % 3 + 1 + r % 2).to(dtype) for r in range(SIZE)]


def reduced(values, op):
    result = values[0].clone()
    for v in values[1:]:
        result = {Op.SUM: torch.add, Op.PRODUCT: torch.mul, Op.MIN: torch.minimum, Op.MAX: torch.maximum, Op.BAND:
                  torch.bitwise_and, Op.BOR: torch.bitwise_or, Op.BXOR: torch.bitwise_xor}[op](result, v)
    return result


def allreduce():
    for n in (0, 1, 5, 70001):
        for dtype in FLOATS + INTS + OTHERS[1:3]:
            ops = [Op.SUM]  # all that torch allows for complex numbers
            if not dtype.is_complex:
                ops += [Op.PRODUCT, Op.MIN, Op.MAX]
            if dtype in INTS:
                ops += [Op.BAND, Op.BOR, Op.BXOR]
            for op in ops if n < 100 else ops[:1]:
                values = inputs(dtype, n)
                t = values[RANK].clone()
                dist.all_reduce(t, op)
                same(t, reduced(values, op))
    t = torch.full((3, 2), float(RANK))
    dist.all_reduce(t, Op.AVG)
    same(t, torch.full((3, 2), (SIZE - 1) / 2))
    t = torch.full((3,), 2.0)
    dist.all_reduce(t, dist._make_nccl_premul_sum(3.0))
    same(t, torch.full((3,), 6.0 * SIZE))
    t = torch.tensor([RANK == 0, True, False])
    dist.all_reduce(t)
    same(t, torch.tensor([True, True, False]))
    t = torch.tensor(float(RANK))  # without dimensions
    dist.all_reduce(t, Op.MAX)
    same(t, torch.tensor(float(SIZE - 1)))


def coalesced():
    many = [torch.full((n,), float(RANK + n)) for n in (1, 7, 3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for t in many:
            dist.all_reduce(t)
    manager.wait()
    for t, n in zip(many, (1, 7, 3)):
        same(t, torch.full((n,), float(SIZE * (SIZE - 1) // 2 + n * SIZE)))
    t = torch.tensor([RANK, 1])
    dist.all_reduce_coalesced([t, t, torch.zeros(3, dtype=t.dtype)])  # one sum, although it is there twice
    same(t, torch.tensor([SIZE * (SIZE - 1) // 2, SIZE]))
    outs, ins = [torch.empty(2 * SIZE) for _ in range(2)], [torch.full((2,), float(RANK + i)) for i in range(2)]
    with dist._coalescing_manager():
        for o, i in zip(outs, ins):
            dist.all_gather_into_tensor(o, i)
    for i in range(2):
        same(outs[i], torch.arange(SIZE).repeat_interleave(2).float() + i)


def modes():
    """Outputs that may be written in inference mode only, or that need gradients; all_gather copies into them at its end."""
    with torch.inference_mode():
        inferred = [torch.zeros(2) for _ in range(SIZE)]
        work = dist.all_gather(inferred, torch.full((2,), float(RANK)), async_op=True)
    work.wait()
    leaves = [torch.zeros(2, requires_grad=True) for _ in range(SIZE)]
    dist.all_gather(leaves, torch.full((2,), float(RANK)))
    for outs in (inferred, leaves):
        same(torch.stack([t.detach() for t in outs]), torch.arange(SIZE).float().repeat_interleave(2).reshape(SIZE, 2))


def broadcast_and_reduce():
    for root in range(SIZE):
        for dtype in FLOATS + INTS + OTHERS:
            t = torch.tensor([RANK == root, True] if dtype == torch.bool else [RANK + 1, 2]).to(dtype)
            dist.broadcast(t, root)
            same(t.to(torch.complex128), torch.tensor([1, 1] if dtype == torch.bool else [root + 1, 2]).to(torch.complex128))
        t = torch.full((4,), float(RANK + 1))
        dist.reduce(t, root)
        same(t, torch.full((4,), float(SIZE * (SIZE + 1) // 2) if RANK == root else float(RANK + 1)))


def gathers():
    parts = [torch.arange(6).reshape(3, 2) * 10 + r for r in range(SIZE)]
    got = [torch.empty_like(parts[0]) for _ in range(SIZE)]
    dist.all_gather(got, parts[RANK])
    for g, p in zip(got, parts):
        same(g, p)
    uneven = [torch.full((r,), float(r)) for r in range(SIZE)]
    got = [torch.empty(r) for r in range(SIZE)]
    dist.all_gather(got, uneven[RANK])
    for g, p in zip(got, uneven):
        same(g, p)
    whole = torch.empty((3 * SIZE, 2), dtype=torch.int64)
    dist.all_gather_into_tensor(whole, parts[RANK])
    same(whole, torch.cat(parts))
    dist.all_gather_into_tensor(whole, whole[3 * RANK:3 * RANK + 3])  # in place
    same(whole, torch.cat(parts))
    for root in (0, SIZE - 1):
        got = [torch.empty_like(parts[0]) for _ in range(SIZE)] if RANK == root else None
        dist.gather(parts[RANK], got, root)
        for g, p in zip(got or [], parts):
            same(g, p)
        t = torch.empty_like(parts[0])
        dist.scatter(t, parts if RANK == root else None, root)
        same(t, parts[RANK])
    if hasattr(dist, "gather_single"):  # from torch 2.15 on
        whole = torch.empty((3 * SIZE, 2), dtype=torch.int64) if RANK == 0 else None
        dist.gather_single(parts[RANK], whole, 0)
        if RANK == 0:
            same(whole, torch.cat(parts))
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK, "text": "x" * RANK})
    assert [o["rank"] for o in objects] == list(range(SIZE)), objects
    box = [{"from": 0}] if RANK == 0 else [None]
    dist.broadcast_object_list(box, 0)
    assert box == [{"from": 0}], box


def reduce_scatters():
    for op in (Op.SUM, Op.MAX, Op.AVG):
        whole = torch.arange(4 * SIZE).float() + RANK
        expected = torch.arange(4 * SIZE).float()[4 * RANK:4 * RANK + 4]
        expected = {Op.SUM: expected * SIZE + SIZE * (SIZE - 1) // 2, Op.MAX: expected + SIZE - 1,
                    Op.AVG: expected + (SIZE - 1) / 2}[op]
        out = torch.empty(4)
        dist.reduce_scatter_tensor(out, whole, op)
        same(out, expected)
        out = torch.empty(4)
        dist.reduce_scatter(out, list(whole.chunk(SIZE)), op)
        same(out, expected)
    uneven = [torch.full((r + 1,), float(r)) for r in range(SIZE)]
    out = torch.empty(RANK + 1)
    dist.reduce_scatter(out, uneven)
    same(out, torch.full((RANK + 1,), float(RANK * SIZE)))


def alltoalls():
    out = torch.empty(2 * SIZE, 3)
    dist.all_to_all_single(out, torch.full((2 * SIZE, 3), float(RANK)))
    same(out, torch.arange(SIZE).repeat_interleave(2).float().unsqueeze(1).expand(-1, 3))
    # rank r sends r + d rows to rank d
    to, fro = [RANK + d for d in range(SIZE)], [s + RANK for s in range(SIZE)]
    out = torch.empty(sum(fro), 2)
    dist.all_to_all_single(out, torch.full((sum(to), 2), float(RANK)), fro, to)
    same(out, torch.cat([torch.full((n, 2), float(s)) for s, n in enumerate(fro)]))
    outs = [torch.empty(n) for n in fro]
    dist.all_to_all(outs, [torch.full((n,), float(RANK * 100 + d)) for d, n in enumerate(to)])
    for s, o in enumerate(outs):
        same(o, torch.full((fro[s],), float(s * 100 + RANK)))


def messages():
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for n in (0, 1, 300000):
        got = torch.empty(n)
        works = [dist.isend(torch.full((n,), float(RANK)), right, tag=7), dist.irecv(got, left, tag=7)] if SIZE > 1 else []
        for w in works:
            w.wait()
            assert w.is_completed()
        if SIZE > 1:
            same(got, torch.full((n,), float(left)))
    if SIZE > 1:
        got = torch.empty(2)
        ops = [dist.P2POp(dist.isend, torch.full((2,), float(RANK)), right), dist.P2POp(dist.irecv, got, left)]
        for w in dist.batch_isend_irecv(ops):
            w.wait()
            assert w.is_completed()
        same(got, torch.full((2,), float(left)))
    if RANK == 0:
        seen = set()
        for _ in range(SIZE - 1):
            got = torch.empty(1)
            source = dist.recv(got)
            assert source == int(got.item()), (source, got)
            seen.add(source)
        assert seen == set(range(1, SIZE)), seen
    else:
        dist.send(torch.tensor([float(RANK)]), 0)


def works():
    t = torch.ones(1000)
    w = dist.all_reduce(t, async_op=True)
    future = w.get_future().then(lambda f: f.value()[0].sum().item())
    assert future.wait() == 1000 * SIZE
    assert w.wait() and w.is_completed() and w.is_success()
    # The thread of the back end makes progress while the program only looks.
    w = dist.all_reduce(t, async_op=True)
    while not w.is_completed():
        pass
    same(t, torch.full((1000,), float(SIZE * SIZE)))
    dist.all_reduce(torch.ones(100000), async_op=True)  # dropped
    dist.barrier()
    w = dist.barrier(async_op=True)
    w.wait()
    dist.monitored_barrier()


def groups():
    halves = [dist.new_group(list(range(i, SIZE, 2))) for i in range(min(2, SIZE))]
    mine = halves[RANK % 2 if SIZE > 1 else 0]
    members = list(range(RANK % 2, SIZE, 2))
    t = torch.tensor([float(RANK)])
    dist.all_reduce(t, group=mine)
    same(t, torch.tensor([float(sum(members))]))
    t = torch.tensor([float(RANK)])
    dist.broadcast(t, members[-1], group=mine)
    same(t, torch.tensor([float(members[-1])]))
    for i in range(5):  # created and destroyed again
        g = dist.new_group(list(range(SIZE))[::-1])
        t = torch.ones(3)
        dist.all_reduce(t, group=g)
        same(t, torch.full((3,), float(SIZE)))
        dist.destroy_process_group(g)
    mesh = dist.init_device_mesh("cpu", (SIZE,))
    t = torch.ones(2)
    dist.all_reduce(t, group=mesh.get_group())
    same(t, torch.full((2,), float(SIZE)))


def named():
    """Ranks that have created different numbers of groups give the next one different names."""
    everybody = list(range(SIZE))
    if RANK < SIZE - 1:
        dist.new_group(everybody[:-1], use_local_synchronization=True)
    names = [None] * SIZE
    for _ in range(2):
        group = dist.new_group(everybody, use_local_synchronization=True)
        t = torch.ones(3)
        dist.all_reduce(t, group=group)
        same(t, torch.full((3,), float(SIZE)))
        dist.all_gather_object(names, group.group_name)
        assert SIZE == 1 or len(set(names)) == 2, names


def absent():
    """A rank that does not create the group: the others name it after the timeout."""
    if SIZE == 1 or RANK == SIZE - 1:
        return
    limit = datetime.timedelta(seconds=1)
    fails(lambda: dist.new_group(list(range(SIZE)), timeout=limit, use_local_synchronization=True),
          text=f"Rank {SIZE - 1} has reported no wait")


def splits():
    """split_group: members in their own order, and of a group that is a part itself."""
    if SIZE == 1:
        return
    odd, even = list(range(1, SIZE, 2)), list(range(0, SIZE, 2))
    part = dist.split_group(split_ranks=[odd, even])
    mine = odd if RANK % 2 else even
    t = torch.tensor([float(RANK)])
    dist.all_reduce(t, group=part)
    same(t, torch.tensor([float(sum(mine))]))
    assert dist.get_backend(part) == "weft" and dist.get_rank(part) == mine.index(RANK)
    alone = dist.split_group(part, [[r] for r in range(len(mine))])  # everywhere: torch numbers its groups
    assert dist.get_world_size(alone) == 1
    dist.all_reduce(t, group=alone)
    same(t, torch.tensor([float(sum(mine))]))


def sparse():
    """Each rank has row RANK and the last row; rank 0 has nothing else than zeros."""
    rows = [RANK, SIZE] if RANK else []
    t = torch.sparse_coo_tensor([rows], torch.ones(len(rows), 2) * RANK, (SIZE + 1, 2))
    dist.all_reduce(t)
    expected = torch.arange(SIZE + 1).float().unsqueeze(1).expand(-1, 2).clone()
    expected[SIZE] = SIZE * (SIZE - 1) / 2
    same(t.to_dense(), expected)
    fails(lambda: dist.all_reduce(t, Op.MAX))


def threads():
    """Several threads wait at the same time, each in a group of its own; futures end without a wait."""
    members = [dist.new_group(list(range(SIZE))) for _ in range(4)]
    tensors = [torch.full((1000 * (i + 1),), float(RANK)) for i in range(4)]

    def many(i):
        for _ in range(50):
            t = tensors[i].clone()
            dist.all_reduce(t, group=members[i])
            same(t, torch.full_like(t, float(SIZE * (SIZE - 1) // 2)))

    workers = [threading.Thread(target=many, args=(i,)) for i in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    futures = [dist.all_reduce(torch.ones(1000), async_op=True).get_future() for _ in range(20)]
    for f in futures:
        same(f.wait()[0], torch.full((1000,), float(SIZE)))
    work = dist.all_reduce(torch.ones(10), async_op=True)
    work.get_future()
    assert work.wait() and work.is_completed()  # of a task that the progress thread has
    done = threading.Event()
    dist.all_reduce(torch.ones(100000), async_op=True).get_future().then(lambda f: done.set())
    assert done.wait(60)


def wrong():
    fails(lambda: dist.gather(torch.ones(3, 3).t(), [torch.ones(3, 3)] * SIZE if RANK == 0 else None), text="contiguous")
    fails(lambda: dist.all_reduce(torch.ones(4, 4).t()[1:]), text="contiguous")
    fails(lambda: dist.all_reduce(torch.ones(3, dtype=torch.float8_e4m3fn)), text="cannot reduce")
    fails(lambda: dist.all_reduce(torch.ones(3, dtype=torch.complex64), Op.MAX))
    fails(lambda: dist.all_reduce(torch.ones(3), Op.BAND), text="cannot reduce")
    fails(lambda: dist.all_gather_into_tensor(torch.ones(3 * SIZE + 1), torch.ones(3)))
    fails(lambda: dist.all_to_all_single(torch.ones(2), torch.ones(2), [1] * SIZE + [1], [2] * SIZE))
    if SIZE > 1:
        fails(lambda: dist.send(torch.ones(1), (RANK + 1) % SIZE, tag=-5), text="tag")


def late():
    """A timeout is an error that says which operation; must be the last case."""
    if SIZE == 1:
        return
    group = dist.new_group(list(range(SIZE)), timeout=datetime.timedelta(seconds=1))
    if RANK:
        fails(lambda: dist.all_reduce(torch.ones(7), group=group), text="allreduce of 28 bytes")
    else:
        fails(lambda: dist.monitored_barrier(group=group, timeout=datetime.timedelta(seconds=1), wait_all_ranks=True),
              text=", ".join(map(str, range(1, SIZE))))


def explained():
    """A timeout says what the other ranks wait for: all but ranks 0 and 1, then rank 1."""
    if SIZE == 1:
        return
    group = dist.new_group(list(range(SIZE)), timeout=datetime.timedelta(seconds=1))
    store = dist.distributed_c10d._get_default_store()
    if RANK == 1:
        store.wait([f"late{r}" for r in range(2, SIZE)])
        others = {2: "", 3: "Rank 2 waits in broadcast of 28 bytes."}.get(
            SIZE, f"Ranks {', '.join(map(str, range(2, SIZE)))} wait in broadcast of 28 bytes.")
        fails(lambda: dist.all_reduce(torch.ones(3), group=group), text=others + " Rank 0 has reported no wait")
    elif RANK:
        fails(lambda: dist.broadcast(torch.ones(7), 0, group=group), text="(timeout)")
        store.set(f"late{RANK}", "")


def missing():
    """monitored_barrier without rank 1: the others get the same text as rank 0."""
    if SIZE == 1:
        return
    group = dist.new_group(list(range(SIZE)), timeout=datetime.timedelta(seconds=30))
    if RANK != 1:
        limit = datetime.timedelta(seconds=1 if RANK == 0 else 30)
        fails(lambda: dist.monitored_barrier(group=group, timeout=limit, wait_all_ranks=True),
              text="these ranks have not arrived in time: 1")


def aborted():
    """abort() ends a wait in progress, of a caller and of a future."""
    if SIZE == 1:
        return
    group = dist.new_group(list(range(SIZE)))
    if RANK:
        return
    works = [dist.all_reduce(torch.ones(2), group=group, async_op=True) for _ in range(2)]
    works[1].get_future()
    waits = [threading.Thread(target=fails, args=(w.wait, RuntimeError, "aborted")) for w in works]
    for t in waits:
        t.start()
    group._get_backend(torch.device("cpu")).abort()
    for t in waits:
        t.join(60)
        assert not t.is_alive()
    fails(lambda: dist.all_reduce(torch.ones(2), group=group), text="was aborted")


CASES = (allreduce, coalesced, modes, broadcast_and_reduce, gathers, reduce_scatters, alltoalls, messages, works, groups, named, splits,
         sparse, threads, wrong, missing, late, explained, aborted, absent)  # the last ones leave operations in progress


def main():
    dist.init_process_group("weft", timeout=datetime.timedelta(seconds=60))
    assert dist.get_backend() == "weft" and dist.get_rank() == RANK and dist.get_world_size() == SIZE
    for case in CASES:
        if sys.argv[1:] and case.__name__ not in sys.argv[1:]:
            continue
        case()
        dist.barrier()
        if RANK == 0:
            print(f"passed {case.__name__} with {SIZE} ranks", flush=True)
    dist.destroy_process_group()


main()
