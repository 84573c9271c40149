#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rank is killed, exits, or makes an error in collectives on device buffers, while the others wait for it: the job
ends soon, the output names the rank, and nothing is left behind."""

import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../mpi"))
from faultlib import Skip, builddir, failed, job, main    # noqa: E402

victim = os.path.join(builddir, "test/gpu/coll_victim")
here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../launch/rsh_here")
SMALL, LARGE = "64", str(4 << 20)


def killed(n, who, call, nbytes, mode="dies", launch=(), **env):
    job(n, str(who), call, nbytes, mode, launch=launch, env=env, program=victim).expect(
        137, f"rank {who}", "signal 9|killed")


def small():
    """During short calls, one after the other."""
    killed(2, 1, "allreduce", SMALL)
    killed(3, 0, "in_place", SMALL)


def large():
    """While devices access each other's memory."""
    killed(2, 0, "allreduce", LARGE)
    killed(3, 2, "alltoall", LARGE)
    killed(2, 1, "in_place", LARGE)


def nonblocking():
    killed(3, 1, "iallreduce", LARGE)


def persistent():
    killed(3, 0, "persistent", SMALL)
    killed(2, 1, "persistent", LARGE)


def root():
    killed(3, 0, "bcast", LARGE)


def waited_for():
    """The others are in a call that this rank never makes."""
    killed(3, 2, "allreduce", SMALL, "waits")
    killed(2, 0, "alltoall", LARGE, "waits")


def hosts():
    """On one of several hosts; the ranks of a host do their part of the calls from device to device."""
    for ranks, who, call, mode in ("n0:2,n1:2", 1, "allreduce", "dies"), ("n0:3,n1:1", 0, "in_place", "dies"), \
            ("n0:2,n1:2", 3, "iallreduce", "waits"), ("n0:1,n1:2,n2:1", 2, "bcast", "dies"):
        killed(4, who, call, LARGE, mode, launch=("--rsh", here, "-H", ranks))


def slow():
    """Over a fake driver with delays."""
    killed(2, 0, "allreduce", LARGE, FAKE_CUDA_DELAY_US="3000")


def leaves():
    """Without MPI_Finalize, while the others have its memory mapped."""
    job(3, "1", "allreduce", LARGE, "leaves", program=victim).expect(3, "rank 1", "3")


def freed():
    """An error of one rank ends the job, as errors do by default."""
    job(2, "1", "allreduce", LARGE, "freed", program=victim).expect(
        1, "rank 1.*MPI_Allreduce", "freed, never allocated")


def mismatch():
    """Found by WEFT_CHECK, whatever path the call takes."""
    for call in ("allreduce", "in_place", "iallreduce", "bcast"):
        job(2, "1", call, SMALL, "count", env={"WEFT_CHECK": "1"}, program=victim).expect(
            1, "WEFT_CHECK: .*collective call .* on communicator .*rank 1 has data of 68 bytes, rank 0 of 64")


def disagree():
    """The same without WEFT_CHECK: an error of the call, on all ranks, if devices carry it out."""
    job(2, "1", "bcast", LARGE, "count", program=victim).expect(failed, "counts or datatypes do not agree")


def broken():
    """The device of one rank fails, in a kernel or, in a library without kernels, in a copy: an error on that rank, and the
    end of the job."""
    if "test/fake/gpu" not in os.environ.get("LD_LIBRARY_PATH", ""):
        raise Skip("the fake driver only")
    for who, nbytes in ("0", SMALL), ("1", LARGE):
        for kernels in "kernel:1:700", "cuModuleLoadData:1+:209":       # the second: none can be loaded
            job(2, who, "allreduce", nbytes, f"broken={kernels},copy:60:700", program=victim).expect(
                failed, "MPI_Allreduce", "700|GPU")


if __name__ == "__main__":
    if subprocess.run([victim, "probe"]).returncode == 77:      # it has said why
        sys.exit(77)
    main([small, large, nonblocking, persistent, root, waited_for, hosts, slow, leaves, freed, mismatch, disagree, broken])
