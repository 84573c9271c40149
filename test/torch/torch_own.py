#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The semantics tests that a wheel of torch brings (torch.testing._internal.distributed.distributed_test), over back end "weft"
on CPUs.  Started by torchrun; all tests run in the same processes, one after another.

    torch_own.py [WORD ...]      tests whose name contains one of the words; "-WORD": without those that contain it

Some tests need exactly four processes, those of groups ("_group") eight.  torch needs expecttest for it.  own_run.py has the
rest."""

import os
import shutil
import sys
import tempfile

os.environ.update(BACKEND="weft", TEMP_DIR="set in main()")

from own_run import LIMIT, RANK, chosen, run_all  # noqa: E402

import torch.distributed as dist  # noqa: E402
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class TestWeft(TestDistBackend, DistributedTest._DistTestBase):
    def _barrier(self, *_args, **_more):  # torch's is over files that its own starter makes
        dist.barrier()


def call(method):
    def body():
        test = TestWeft(method)
        test.rank, test.file_name = RANK, ""
        getattr(test, method)()
    return body


def main():
    dist.init_process_group("weft", timeout=LIMIT / 2)
    folder = [tempfile.mkdtemp(prefix="weft-torch-own-") if RANK == 0 else None]
    dist.broadcast_object_list(folder, 0)
    os.environ["TEMP_DIR"] = folder[0]

    def prepare(_name):
        for part in ("barrier", "test_dir", "init_dir") if RANK == 0 else ():
            shutil.rmtree(os.path.join(folder[0], part), ignore_errors=True)
            os.mkdir(os.path.join(folder[0], part))
        dist.barrier()

    store = dist.PrefixStore("results", dist.distributed_c10d._get_default_store())
    names = chosen(m for m in sorted(dir(TestWeft)) if m.startswith("test_"))
    bad = run_all(store, {f"distributed_test.{m}": call(m) for m in names}, prepare)
    dist.barrier()
    dist.destroy_process_group()
    if RANK == 0:
        shutil.rmtree(folder[0])
    sys.exit(bad)


main()
