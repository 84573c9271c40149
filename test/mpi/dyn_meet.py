#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that meet by ports: two mpiruns, singletons, several clients, a client that dies, a wrong secret, a port that is closed,
a side that fails before it connects, jobs of two users."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import SCALE, builddir, main, mpirun

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tool"))
from patience import Stopwatch

victim = os.path.join(builddir, "test/mpi/dyn_victim")
rsh = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../launch/rsh_here")
LIMIT = 30
OTHER_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def start(ranks, mode, *args):
    """Ranks 0: without mpirun; a list of hosts with slots: ranks on all of them, which this machine plays.  The mode may begin with
    settings, NAME=VALUE, and with @: as another user."""
    hosts = ["--rsh", rsh, "-H", ranks] if isinstance(ranks, str) else []
    command = ([mpirun, *hosts] + (["-n", str(ranks)] if not hosts else []) if ranks else []) + [victim]
    *settings, mode = mode.split()
    if "@" in settings:
        command = ["TMPDIR=/tmp", "WEFT_SHM_DIR=/dev/shm", *OTHER_USER, *command]  # folders of the tests are private
    command = ["env", *[s for s in settings if s != "@"], *command, mode, *args]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def together(*jobs, status=None):
    """Runs jobs (ranks, mode, more arguments) that share a port; all end with 0, or as `status` says."""
    with tempfile.TemporaryDirectory(prefix="weft-meet-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)  # for the other user
        file = os.path.join(folder, "port")
        running = [start(ranks, mode, file, *map(str, more)) for ranks, mode, *more in jobs]
        watch = Stopwatch()
        texts = []
        for i, p in enumerate(running):
            try:
                texts.append(p.communicate(timeout=max(1, 4 * LIMIT * SCALE))[0])
            except subprocess.TimeoutExpired:
                for q in running:
                    q.kill()
                raise AssertionError(f"job {i} {jobs[i]} did not end; output:\n{p.communicate()[0]}")
        for i, p in enumerate(running):
            wanted = (status or {}).get(i, 0)
            assert p.returncode == wanted, f"job {i} {jobs[i]} ended with {p.returncode}, expected {wanted}:\n{texts[i]}"
        assert watch.own() < LIMIT * SCALE, f"took {watch.own():.1f} s"
        return texts


def two_mpiruns():
    for a, b in (1, 1), (1, 3), (3, 2), (5, 3):
        together((a, "accept", 2), (b, "connect", 2))


def without_shared_memory():
    os.environ["WEFT_BTL"] = "self,tcp"
    together((1, "accept", 2), (3, "connect", 2))
    together((0, "accept", 2), (0, "connect", 2))
    client_dies()
    client_dies_in_collective()
    del os.environ["WEFT_BTL"]


def singletons():
    together((0, "accept", 2), (0, "connect", 2))
    together((0, "accept", 1), (3, "connect", 1))
    together((2, "accept", 1), (0, "connect", 1))


def many_times():
    """50 meetings of the same jobs: no more descriptors."""
    together((2, "accept", 50), (1, "connect", 50))


def many_clients():
    """They queue at one port."""
    together((2, "accept", 5), *[(n, "connect", 1) for n in (1, 0, 2, 1, 0)])


def client_dies():
    texts = together((4, "survive"), (2, "die"), status={1: 137})
    assert "lost contact" in texts[0] and "of job" in texts[0], texts[0]


def client_dies_in_collective():
    """All that wait for it get an error, those without messages to it, too."""
    together((3, "left"), (1, "part"), status={1: 137})


def client_dies_in_collective_of_hosts():
    """The processes of each host wait for each other in shared memory, and none for ever."""
    together(("n0:2,n1:1", "left"), (1, "part"), status={1: 137})
    together(("n0:3,n1:3", "left"), (1, "part"), status={1: 137})


def wrong_secret():
    """Refused, while an accept waits, which then takes the right one."""
    together((1, "accept", 1), (2, "wrong"), (1, "connect", 1))


def closed_while_waiting():
    together((1, "late"), (2, "failing"))


def one_side_fails():
    """It has no transport that reaches other jobs; the other side learns it at once."""
    together((0, "WEFT_BTL=self in-vain"), (2, "failing"))
    together((1, "in-vain"), (0, "WEFT_BTL=self failing-here"))


def other_users():
    """Refused on both sides, unless both permit it."""
    allow = "WEFT_CONNECT_ANY_USER=1"
    if os.geteuid() or not shutil.which("setpriv") or subprocess.run([*OTHER_USER, "test", "-x", victim]).returncode:
        print("# skipped: other_users needs root, setpriv, and a build folder that others may read")
        return
    together((1, "in-vain"), (0, "@ failing"))
    together((1, "in-vain"), (0, f"@ {allow} failing"))
    together((2, f"{allow} DYN_APART=1 accept"), (0, f"@ {allow} DYN_APART=1 connect"))


def failed_init():
    """MPI_Init, which fails to connect to the parent, leaves nothing behind."""
    together((0, "WEFT_INITIAL_ERRHANDLER=mpi_errors_return orphan"))


main([two_mpiruns, without_shared_memory, singletons, many_times, many_clients, client_dies, client_dies_in_collective,
      client_dies_in_collective_of_hosts, wrong_secret, closed_while_waiting, one_side_fails, other_users, failed_init])
