#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rank is killed in collectives on streams that proxy threads serve, while the others' streams wait for it: the job
ends soon, the output names the rank, and nothing is left behind."""

import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../mpi"))
from faultlib import builddir, job, main    # noqa: E402

victim = os.path.join(builddir, "test/gpu/stream_proxy")
here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../launch/rsh_here")


def killed(n, who, *launch):
    job(n, "victim", str(who), launch=launch, program=victim).expect(137, f"rank {who}", "signal 9|killed")


def hosts():
    killed(3, 2, "--rsh", here, "-H", "n0:2,n1:1")
    killed(3, 0, "--rsh", here, "-H", "n0:2,n1:1")


def many_ranks():
    killed(17, 16)


if __name__ == "__main__":
    if subprocess.run([victim]).returncode == 77:       # it has said why
        sys.exit(77)
    main([hosts, many_ranks])
