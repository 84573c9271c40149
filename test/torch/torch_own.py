#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The semantics tests that a wheel of torch brings (torch.testing._internal.distributed.distributed_test), over back end "weft"
on CPUs.  Started by torchrun; all tests run in the same processes, one after another.

    torch_own.py [WORD ...]      tests whose name contains one of the words; "-WORD": without those that contain it

Rank 0 prints a line for each test: passed, failed with the error, or not applicable with the reason, and a summary.  A test
fails if it fails on any rank.  Some tests need exactly four processes, those of groups ("_group") eight.  torch needs expecttest
for it."""

import datetime
import os
import sys
import shutil
import tempfile
import traceback

os.environ.update(BACKEND="weft", TEMP_DIR="set in main()")

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


# Words in the names of tests that are not run, and why.
NOT_RUN = {"barrier_timeout": "makes a default group of its own, which needs processes of its own",
           "monitored_barrier": "leaves collectives that do not match, which needs processes of its own",
           "no_sync": "knows gloo, nccl and mpi only, and leaves a variable unset for others",
           "logging_data_cpu": "expects the name of a built-in back end; torch calls all others \"custom\"",
           "mixed_backend_err": "expects the message of another back end", "isend_irecv_op_err": "expects another message",
           "_cuda": "needs devices", "SyncBatchNorm": "needs devices",
           "object": "compares objects that pickle makes of the module __main__ of torch's own starter"}
SKIPS = {skip.exit_code: skip.message for skip in common.TEST_SKIPS.values()}
RANK = int(os.environ["RANK"])


def names():
    words, without = [w for w in sys.argv[1:] if w[0] != "-"], [w[1:] for w in sys.argv[1:] if w[0] == "-"]
    return [name for name in sorted(dir(TestWeft)) if name.startswith("test_") and not any(w in name for w in without)
            and (not words or any(w in name for w in words))]


def run(name):
    """"passed", "not applicable: ..." or the error."""
    reason = next((reason for word, reason in NOT_RUN.items() if word in name), None)
    if reason:
        return f"not applicable: {reason}"
    test = TestWeft(name)
    test.rank, test.file_name = RANK, ""
    set_rng_seed(1234)  # as torch does in each process of each test
    try:
        getattr(test, name)()
    except SystemExit as e:
        return "passed" if not e.code else f"not applicable: {SKIPS.get(e.code, e.code)}"
    except BaseException as e:
        if type(e).__name__ == "SkipTest":
            return f"not applicable: {e}"
        return f"failed on rank {RANK}: " + "".join(traceback.format_exception(e))[-1500:]
    return "passed"


def main():
    results = {}
    dist.init_process_group("weft", timeout=datetime.timedelta(seconds=60))
    size = dist.get_world_size()
    folder = [tempfile.mkdtemp(prefix="weft-torch-own-") if RANK == 0 else None]
    dist.broadcast_object_list(folder, 0)
    os.environ["TEMP_DIR"] = folder[0]
    for name in names():
        for part in ("barrier", "test_dir", "init_dir") if RANK == 0 else ():
            shutil.rmtree(os.path.join(folder[0], part), ignore_errors=True)
            os.mkdir(os.path.join(folder[0], part))
        dist.barrier()
        of_ranks = [None] * size
        dist.all_gather_object(of_ranks, run(name))
        results[name] = next((r for kind in ("failed", "not") for r in of_ranks if r.startswith(kind)), "passed").strip()
        if RANK == 0:
            print(f"{name}: {results[name]}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    bad = [name for name, r in results.items() if r.startswith("failed")]
    if RANK == 0:
        shutil.rmtree(folder[0])
        print(f"{sum(r == 'passed' for r in results.values())} passed, {len(bad)} failed,",
              f"{sum(r.startswith('not') for r in results.values())} not applicable", *bad)
    sys.exit(1 if bad else 0)


main()
