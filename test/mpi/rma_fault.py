#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A process dies, and mpirun does not know: the others get MPI errors, and none hangs.  In windows over memory,
process_vm_readv and messages; in other waits."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, job, main

victim = os.path.join(builddir, "test/mpi/rma_victim")
HOSTS = ("--rsh", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../launch/rsh_here"), "-H", "n0:1,n1:1")
PATHS = ({}, {"WEFT_RMA_PATH": "am"})


def survivors(mode, *lines, paths=PATHS, args=(), ranks=3, launch=(), limit=15):
    """All others report each line of the pattern; the job ends with their status."""
    for env in paths:
        j = job(ranks, mode, *args, program=victim, env=env, limit=limit, launch=launch).expect(3)
        for line in lines:
            assert j.count(line) == ranks - 1, f"{env}: expected '{line}' of {ranks - 1} ranks in\n{j.text}"


GONE = "gave MPI_ERR_PROC_ABORTED"


def holds_a_lock():
    """It held an exclusive lock."""
    survivors("lock", f"lock {GONE}", f"free {GONE}")


def holds_lock_all():
    """It was in MPI_Win_lock_all."""
    survivors("lock_all", f"lock {GONE}", f"free {GONE}")


def owes_an_answer():
    """A get, and MPI_Fetch_and_op, of memory of the dead process."""
    for path in ("am", "cma"):
        survivors("answer", f"answer {GONE}", f"free {GONE}", f"rank 2 by path {path}: setting rma_path",
                  paths=({"WEFT_RMA_PATH": path, "WEFT_LOG": "mpi:debug"},))
    survivors("answer", f"free {GONE}", "rank 2 by path direct: its memory is in the window's file",
              paths=({"WEFT_LOG": "mpi:debug"},))


def dies_in_the_middle():
    """Puts and gets are in progress."""
    for path in "am", "rdma":
        survivors("middle", f"middle {GONE}", f"free {GONE}", f"rank 2 by path {path}: setting rma_path",
                  paths=({"WEFT_RMA_PATH": path, "WEFT_LOG": "mpi:debug"},))


def misses_a_fence():
    """The others are in MPI_Win_fence."""
    survivors("fence", f"fence {GONE}")
    survivors("fence", f"fence {GONE}", ranks=2)


def never_posts():
    """The others wait in MPI_Win_complete for its post, and in MPI_Win_wait for its completion."""
    survivors("pscw", f"complete {GONE}", f"wait {GONE}")
    survivors("pscw", f"complete {GONE}", f"wait {GONE}", ranks=2)


def posts_to_it():
    """A post to a rank of another host, whose connection is lost, fails and leaves no epoch open."""
    survivors("post", f"Win_post {GONE}", "Win_test gave MPI_ERR_RMA_SYNC", paths=({},), ranks=2,
              launch=HOSTS)


def never_notifies():
    """The others wait for a notification."""
    survivors("notify", f"notify {GONE}", f"free {GONE}")


def dies_during_creation():
    """A member that exchanges no message with it at the end knows its death before the window exists."""
    hosts = HOSTS[:-1] + ("n0:2,n1:1,n2:1",)
    j = job(4, "early", program=victim, limit=15, launch=hosts).expect(3)
    assert j.count(f"complete {GONE}") == 1, j.text


def other_waits():
    """In a barrier, an allreduce, a receive and probes: each error comes within about a second."""
    for ranks in 2, 5:
        for mode in "barrier", "allreduce", "recv", "probe", "iprobe":
            survivors(mode, f"{mode} {GONE}", paths=({},), ranks=ranks, limit=4)


cases = [globals()[name] for name in sys.argv[1:]]
main(cases or [holds_a_lock, holds_lock_all, owes_an_answer, dies_in_the_middle, misses_a_fence, never_posts, posts_to_it,
               never_notifies, other_waits, dies_during_creation])
