#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI_Finalize when not everything is finished.  Slow, because it waits before it gives up."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, job, main

late = os.path.join(builddir, "test/mpi/p2p_late")
freed = os.path.join(builddir, "test/mpi/p2p_freed")


def never_received():
    """Large messages without a receive, their requests freed: a warning, no hang."""
    job(2, "never", program=late, limit=10).expect(lambda status: 0 <= status < 128,
                                                   "MPI_Finalize leaves [0-9]+ messages? of this rank unfinished: (send to|receive from) ")


def never_sent():
    """Receives without a send, their requests freed: a warning, no hang."""
    job(3, "unsent", program=freed, limit=10).expect(lambda status: 0 <= status < 128,
                                                     "MPI_Finalize leaves [0-9]+ messages? of this rank unfinished: (send to|receive from) ")


main([never_received, never_sent])
