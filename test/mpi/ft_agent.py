#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The agent of a host is killed: with mpirun --ft its ranks die, and the rank on the other host continues."""
import os
import signal
import subprocess
import sys

mpirun, build, src = (os.environ["TEST_" + n] for n in ("MPIRUN", "BUILDDIR", "SRCDIR"))


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def descendants(pid):
    below = children(pid)
    return below + [d for c in below for d in descendants(c)]


def name(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return ""


def agent_of_three(root):
    for pid in descendants(root):
        if name(pid) == "weftd" and sum(name(c) == "ft_shrink" for c in children(pid)) == 3:
            return pid
    return None


# no rank dies by itself; a rank that is alone ends
job = subprocess.Popen([mpirun, "--ft", "--rsh", os.path.join(src, "test/launch/rsh_here"), "-H", "n0:1,n1:3", "-n", "4",
                        os.path.join(build, "test/mpi/ft_shrink"), "at=100000000", "talks"],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
started = job.stdout.readline()
agent = agent_of_three(job.pid)
if agent:
    os.kill(agent, signal.SIGKILL)
out, _ = job.communicate(timeout=50)
good = bool(agent) and "have their communicator" in started and job.returncode == 0 and "lost host n1" in out and "3 of 4 ranks died" in out
if not good:
    print(f"# exit code {job.returncode}\n# " + out.replace("\n", "\n# "))
print(f"{'' if good else 'not '}ok 1 - an agent is killed\n1..1")
sys.exit(not good)
