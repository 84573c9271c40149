#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""WEFT_CHECK=1: programs with one mistake each end in time, with a message that names the call, the
communicator, the ranks and what they disagree about; right programs run silently."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, job, main

wrong = os.path.join(builddir, "test/mpi/check_wrong")
ON = {"WEFT_CHECK": "1"}

# What the message says behind the name of the communicator, "mine" unless it is said here.
MISTAKES = {
    "kind": "rank 2 calls MPI_Barrier, rank [01] calls MPI_Bcast",
    "root": "rank 2 has root 1, rank [01] has root 0",
    "count": "rank 2 has data of 12 bytes, rank [01] of 8",
    "type": "rank 2 and rank [01] have data of 8 bytes, but of other datatypes",
    "op": "rank 2 has MPI_MAX, rank [01] has MPI_SUM",
    "form": "rank 2 calls MPI_Ibarrier, rank [01] calls MPI_Barrier",
    "persistent": "rank 2 calls MPI_Barrier_init, rank [01] calls MPI_Ibarrier",
    "gather": "rank 2 has data of 8 bytes, rank [01] of 4",
    "scatter": "rank 2 has data of 4 bytes, rank [01] of 8",
    "gatherv": "rank 2 sends 4 bytes to rank 0, which expects 12",
    "scatterv": "rank 0 sends 12 bytes to rank 2, which expects other datatypes",
    "allgatherv": "rank 2 sends 4 bytes to rank [012], which expects 12",
    "alltoallv": "rank 1 sends 12 bytes to rank 2, which expects 28",
    "alltoallw": "rank 2 sends 4 bytes to rank 0, which expects other datatypes",
    "reduce_scatter": "rank 2 and rank [01] have data of 24 bytes, but of other",
    "creation": "rank 2 calls MPI_Comm_split, rank [01] calls MPI_Comm_dup",
    "missing": "rank 2 calls MPI_Allreduce, rank [01] calls MPI_Barrier",
    "never": '"MPI_COMM_WORLD": rank 2 calls MPI_Finalize, rank [01] calls MPI_Ibarrier',
    "never_here": '"unused": rank 0 calls MPI_Ibarrier, rank 2 calls MPI_Finalize',
    "crossed": "rank 2 has data of 8 bytes, rank [01] of 4",
    "in_subgroup": '"half": rank 1 has data of 8 bytes, rank 0 of 4',
    "many": "rank 2 gives 4 bytes and expects other datatypes",
}


def expect(mistake, env):
    what = MISTAKES[mistake]
    where = '' if what.startswith('"') else '"mine": '
    pattern = f"WEFT_CHECK: .*collective call \\d+ on communicator {where}{what}"
    job(3, mistake, program=wrong, env=dict(ON, **env), limit=10).expect(1, pattern)


def each_mistake():
    """Found and named."""
    for mistake in MISTAKES:
        expect(mistake, {})


def over_messages():
    """The same when the collectives do not use shared memory."""
    env = {"WEFT_COLL": "bcast:binomial,gather:linear,scatter:linear,allreduce:recursive_doubling,"
                        "barrier:dissemination,allgather:ring"}
    for mistake in ("kind", "root", "count", "gather", "scatter", "op", "many", "form"):
        expect(mistake, env)


def number_of_the_call():
    """Counted from 1 on each communicator."""
    job(3, "many", program=wrong, env=ON, limit=10).expect(1, "MPI_Allgather, collective call 17 ")


def error_first():
    """An error that a rank finds is not held back for rank 0, which is outside MPI, to report the disagreement; an abort is."""
    env = dict(ON, WEFT_COLL="bcast:binomial")
    differ = "rank 2 has data of 4 bytes, rank [01] of 16"
    job(3, "dies", program=wrong, env=env, limit=10).expect(1, "MPI error: rank 2 .*MPI_Bcast", differ)
    j = job(3, "returns", program=wrong, env=env, limit=10).expect(1, differ)
    if "has returned" not in j.text:
        raise AssertionError("no 'has returned' in the output:\n" + j.text)


def right():
    """Equal data in different words is no mistake."""
    for n in (1, 2, 3):
        j = job(n, "right" if n == 3 else "none", program=wrong, env=ON, limit=10).expect(0)
        assert j.text == "", j.text


def left_over():
    """Requests, messages and communicators in MPI_Finalize; the job still succeeds."""
    job(3, "pending", program=wrong, env=ON, limit=10).expect(
        0, "1 request not complete in MPI_Finalize; the first is a receive, any rank, tag 77, on "
        'communicator "mine", from MPI_Irecv at check_wrong\\+0x[0-9a-f]+', "1 request persistent and not freed",
        "1 message has not been received; the first is from rank 1, tag 42, 12")
    j = job(3, "leak", program=wrong, env=ON, limit=10).expect(0)
    assert j.count('"forgotten" is not freed') == 3, j.text
    job(3, "freed_by_some", program=wrong, env=ON, limit=10).expect(
        0, 'rank 0 has freed communicator "half freed", rank 2 has not')


def off():
    """Without the setting nothing is said."""
    j = job(3, "leak", program=wrong, limit=10).expect(0)
    assert j.text == "", j.text


main([each_mistake, over_messages, number_of_the_call, error_first, right, left_over, off])
