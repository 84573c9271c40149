#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""WEFT_CHECK_LEAKS and WEFT_CHECK name what the program has left in MPI_Finalize, and nothing else."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, job, main

program = os.path.join(builddir, "test/mpi/leaks")


def left(mode, setting, *expected):
    j = job(2, mode, program=program, env={setting: "1"}, limit=10).expect(0, *expected)
    lines = [line for line in j.text.splitlines() if "mpi]" in line]
    assert len(lines) == 2 * len(expected), j.text


def nothing():
    """Info objects and error handlers may be freed after MPI_Finalize."""
    left("nothing", "WEFT_CHECK_LEAKS")
    left("nothing", "WEFT_CHECK")


def requests():
    """What only a request keeps has been freed: a communicator, a datatype, an operation."""
    left("requests", "WEFT_CHECK_LEAKS", "2 request objects are still alive in MPI_Finalize")
    left("requests", "WEFT_CHECK", "2 requests persistent and not freed in MPI_Finalize")


def objects():
    """One of each kind."""
    left("objects", "WEFT_CHECK_LEAKS", "1 communicator object is", "1 datatype object is",
         "1 operation object is", "2 group objects are")
    left("objects", "WEFT_CHECK", "is not freed in MPI_Finalize; it is from MPI_Comm_dup at leaks", "1 datatype object is not freed",
         "1 operation object is not freed", "2 group objects are not freed in MPI_Finalize; the first is from MPI_Comm_group at leaks")


main([nothing, requests, objects])
