#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rank is killed, or exits, during messages between device buffers: the job ends soon, the output names the rank, and
nothing is left behind."""

import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../mpi"))
from faultlib import builddir, job, main    # noqa: E402

victim = os.path.join(builddir, "test/gpu/p2p_victim")


def killed(who, nbytes, sender, receiver, **env):
    job(2, str(who), str(nbytes), sender, receiver, env=env, program=victim).expect(
        137, f"rank {who}", "signal 9|killed")


def sender():
    """Killed while its memory is read by the other."""
    killed(0, 8 << 20, "cuda", "cuda")


def receiver():
    """Killed while it reads the other's memory."""
    killed(1, 8 << 20, "vmm", "pool")


def small_sender():
    """Small messages, with a polling kernel on the device."""
    killed(0, 64, "cuda", "cuda")


def small_receiver():
    killed(1, 64, "cuda", "cuda")


def staged_sender():
    """In pieces through the host's memory, from a device."""
    killed(0, 8 << 20, "pool_own", "host")


def staged_receiver():
    """The same to a device."""
    killed(1, 8 << 20, "host", "vmm_own")


def slow():
    """Over a fake driver with delays."""
    killed(0, 1 << 20, "cuda", "cuda", FAKE_CUDA_DELAY_US="3000")
    killed(1, 1 << 20, "cuda", "pool", FAKE_CUDA_DELAY_US="3000", FAKE_CUDA_PEER="0")


def third_waits():
    """Ranks 0 and 1 exchange messages when rank 1 dies, rank 2 waits for rank 1."""
    job(3, "1", "1000000", "cuda", "cuda", program=victim).expect(137, "rank 1", "signal 9|killed")


def leaves():
    """A rank exits without MPI_Finalize while others have its memory mapped."""
    job(3, "0", "100000", "leave", program=victim).expect(3, "rank 0", "3")


if __name__ == "__main__":
    if subprocess.run([victim, "probe"]).returncode == 77:      # it has said why
        sys.exit(77)
    main([sender, receiver, small_sender, small_receiver, staged_sender, staged_receiver, slow, third_waits, leaves])
