#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of PyTorch's sources (test/distributed) over back end "weft" on CPUs.  Started by torchrun; runs, in the same processes,
those tests that want as many processes as there are.

    torch_files.py FOLDER [WORD ...]     FOLDER: test/distributed of PyTorch's sources; WORD: as in own_run.py

A file is read with "weft" in the place of the back end that it names, and with the CPU in the place of the GPU where the test
itself does not depend on one.  test/rig/torch.known lists the tests that do not apply.  own_run.py has the rest."""

import os
import re
import shutil
import sys
import tempfile
import types

FOLDER = sys.argv.pop(1)

from own_run import RANK, SIZE, LIMIT, chosen, common, run_all  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal.distributed._tensor import common_dtensor  # noqa: E402

CLASSES = {
    "test_c10d_gloo": "ProcessGroupGlooTest DistributedDataParallelTest ReducerTest CommTest LargeCommTest "
                      "GlooProcessGroupWithDispatchedCollectivesTests",
    "test_c10d_spawn_gloo": "DistributedDataParallelSingleProcessTest TestDistributedNNFunctionsGloo",
    "test_c10d_functional_native": "TestWithNCCL",
    "test_c10d_object_collectives": "TestObjectCollectives",
    "test_collective_utils": "TestCollectiveUtils",
    "test_functional_api": "TestCollectivesWithDistributedBackendCPU TestDistributedBackendCollectivesWithWorldSize4CPU "
                           "TestFunctionalAutogradWithDistributedBackendCPU",
    "test_device_mesh": "DeviceMeshTestGlooBackend DeviceMeshTest DeviceMeshTestNDim InitDeviceMeshTest TestDeviceMeshGetItem "
                        "TestMeshEnv DeviceMeshCollectiveTest"}
INSTEAD = [("device_ids=[self.rank]", "device_ids=None"), ("device_ids=[device_id]", "device_ids=None"),
           ("gpus_for_rank(self.world_size)[self.rank][0]", '"cpu"'), ('device="cuda"', 'device="cpu"'),
           ('"gloo"', '"weft"'), ("dist.Backend.GLOO", '"weft"'), ('backend="nccl"', 'backend="weft"'),
           ('f"cuda:{self.rank}"', '"cpu"'), ("torch.cuda.current_device()", '"cpu"'), (".cuda(self.rank)", ".cpu()"),
           (".cuda()", ".cpu()"), ("torch.cuda.set_device(", "str("), ('DEVICE = "cuda"', 'DEVICE = "cpu"'),
           ("backend.create_device(interface=LOOPBACK)", "pass"),
           ('load_test_module("inductor.test_aot_inductor_utils").AOTIRunnerUtil', "None")]


def load(name):
    path = os.path.join(FOLDER, name + ".py")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for old, new in INSTEAD:
        text = text.replace(old, new)
    text = re.sub(r"\.to\(\s*self\.rank\s*\)", ".cpu()", text)
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = path
    exec(compile(text, path, "exec"), module.__dict__)
    return module


def group(_test, store, rank, size, options):
    """What a test of Gloo alone makes without torch's default group."""
    dist.init_process_group("weft", store=store, rank=rank, world_size=size, timeout=options._timeout)
    return dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))


def init_pg(test, *_):
    dist.init_process_group("weft", init_method=f"file://{test.file_name}", rank=RANK, world_size=test.world_size)


def patch():
    """Where torch itself knows its own back ends only."""
    for name in ("requires_gloo", "requires_nccl"):
        setattr(common, name, lambda: lambda f: f)
    common.skip_if_lt_x_gpu = lambda _: lambda f: f
    common.DistributedTestBase.backend = lambda *_: "weft"
    common_dtensor.DTensorTestBase.init_pg = init_pg


def tests():
    """The tests of this number of processes, each a function."""
    out = {}
    load("test_c10d_common")
    load("test_c10d_spawn")
    for name, classes in CLASSES.items():
        module = load(name)
        for kind in (getattr(module, c) for c in classes.split()):
            if name == "test_c10d_gloo" and kind.__name__ == "ProcessGroupGlooTest":
                kind._create_process_group_gloo = group
            # test_unwaited leaves a tensor registered that nothing waits for
            for method in sorted((m for m in dir(kind) if m.startswith("test_") and getattr(kind, m)), key=lambda m: ("unwaited" in m, m)):
                one = kind(method)
                if getattr(one, "world_size", 1) == SIZE:
                    out[f"{name}.{kind.__name__}.{method}"] = one
    return {name: out[name] for name in chosen(out)}


def call(test, file_name):
    several = isinstance(test, common.MultiProcessTestCase)

    def body():
        if several:
            test.rank, test.file_name = RANK, file_name
        else:
            test.setUp()
        try:
            getattr(test, test._testMethodName)()
        finally:
            if not several:
                test.tearDown()
            if dist.is_initialized():
                dist.destroy_process_group()
    return body


def main():
    patch()
    store, rank, size = next(dist.rendezvous("env://"))
    store.set_timeout(LIMIT)
    folder = tempfile.mkdtemp(prefix="weft-torch-files-") if RANK == 0 else ""
    if RANK == 0:
        store.set("folder", folder)
    folder = store.get("folder").decode()
    dist.init_process_group("weft", store=dist.PrefixStore("first", store), rank=rank, world_size=size)  # starts MPI
    dist.destroy_process_group()
    bad = run_all(store, {name: call(test, os.path.join(folder, name)) for name, test in tests().items()})
    if RANK == 0:
        shutil.rmtree(folder)
    sys.exit(bad)


main()
