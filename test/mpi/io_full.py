#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files on a full disk and on a read-only file system (io_full.c): a tmpfs of 3 MiB, mounted in namespaces of its
own; without room in the node segment; and where the system refuses process_vm_readv.  A quota cannot be set on a file system of this kind; io_errors.c has its error."""

import os
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import Job, Skip, builddir, deny, main, mpirun, nocma

program = os.path.join(builddir, "test/mpi/io_full")


def in_namespace(script):
    return subprocess.run(["unshare", "-Urm", "sh", "-ec", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(what, before="", size="3m", ends=0):
    with tempfile.TemporaryDirectory() as d:
        disk = shlex.quote(d)
        mount = f"mount -t tmpfs -o size={size} none {disk}"
        if (tried := in_namespace(mount)).returncode:
            raise Skip("no file system can be mounted: " + tried.stdout.strip())
        ranks = " ".join(map(shlex.quote, [mpirun, "-n", "3", program, d, what]))
        j = in_namespace(f"{mount}; {before.format(disk)} {ranks}")
        assert j.returncode == ends, f"ended with {j.returncode}:\n{j.stdout}"
        return j.stdout


def full():
    """Writes that do not fit, by each rank and by aggregators."""
    run("full")


def read_only():
    """The file system has been made read-only."""
    run("readonly", "printf data >{0}/file; mount -o remount,ro {0};")


def no_segment():
    """The node segment's file system fills up before a file is opened: the shared pointer lies elsewhere."""
    run("segment", "export WEFT_SHM_DIR={0};", "16m")


def no_memory():
    """The same where the kernel gives no memory without a file: no rank opens the file until there is room."""
    run("nothing", f"export WEFT_SHM_DIR={{0}}; {shlex.join([deny, 'EPERM', 'memfd_create'])}", "16m")


def no_rings():
    """The same before the first message: the job ends and says why."""
    with tempfile.TemporaryDirectory() as d: # the file stays
        text = run("rings", f"export WEFT_SHM_DIR={{0}} TMPDIR={shlex.quote(d)};", "16m", 1)
    assert "no shared memory for messages" in text, text


def copies_refused():
    """Short pieces with holes are written by calls (io_holes.c)."""
    if Job([*nocma, "true"]).status == 77:
        raise Skip("no seccomp")
    with tempfile.TemporaryDirectory() as d:
        Job([mpirun, "-n", "3", *nocma, os.path.join(builddir, "test/mpi/io_holes"), d], limit=60).expect(0)


main([full, read_only, no_segment, no_memory, no_rings, copies_refused])
