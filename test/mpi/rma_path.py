#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_info --rma says what the library does: each path that it prints, and the reason, is compared with the log of a program that
puts into a window of each kind, and with the path that is right under the settings."""

import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import Job, Skip, builddir, deny, main, mpirun, nocma

info = os.path.join(builddir, "weft_info")
program = os.path.join(builddir, "test/mpi/rma_path")
rsh = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../launch/rsh_here")
KINDS = ["MPI_Win_allocate", "MPI_Win_allocate_shared", "MPI_Win_create", "of MPI_Alloc_mem", "MPI_Win_create_dynamic"]
FILE, NODE = "direct its memory is in the window's file", "direct its memory is in the node segment"
PRIVATE, REFUSED, FAR = "cma its memory is private to it", "am its memory cannot be read from here", "am it is on another host"
SHARED_FAR = "none all ranks of such a window are on one host"


def section(text, title):
    """The lines of a section, by name."""
    lines = re.search(rf"^{title}.*\n((?:  .*\n)+)", text, re.M)
    assert lines, f"no section '{title}' in\n{text}"
    return dict(re.fullmatch(r"  (.{24}) (.*)", x).groups() for x in lines[1].splitlines())


def words(lines):
    return {name.strip(): " ".join(what.split()) for name, what in lines.items()}


def logged(text):
    assert "all windows filled" in text, text
    return [f"{path} {why}" for path, why in re.findall(r"rank 0 mpi debug\] window \d+: rank [1-9] by path (\w+): (.*)", text)]


def compare(env, right, copies, under=(), launch=("-n", "2"), **lines):
    """`right`: path and reason of each kind on the same host; `lines`: others of that section."""
    said = words(section(Job([*under, info, "--rma"], env, 10).expect(0).text, "To a rank of the same host, such as rank 1"))
    assert [said[x] for x in KINDS] == right, f"{env}: expected {right}, found {said}"
    force = env.get("WEFT_RMA_PATH")
    for kind, mapped in ("of device memory", True), ("with device memory", False):
        device = "device it has device memory that can be mapped" if mapped and not force else "am it has device memory"
        assert said[kind] == (right[0] if force == "am" else device), said
    assert said["copies by the system"].startswith(copies), f"{env}: {said}"
    for name, what in lines.items():
        name = name.replace("_", " ").replace("mpi", "MPI")
        assert said[name].startswith(what), f"{env}: expected {what} in {said}"
    did = logged(Job([mpirun, *launch, *under, program], {**env, "WEFT_LOG": "mpi:debug"}, 10).expect(0).text)
    assert did == right, f"{env}: weft_info says {right}, the log {did}"


def default():
    """Pointers where memory is shared, copies where it is private."""
    compare({}, [FILE, FILE, PRIVATE, NODE, PRIVATE], "yes process_vm_readv of that rank works", messages="shm",
            target_not_calling_mpi="served")


def forced():
    """The setting rma_path."""
    compare({"WEFT_RMA_PATH": "am"}, ["am setting rma_path"] * 5, "yes", target_not_calling_mpi="waits")
    compare({"WEFT_RMA_PATH": "cma"}, ["cma setting rma_path"] * 5, "yes", target_not_calling_mpi="served")
    rdma = "rdma setting rma_path"
    compare({"WEFT_RMA_PATH": "rdma"}, [rdma] * 4 + ["am no RDMA into its memory"], "yes", messages="shm")
    compare({"WEFT_RMA_PATH": "rdma", "WEFT_BTL": "self,tcp"}, ["am no RDMA into its memory"] * 5, "yes", messages="tcp")
    compare({"WEFT_RMA_PATH": "am", "WEFT_BTL": "self,tcp"}, ["am setting rma_path"] * 5, "yes", messages="tcp")


def copies_switched_off():
    """The setting shm_large excludes copies between processes."""
    compare({"WEFT_SHM_LARGE": "copy"}, [FILE, FILE, REFUSED, NODE, REFUSED], "no setting shm_large",
            target_not_calling_mpi="waits")
    compare({"WEFT_SHM_LARGE": "copy", "WEFT_RMA_PATH": "cma"}, [REFUSED] * 5, "no setting shm_large")


def copies_refused():
    """The system refuses process_vm_readv."""
    if Job([*nocma, "true"]).status == 77:
        raise Skip("no seccomp")
    compare({}, [FILE, FILE, REFUSED, NODE, REFUSED], "no the system refuses process_vm_readv", under=nocma)


def copies_refused_in_part():
    """One rank may not read and another may not write: each goes by messages, beside ranks that copy."""
    if Job([*nocma, "true"]).status == 77:
        raise Skip("no seccomp")
    atomic = os.path.join(builddir, "test/mpi/rma_atomic")
    ranks = [[deny, "EPERM", "process_vm_readv", atomic], [deny, "ENOSYS", "process_vm_writev", atomic], [atomic], [atomic]]
    command = [word for rank in ranks for word in (":", "-n", "1", *rank)]
    Job([mpirun, *command[1:]], {"WEFT_RMA_PATH": "cma"}, 60).expect(0)


def other_host():
    """Messages; without mpirun the same, as nothing depends on the rank."""
    far = [FAR, SHARED_FAR, FAR, FAR, FAR]
    hosts = ("--rsh", rsh, "-H", "n0:2,n1:1")
    alone = Job([info, "--rma"], limit=10).expect(0).text
    job = Job([mpirun, *hosts, info, "--rma"], limit=10).expect(0).text
    for text in alone, job:
        said = words(section(text, "To a rank of another host"))
        assert [said[x] for x in KINDS] == far and said["target not calling MPI"].startswith("served by a helper thread"), said
    said = words(section(job, "To a rank of another host, such as rank 2"))
    assert said["messages"].startswith("tcp "), said
    did = logged(Job([mpirun, *hosts, program], {"WEFT_LOG": "mpi:debug"}, 10).expect(0).text)
    assert did == [FAR] * 4, did
    text = Job([info, "--rma"], {"WEFT_RMA_PATH": "am", "WEFT_RMA_HELPER": "no"}, 10).expect(0, r"rma_path=am", r"shm_large=auto").text
    said = words(section(text, "To a rank of another host"))
    assert said["MPI_Win_create"] == "am setting rma_path" and said["MPI_Win_allocate_shared"] == SHARED_FAR, said
    assert said["target not calling MPI"] == "waits setting rma_helper", said


def alone():
    """A job without another rank on the host."""
    Job([mpirun, "-n", "1", info, "--rma"], limit=10).expect(0, "same host: there is none in this job", "MPI_Win_create +am +it is on")


main([default, forced, copies_switched_off, copies_refused, copies_refused_in_part, other_host, alone])
