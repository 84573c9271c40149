# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests of torch in the processes that torchrun or mpirun has started, one test after another: what torch_own.py and
torch_files.py share.  A test fails if it fails on any rank."""

import datetime
import fnmatch
import os
import sys
import traceback

import torch.distributed as dist
import weft_torch  # noqa: F401
from torch.testing._internal import common_distributed as common
from torch.testing._internal.common_utils import set_rng_seed

for feature in ("ddp", "subgroup"):  # what torch asks of a back end before it runs a test
    common.DistTestCases.backend_feature[feature].add("weft")
SKIPS = {skip.exit_code: skip.message for skip in common.TEST_SKIPS.values()}
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
KNOWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rig", "torch.known")
LIMIT = datetime.timedelta(seconds=120)


def known():
    """Pairs of a pattern of names and the reason why these tests do not apply."""
    with open(KNOWN, encoding="utf-8") as f:
        return [line.split(None, 1) for line in f.read().splitlines() if line and not line.startswith("#")]


def chosen(names):
    """Those of the names that the words of the command line select: one of them is in the name; "-WORD": is not."""
    words, without = [w for w in sys.argv[1:] if w[0] != "-"], [w[1:] for w in sys.argv[1:] if w[0] == "-"]
    return [n for n in names if not any(w in n for w in without) and (not words or any(w in n for w in words))]


def run(call):
    """"passed", "not applicable: ..." or the error."""
    set_rng_seed(1234)  # as torch does in each process of each test
    try:
        call()
    except SystemExit as e:
        return "passed" if not e.code else f"not applicable: {SKIPS.get(e.code, e.code)}"
    except BaseException as e:
        if type(e).__name__ == "SkipTest":
            return f"not applicable: {e}"
        return f"failed on rank {RANK}: " + "".join(traceback.format_exception(e))[-1500:]
    return "passed"


def run_all(store, tests, before=lambda name: None):
    """`tests`: names, each with what is called.  Rank 0 prints a line for each and a summary.  Returns the exit status."""
    reasons, results = known(), {}
    for name, call in tests.items():
        reason = next((reason for pattern, reason in reasons if fnmatch.fnmatchcase(name, pattern)), None)
        if reason is None:
            before(name)
        store.set(f"{name}/{RANK}", f"not applicable: {reason}" if reason else run(call))
        of_ranks = [store.get(f"{name}/{r}").decode() for r in range(SIZE)]  # waits for all
        results[name] = next((r for kind in ("failed", "not") for r in of_ranks if r.startswith(kind)), "passed").strip()
        if RANK == 0:
            print(f"{name}: {results[name]}", flush=True)
    bad = [name for name, r in results.items() if r.startswith("failed")]
    if RANK == 0:
        print(f"{sum(r == 'passed' for r in results.values())} passed, {len(bad)} failed,",
              f"{sum(r.startswith('not') for r in results.values())} not applicable", *bad)
    return 1 if bad else 0
