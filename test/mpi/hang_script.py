# SPDX-License-Identifier: BSD-3-Clause
"""A program in Python that stops, for hang_kinds.py.  Argument: the library."""

import ctypes
import sys

mpi = ctypes.CDLL(sys.argv[1])
world = ctypes.c_void_p(0x101)


class Solver:
    def step(self):
        while True:
            self.x = 1  # computes


def wait_for_all():
    mpi.MPI_Barrier(world)  # waits


mpi.MPI_Init(None, None)
rank = ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
if rank.value == 1:
    Solver().step()
wait_for_all()
