#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a rank has printed is not lost when it ends by MPI_Abort or by a fatal error; a stream that
cannot be flushed delays the end by a second and no longer."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import Job, builddir, failed, job, main

program = os.path.join(builddir, "test/mpi/fault_stdio")
ENDS = {"abort": 3, "fatal": failed, "session": failed}


def end(how, state="", limit=3.0):
    j = job(1, how, state, program=program, limit=limit).expect(ENDS[how])
    assert "a handler of atexit" not in j.text, j.text
    return j


def printed():
    """Under mpirun, which reads the rank's output from a pipe."""
    for how in ENDS:
        assert end(how).count("the last words") == 1


def printed_alone():
    """Without mpirun, into a file."""
    for how in ENDS:
        Job([program, how]).expect(ENDS[how], "the last words")


def locked():
    """Another thread holds the lock of stdout."""
    for how in ENDS:
        end(how, "locked", 4.0)


def full():
    """stdout is a pipe without a reader."""
    for how in ENDS:
        end(how, "full", 4.0)


def closed():
    """stdout is a pipe whose reader is gone: the code is that of MPI_Abort, not of SIGPIPE."""
    for how in ENDS:
        end(how, "closed")


main([printed, printed_alone, locked, full, closed])
