#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A job to which one system call is denied, each in turn, with EPERM and with ENOSYS, as under the seccomp profiles of containers:
it works, or it ends with a message that says what is missing (ENDS).  Nothing hangs."""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
folder = tempfile.TemporaryDirectory(dir="/dev/shm")    # so that no other test's files count as left behind
os.environ["WEFT_SHM_DIR"] = folder.name
from faultlib import Job, Skip, builddir, deny, is_sanitized, main, mpirun

sample = os.path.join(builddir, "test/mpi/fault_sample")
LIMIT = 10
PMIX = "could not connect to the PMIx server"
ENDS = {                # what the message contains, where a job cannot work without the call
    "access": "cannot be run", "bind": r"bind\(2\) is refused", "clone3": "pmix_progress_thread_start failed", "connect": PMIX,
    "dup2": "standard streams", "epoll_ctl": "Unable to make base notifiable", "epoll_wait": r"epoll_wait\(2\) is refused",
    "fallocate": "could not reserve .* bytes of shared memory", "fsync": "could not write back file",
    "ftruncate": "could not set the length of shared memory", "getdents64": "hwloc could not read the topology",
    "getsockname": r"getsockname\(2\) is refused", "ioctl": "unable to find network interfaces",
    "linkat": "could not create shared memory", "listen": r"listen\(2\) is refused", "pipe2": "could not make the guard's pipe",
    "poll": "poll: ", "preadv": "could not read 16 bytes", "pselect6": r"pselect6\(2\) is refused", "pwritev": "could not write 16 bytes",
    "recvfrom": PMIX, "sched_getaffinity": r"sched_getaffinity\(2\) is refused", "sched_setaffinity": "binding .--bind-to none",
    "sendto": PMIX, "setsockopt": r"setsockopt\(2\) is refused", "signalfd4": "signalfd", "socket": "socket.* is refused|" + PMIX,
    "vfork": "vfork: ", "wait4": "wait4", "writev": PMIX,
}
# libtool's wrapper of the program, a shell script, uses them; the library does not
SHELL = ("dup2", "pipe2", "wait4")


def works_or_says_why(name, command):
    job = Job([*command, sample, os.path.join(folder.name, "file")], limit=LIMIT)
    if job.status == 0:
        job.expect(0, "sample done")
    else:
        assert name in ENDS, f"status {job.status} of a job that should work; output:\n{job.text}"
        job.expect(lambda status: status != 0, ENDS[name])


def sweep(error, names, command):
    """`command`: its part DENY is replaced."""
    if is_sanitized():
        raise Skip("a sanitizer makes these calls itself")
    wrong = []
    for name in names:
        try:
            works_or_says_why(name, [w for part in command for w in ([deny, error, name] if part == "DENY" else [part])])
        except AssertionError as e:
            wrong.append(f"{name}: {e}")
    assert not wrong, "\n".join(wrong)


def names():
    if Job([deny, "EPERM", "uname", "true"]).status == 77:
        raise Skip("no seccomp filters here")
    return subprocess.run([deny, "list"], capture_output=True, text=True).stdout.split()


def refused_to_all():
    """EPERM, to mpirun and the ranks."""
    sweep("EPERM", names(), ["DENY", mpirun, "-n", "2"])


def unknown_to_all():
    """ENOSYS, as of an older kernel."""
    sweep("ENOSYS", names(), ["DENY", mpirun, "-n", "2"])


def refused_to_ranks():
    """Only to ranks: the calls without which mpirun does not work."""
    sweep("EPERM", [n for n in names() if n in ENDS and n not in SHELL], [mpirun, "-n", "2", "DENY"])


main([refused_to_all, unknown_to_all, refused_to_ranks])
