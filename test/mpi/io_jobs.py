#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two jobs use one file at the same time (io_jobs.c): atomic mode, sync, shared pointers, locks; nothing but
the file is left in its folder."""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, main, mpirun

program = os.path.join(builddir, "test/mpi/io_jobs")


def two_jobs(ranks):
    with tempfile.TemporaryDirectory() as d:
        jobs = [subprocess.Popen([mpirun, "-n", str(ranks), program, d, str(i)], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True) for i in (0, 1)]
        for i, j in enumerate(jobs):
            text = j.communicate()[0]
            assert j.returncode == 0, f"job {i} ended with {j.returncode}:\n{text}"
        left = sorted(os.listdir(d))
        assert left == ["data", "meet"], f"files in the folder: {left}"


def one_rank_each():
    two_jobs(1)


def three_ranks_each():
    two_jobs(3)


main([one_rank_each, three_ranks_each])
