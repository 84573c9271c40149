#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A process without mpirun that has spawned: connected jobs end together, nothing else does, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import SCALE, builddir, main

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tool"))
from patience import Stopwatch

program = os.path.join(builddir, "test/mpi/dyn_spawn")
LIMIT = 20


def processes(word):
    """Those in the process group of this test with this word in their command lines; a process that has ended has none."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
            with open(f"/proc/{pid}/environ", "rb") as f:
                mine = f"DYN_ALONE={os.getpid()}".encode() in f.read().split(b"\0")
        except OSError:
            continue
        if mine and word in words:
            found.append(int(pid))
    return found


def start(mode):
    env = dict(os.environ, DYN_ALONE=str(os.getpid()))
    return subprocess.Popen([program, mode], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=env)


def wait_gone(word):
    watch = Stopwatch()
    while processes(word):
        assert not watch.over(LIMIT * SCALE), f"still there: {processes(word)}"
        time.sleep(0.02)


def finish(p, status):
    try:
        text = p.communicate(timeout=4 * LIMIT * SCALE)[0]
    except subprocess.TimeoutExpired:
        p.kill()
        raise AssertionError(f"did not end:\n{p.communicate()[0]}")
    assert p.returncode == status, f"ended with {p.returncode}, expected {status}:\n{text}"
    wait_gone("--weft-serve")
    return text


def connected_child_fails():
    for mode in "child=die", "child=abort":
        text = finish(start(mode), -signal.SIGTERM)
        assert "spawned job 3 has failed; ending process" in text, text


def parted_child_fails():
    finish(start("child=die-apart"), 0)


def dies_while_connected():
    p = start("child=stay")
    assert p.stdout.readline() == "stays\n"
    assert processes("stay")
    p.kill()
    p.wait()
    wait_gone("stay")
    wait_gone("--weft-serve")
    p.stdout.close()


main([connected_child_fails, parted_child_fails, dies_while_connected])
