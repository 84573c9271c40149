#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rank dies before or in a collective call on a file.  Under mpirun, the job ends with its status,
and no rank completes the access.  If mpirun does not know, the others get MPI errors, none hangs, and
what was reported written is in the file."""

import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, job, main

victim = os.path.join(builddir, "test/mpi/io_victim")
survivor = os.path.join(builddir, "test/mpi/io_survivor")


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


def within_a_nonblocking_write():
    dies("within", "iwrite", 139)


def within_a_nonblocking_read():
    dies("within", "iread", 139)


HOSTS = ("--rsh", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../launch/rsh_here"), "-H", "n0:2,n1:2")


def survives(call, dead, ranks=3, says="MPI_ERR_PROC_ABORTED", launch=()):
    with tempfile.TemporaryDirectory() as d:
        j = job(ranks, call, str(dead), os.path.join(d, "file"), program=survivor, limit=15, launch=launch).expect(3)
    lines = [f"call gave {says}", "data gave success"]
    if call not in ("open", "within", "close", "many"):
        lines.append("close gave MPI_ERR_PROC_ABORTED")
    for line in lines:
        assert j.count(line) == ranks - 1, f"{call}: expected '{line}' of {ranks - 1} ranks in\n{j.text}"


def open_and_close():
    """The others open or close the file."""
    survives("open", 2)
    survives("close", 0)
    survives("many", 1)


def independent_access():
    """Access that needs no other rank succeeds."""
    survives("write_at_all", 2, says="success")
    survives("read_shared", 0, says="success")


def shared_pointer():
    """The others need the shared pointer."""
    survives("write_ordered", 1, ranks=5)
    survives("split", 0)
    survives("seek_shared", 2)


def properties():
    """The others change a property of the file."""
    for call in ("set_size", "sync", "set_view"):
        survives(call, 2)


def through_aggregators():
    """The others wait in an access through aggregators, or compute beside it."""
    for call in ("write_all", "nonblocking", "beside"):
        survives(call, 1)


def several_hosts():
    """Ranks of another host, and without a connection to the dead one, get the error, too."""
    for call in ("open", "close", "set_size", "set_view", "write_all", "nonblocking"):
        for dead in (1, 3, 2, 0):
            survives(call, dead, 4, launch=HOSTS)
    survives("beside", 3, 4, launch=HOSTS)
    for dead in (0, 1, 2):
        survives("open", dead, 3, launch=HOSTS)


def within_an_agreement():
    """One rank loses the dead one in the last round of the opening's first agreement, others complete it."""
    for dead in (0, 1, 2, 3):
        survives("within", dead, 4, launch=HOSTS)


main([before_a_write, within_a_write, within_a_read, within_a_nonblocking_write, within_a_nonblocking_read,
      open_and_close, independent_access, shared_pointer, properties, through_aggregators, several_hosts,
      within_an_agreement])
