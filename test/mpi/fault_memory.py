#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shared memory that is missing or full, and copies between processes that the system refuses."""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import Job, Skip, failed, job, main, mpirun, nocma, victim


def on_small_tmpfs(size, ranks, limit=5, mode="work", env=None):
    """Runs the victim with its node segment on a file system of `size`, in a mount namespace of
    its own."""
    with tempfile.TemporaryDirectory() as mount:
        probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=64k", "none",
                                mount], capture_output=True)
        if probe.returncode:
            raise Skip("needs root and mount namespaces")
        script = f"mount -t tmpfs -o size={size} none {mount} && "
        script += f"exec {mpirun} -n {ranks} {victim} {mode}"
        env = {"WEFT_SHM_DIR": mount, **(env or {})}
        return Job(["unshare", "-m", "sh", "-c", script], env, limit)


def works_or_says_why(job_done):
    if job_done.status == 0:
        job_done.expect(0)
    else:
        job_done.expect(failed, "WEFT_SHM_DIR|shm_dir")


def full_at_once():
    """A file system of one page: the first rank cannot even make the segment."""
    on_small_tmpfs("4k", 2).expect(failed, "WEFT_SHM_DIR|shm_dir|/dev/shm", "full|space|small")


def full_when_used():
    """The segment fits, the rings do not: an error at first use, never SIGBUS."""
    on_small_tmpfs("32k", 4).expect(failed, "WEFT_SHM_DIR|shm_dir|/dev/shm", "full|space|small")


def full_any_size():
    """At every size the job works or says what is wrong."""
    for size in ("8k", "64k", "128k", "256k", "512k", "1m", "4m", "64m"):
        works_or_says_why(on_small_tmpfs(size, 3, limit=10))


def first_message_any_size():
    """The first message is large: at every size it arrives, or the job says what is wrong."""
    for kib in list(range(20, 100, 4)) + [160, 256]:
        works_or_says_why(on_small_tmpfs(f"{kib}k", 2, mode="first 9"))


def first_message_sender_full():
    """The file system fills up before the first message, which is large."""
    for large in ("auto", "copy"):
        on_small_tmpfs("1m", 2, mode="first 0", env={"WEFT_SHM_LARGE": large}).expect(
            failed, "WEFT_SHM_DIR|shm_dir", "full|space|small")


def first_message_receiver_full():
    """Nothing is left for the receiver's answer to a large message."""
    for large in ("auto", "copy"):
        on_small_tmpfs("1m", 2, mode="first 1", env={"WEFT_SHM_LARGE": large}).expect(
            failed, "WEFT_SHM_DIR|shm_dir", "full|space|small")


def missing():
    """The directory is not there."""
    job(2, "work", env={"WEFT_SHM_DIR": "/nonexistent"}).expect(failed, "/nonexistent",
                                                                "WEFT_SHM_DIR|shm_dir")


def not_writable():
    """The directory is read-only."""
    job(2, "work", env={"WEFT_SHM_DIR": "/proc"}).expect(failed, "/proc", "WEFT_SHM_DIR|shm_dir")


def singleton_needs_none():
    """One process without a launcher works where there is no shared memory, or says what is
    wrong."""
    works_or_says_why(Job([victim, "work"], {"WEFT_SHM_DIR": "/nonexistent"}))


def by_copy():
    """Streaming chosen by the user."""
    job(3, "work", env={"WEFT_SHM_LARGE": "copy"}, limit=10).expect(0)


def by_cma():
    """process_vm_readv and writev chosen by the user."""
    job(3, "work", env={"WEFT_SHM_LARGE": "cma"}, limit=10).expect(0)


def cma_refused():
    """Refused as in a container: the job works; where the user asked for it, it is said."""
    if Job([*nocma, "true"]).status == 77:
        raise Skip("no seccomp filters here")
    Job([mpirun, "-n", "3", *nocma, victim, "work"], limit=10).expect(0)
    asked = {"WEFT_SHM_LARGE": "cma"}
    Job([mpirun, "-n", "3", *nocma, victim, "work"], asked, 10).expect(0, "process_vm|cma")


def cma_refused_to_some():
    """One rank may, the others may not."""
    if Job([*nocma, "true"]).status == 77:
        raise Skip("no seccomp filters here")
    Job([mpirun, "-n", "1", victim, "work", ":", "-n", "2", *nocma, victim, "work"],
        {"WEFT_SHM_LARGE": "cma"}, 10).expect(0)


main([full_at_once, full_when_used, full_any_size, first_message_any_size,
      first_message_sender_full, first_message_receiver_full, missing, not_writable, singleton_needs_none,
      by_copy, by_cma, cma_refused, cma_refused_to_some])
