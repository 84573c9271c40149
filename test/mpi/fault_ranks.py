#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that fail: each job ends within a second or so, says which rank and how, returns the right
status, leaves nothing."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import failed, job, main


def truncated_receive():
    """The default handler ends the job; the message names rank, call, sizes."""
    job(2, "truncated").expect(failed, "rank 1", "MPI_Recv", "MPI_ERR_TRUNCATE", "has 4096 bytes",
                               "room for 10")
    job(2, "truncated", "100000").expect(failed, "rank 1", "has 100000 bytes", "room for 10")


def early_exit():
    """A rank exits without MPI_Finalize while the others wait for it."""
    job(3, "leave", "3").expect(3, "rank 1", "3")


def early_exit_zero():
    """The same with status 0: still an error, because MPI_Finalize was not called."""
    job(3, "leave", "0").expect(failed, "rank 1", "MPI_Finalize")


def killed_sender():
    """Killed (-9) in the middle of sending 1 GiB; the receiver must not hang."""
    job(2, "die", "0").expect(137, "rank 0", "signal 9|killed")


def killed_receiver():
    """Killed (-9) in the middle of receiving 1 GiB."""
    job(2, "die", "1").expect(137, "rank 1", "signal 9|killed")


def killed_sender_copy():
    """The same with large messages streamed through shared memory."""
    job(2, "die", "0", env={"WEFT_SHM_LARGE": "copy"}).expect(137, "rank 0", "signal 9|killed")


def killed_receiver_cma():
    """The same with process_vm_readv and writev."""
    job(2, "die", "1", env={"WEFT_SHM_LARGE": "cma"}).expect(137, "rank 1", "signal 9|killed")


def leaves_probe():
    """A rank exits while the others sit in MPI_Probe, MPI_Mprobe, a partitioned receive."""
    for way in ("MPI_Probe", "MPI_Mprobe", "MPI_Parrived"):
        job(3, "leave", "3", way).expect(3, "rank 1", "3")


def leaves_collective():
    """A rank exits while the others sit in a collective, with more ranks than most machines of CI have cores."""
    for way in ("MPI_Barrier", "MPI_Bcast"):
        job(6, "leave", "3", way).expect(3, "rank 1", "3")


def killed_in_probe():
    """The same by signal."""
    for way in ("MPI_Recv", "MPI_Probe", "MPI_Mprobe", "MPI_Parrived"):
        job(3, "killed", "0", way).expect(137, "rank 1", "signal 9|killed")


def never_initialises():
    """One rank exits with 0 and never calls MPI_Init; the others wait for it."""
    job(3, "noinit", "0").expect(failed, "rank 1", "MPI_Init")


def never_initialises_and_fails():
    """The same with status 4."""
    job(3, "noinit", "4").expect(4, "rank 1", "4")


def aborts():
    """MPI_Abort's code is what mpirun returns."""
    job(3, "abort", "42").expect(42, "rank 2", "MPI_Abort", "42")


def aborts_with_zero():
    """A job that was aborted has not succeeded, whatever the code."""
    job(2, "abort", "0").expect(lambda status: status is not None, "MPI_Abort")


def many_ranks_one_dies():
    """Sixteen ranks on few cores: still quick."""
    job(16, "leave", "5").expect(5, "rank 1", "5")


def works():
    """The control: the same program without a fault."""
    job(4, "work", limit=10).expect(0)


main([works, truncated_receive, early_exit, early_exit_zero, leaves_probe, leaves_collective, killed_in_probe,
      killed_sender, killed_receiver, killed_sender_copy, killed_receiver_cma, never_initialises,
      never_initialises_and_fails, aborts, aborts_with_zero, many_ranks_one_dies])
