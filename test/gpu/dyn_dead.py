#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A process of another job is killed during messages or collectives of device memory: the processes that it was connected
to get an error, unmap its memory, and meet another job."""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../mpi"))
from faultlib import SCALE, builddir, main, mpirun    # noqa: E402

program = os.path.join(builddir, "test/gpu/dyn_device")
LIMIT = 60


def start(ranks, *args):
    return subprocess.Popen([mpirun, "-n", str(ranks), program, *args], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(p, status):
    try:
        text = p.communicate(timeout=LIMIT * SCALE)[0]
    except subprocess.TimeoutExpired:
        p.kill()
        raise AssertionError(f"{p.args} did not end; output:\n{p.communicate()[0]}") from None
    assert p.returncode == status, f"{p.args} ended with {p.returncode}, expected {status}:\n{text}"


def killed(living, dying, collective):
    with tempfile.TemporaryDirectory(prefix="weft-dyn-") as folder:
        file = os.path.join(folder, "port")
        survivor = start(living, "accept", file, collective)
        end(start(dying, "die", file, collective), 137)
        other = start(1, "connect", file, collective)
        end(survivor, 0)
        end(other, 0)


def in_messages():
    killed(1, 1, "0")
    killed(2, 2, "0")


def in_collectives():
    killed(1, 1, "1")
    killed(3, 1, "1")


if __name__ == "__main__":
    main([in_messages, in_collectives])
