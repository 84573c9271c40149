#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rank is killed while the others' streams wait for it, in collectives that proxy threads serve and in waits for
notifications of puts: the job ends soon, the output names the rank, and nothing is left behind."""

import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../mpi"))
from faultlib import builddir, job, main    # noqa: E402

victim = os.path.join(builddir, "test/gpu/stream_proxy")
here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../launch/rsh_here")


def killed(n, who, *launch, program=victim, **env):
    job(n, "victim", str(who), launch=launch, program=program, env=env).expect(137, f"rank {who}", "signal 9|killed")


def hosts():
    killed(3, 2, "--rsh", here, "-H", "n0:2,n1:1")
    killed(3, 0, "--rsh", here, "-H", "n0:2,n1:1")


def many_ranks():
    killed(17, 16)


def one_device():
    killed(3, 2, FAKE_CUDA_DEVICES="1")
    killed(3, 0, FAKE_CUDA_DEVICES="1")


def windows():
    """The devices wait, and where they do not add to each other's memory, or on several hosts, the hosts."""
    puts = os.path.join(builddir, "test/gpu/rma_enqueue")
    for env in {}, {"FAKE_CUDA_JOINED": "none"}:
        killed(3, 2, program=puts, FAKE_CUDA_DEVICES="2", **env)
        killed(3, 0, program=puts, FAKE_CUDA_DEVICES="2", **env)
    killed(3, 1, "--rsh", here, "-H", "n0:2,n1:1", program=puts)


if __name__ == "__main__":
    if subprocess.run([victim]).returncode == 77:       # it has said why
        sys.exit(77)
    main([hosts, many_ranks, one_device, windows])
