#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rank dies in a collective access through aggregators: the job ends with its status, and no rank
completes the access."""

import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, job, main

victim = os.path.join(builddir, "test/mpi/io_victim")


def dies(when, what, status):
    with tempfile.TemporaryDirectory() as d:
        j = job(3, when, what, os.path.join(d, "file"), program=victim).expect(status, "rank 2", "signal")
        assert "came back" not in j.text, j.text


def before_a_write():
    """It does not come to the call."""
    dies("before", "write", 137)


def within_a_write():
    """It dies in a later round."""
    dies("within", "write", 139)


def within_a_read():
    """It dies when data arrive in a later round."""
    dies("within", "read", 139)


main([before_a_write, within_a_write, within_a_read])
