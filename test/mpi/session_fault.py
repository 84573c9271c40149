#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of sessions that fail: each ends soon, says which rank and how, leaves nothing."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, failed, job, main

victim = os.path.join(builddir, "test/mpi/session_victim")


def works():
    """The control: the same program without a fault."""
    job(3, "work", program=victim, limit=10).expect(0)


def left_open():
    """A rank ends without MPI_Session_finalize: an error, as without MPI_Finalize."""
    job(3, "leave", program=victim).expect(failed, "rank 1", "MPI_Session_finalize")


def left_open_again():
    """The same in the second life: the orderly end of the first does not count."""
    job(3, "again", program=victim).expect(failed, "rank 1", "MPI_Session_finalize")


def killed_while_others_finalize():
    """Killed (-9) while a message to it keeps rank 0 in MPI_Session_finalize."""
    job(2, "die", program=victim).expect(137, "rank 1", "signal 9|killed")


def aborts():
    """MPI_Abort on a communicator of a session ends the job."""
    job(3, "abort", program=victim).expect(9, "rank 1", "MPI_Abort")


def no_world():
    """MPI_COMM_WORLD without MPI_Init: the initial handler is fatal, and the text says why."""
    job(2, "world", program=victim).expect(failed, "MPI_Comm_rank", "MPI_COMM_WORLD exists from")


def no_world_returns():
    """The same with another initial handler, as an option of mpirun."""
    job(2, "world", program=victim, launch=["--initial-errhandler", "mpi_errors_return"],
        limit=10).expect(0)


def fatal():
    """MPI_ERRORS_ARE_FATAL of a session ends the job."""
    job(2, "fatal", program=victim).expect(failed, "rank 1", "MPI_Session_get_num_psets",
                                           "a session", "MPI_ERR_ARG")


def local_abort():
    """MPI_ERRORS_ABORT of a session ends this process."""
    job(2, "local", program=victim).expect(failed, "rank 1", "this process is aborted")


def leak():
    """What is still alive is reported when that is asked for."""
    job(1, "leak", program=victim, env={"WEFT_CHECK_LEAKS": "yes"}, limit=10).expect(
        0, "1 communicator of the session is still alive in MPI_Session_finalize")


main([works, left_open, left_open_again, killed_while_others_finalize, aborts, no_world,
      no_world_returns, fatal, local_abort, leak])
