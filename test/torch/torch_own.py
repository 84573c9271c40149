#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The semantics tests that a wheel of torch brings (torch.testing._internal.distributed.distributed_test), over back end "weft"
on CPUs.  Started by torchrun; all tests run in the same processes, one after another.

    torch_own.py [WORD ...]      tests whose name contains one of the words; "-WORD": without those that contain it

Rank 0 prints a line for each test; a test fails if it fails on any rank.  torch needs expecttest for it."""

import datetime
import os
import sys
import tempfile
import traceback

os.environ.update(BACKEND="weft", TEMP_DIR=tempfile.mkdtemp(prefix="weft-torch-own-"))

import torch.distributed as dist  # noqa: E402
import weft_torch  # noqa: E402, F401
from torch.testing._internal import common_distributed as common  # noqa: E402

for feature in ("ddp", "subgroup"):  # what torch asks of a back end before it runs a test
    common.DistTestCases.backend_feature[feature].add("weft")

from torch.testing._internal.common_utils import set_rng_seed  # noqa: E402
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class TestWeft(TestDistBackend, DistributedTest._DistTestBase):
    def _barrier(self, *_args, **_more):  # torch's is over files that its own starter makes
        dist.barrier()


# Tests that are not run, and why.
NOT_RUN = {"barrier_timeout": "make a default group of their own, which needs processes of their own",
           "monitored_barrier": "leave collectives that do not match, which needs processes of their own",
           "no_sync": "have branches for known back ends only", "SyncBatchNorm": "need devices",
           "mixed_backend_err": "expect the message of another back end", "isend_irecv_op_err": "expect another message",
           "object": "compare objects that pickle makes of the module __main__ of torch's own starter"}
SKIPS = {skip.exit_code: skip.message for skip in common.TEST_SKIPS.values()}
RANK = int(os.environ["RANK"])


def names():
    words, without = [w for w in sys.argv[1:] if w[0] != "-"], [w[1:] for w in sys.argv[1:] if w[0] == "-"]
    for name in sorted(dir(TestWeft)):
        dropped = any(w in name for w in (*without, *NOT_RUN))
        if name.startswith("test_") and not dropped and (not words or any(w in name for w in words)):
            yield name


def run(name):
    """"" (passed), "skipped: ..." or the error."""
    test = TestWeft(name)
    test.rank, test.file_name = RANK, ""
    set_rng_seed(1234)  # as torch does in each process of each test
    try:
        getattr(test, name)()
    except SystemExit as e:
        return "" if not e.code else "skipped: " + str(SKIPS.get(e.code, e.code))
    except BaseException as e:
        if type(e).__name__ == "SkipTest":
            return f"skipped: {e}"
        return f"rank {RANK}: " + "".join(traceback.format_exception(e))[-1500:]
    return ""


def main():
    bad = []
    dist.init_process_group("weft", timeout=datetime.timedelta(seconds=60))
    size = dist.get_world_size()
    for name in names():
        results = [None] * size
        dist.all_gather_object(results, run(name))
        result = next((r for r in results if r and not r.startswith("skipped")), next((r for r in results if r), "")).strip()
        if RANK == 0:
            print(f"{name}: {result or 'passed'}", flush=True)
        if result and not result.startswith("skipped"):
            bad.append(name)
    dist.barrier()
    dist.destroy_process_group()
    if RANK == 0:
        print(f"{len(bad)} failed", *bad)
    sys.exit(1 if bad else 0)


main()
