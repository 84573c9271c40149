#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that the launcher has started on one host, but that do not share memory, processes, users or the network with each other,
as in containers: each job works (fault_sample.c), over the network where there is no shared memory, or says what is missing."""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
folder = tempfile.TemporaryDirectory(dir="/dev/shm")
os.environ["WEFT_SHM_DIR"] = folder.name
from faultlib import Job, Skip, builddir, main, mpirun

sample = os.path.join(builddir, "test/mpi/fault_sample")
disk = tempfile.TemporaryDirectory()
data = os.path.join(disk.name, "file")
rsh = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../launch/rsh_here")
LIMIT = 15


def warnings(job):
    return job.text.count("do not share")


def run(n, script, *words, shared=0, launch=(), env=None):
    """Runs the sample in `n` ranks, started by a shell script that executes "$@"."""
    return Job([mpirun, "-n", str(n), *launch, "sh", "-c", script, "sh", *words, sample, data, str(shared)], env, LIMIT)


def in_groups(n, of, **more):
    """Each `of` ranks share a folder of their own for shared memory, which is what a private /dev/shm comes to."""
    with tempfile.TemporaryDirectory(dir=folder.name) as top:
        for i in range(n):
            os.mkdir(os.path.join(top, str(i)))
        script = f'export WEFT_SHM_DIR={top}/$((PMIX_RANK / {of})); exec "$@"'
        job = run(n, script, shared=of if n % of == 0 else 0, **more)
        left = [os.path.join(where, f) for where, _, files in os.walk(top) for f in files]
    return job, left


def works_with_one_warning(done):
    job, left = done
    job.expect(0, "sample done", "do not share .*--ipc=host.*WEFT_SHM_DIR")
    assert warnings(job) == 1, job.text
    assert not left, left


def each_rank_apart():
    """A segment for each rank."""
    for n in 2, 3, 5:
        works_with_one_warning(in_groups(n, 1))


def groups():
    """Several ranks in each container."""
    works_with_one_warning(in_groups(4, 2))
    works_with_one_warning(in_groups(5, 2))


def all_together():
    """One segment: no warning."""
    job, _ = in_groups(3, 3)
    job.expect(0, "sample done")
    assert warnings(job) == 0, job.text


def several_hosts():
    """Two hosts, on which some ranks are apart: a warning for each such host."""
    hosts = ("--rsh", rsh, "-H", "n0:3,n1:2")
    job, _ = in_groups(5, 1, launch=hosts)
    job.expect(0, "sample done")
    assert warnings(job) == 2, job.text
    works_with_one_warning(in_groups(5, 2, launch=("--rsh", rsh, "-H", "n0:2,n1:3")))


def one_late():
    """A rank that is in MPI_Init long after the others, whose segment it shares: no warning."""
    job = run(3, '[ $PMIX_RANK = 1 ] && sleep 1; exec "$@"', shared=3)
    job.expect(0, "sample done")
    assert warnings(job) == 0, job.text


def one_late_and_apart():
    """The same with a segment of its own."""
    with tempfile.TemporaryDirectory(dir=folder.name) as top:
        job = run(3, f'[ $PMIX_RANK = 1 ] && sleep 1 && export WEFT_SHM_DIR={top}; exec "$@"')
    works_with_one_warning((job, []))


def no_network():
    """No transport but shared memory is wanted."""
    job, _ = in_groups(2, 1, env={"WEFT_BTL": "self,shm"})
    # the rank that warns of it may be ended before by the other
    job.expect(lambda status: status not in (0, None), "which is on this host but does not share its memory")


# A user namespace in which this user has the same ids, as the launcher's server demands, and may mount.
SAME_USER = ["-U", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}", "--keep-caps"]
UNMAPPED = 65534


def unshare(*options):
    """The command, with a user namespace where this user needs one."""
    for user in [], SAME_USER:
        if subprocess.run(["unshare", *user, *options, "true"], capture_output=True).returncode == 0:
            return ["unshare", *user, *options]
    raise Skip("no namespaces here: unshare " + " ".join(options))


def private_dev_shm():
    """A mount namespace for each rank, or for some, with a /dev/shm of its own."""
    env = {"WEFT_SHM_DIR": "/dev/shm"}
    enter = " ".join(unshare("-m")) + " sh -c 'mount -t tmpfs none /dev/shm && exec \"$@\"' sh \"$@\""
    if subprocess.run(["sh", "-c", enter, "sh", "true"], capture_output=True).returncode:
        raise Skip("no file system can be mounted")
    works_with_one_warning((run(3, "exec " + enter, shared=1, env=env), []))
    works_with_one_warning((run(4, f"[ $PMIX_RANK -gt 1 ] && exec {enter}; exec \"$@\"", env=env), []))


def private_pids():
    """A PID namespace for each rank: memory is shared, but no pid names another rank."""
    job = run(3, "exec " + " ".join(unshare("-p", "-f")) + ' "$@"', shared=3)
    job.expect(0, "sample done")
    assert warnings(job) == 0, job.text


def private_users():
    """A user namespace: with the same user id, ranks share memory; without a mapping, no server answers."""
    unshare("-U")
    run(3, f'[ $PMIX_RANK = 0 ] && exec unshare {" ".join(SAME_USER)} "$@"; exec "$@"').expect(0, "sample done")
    if os.getuid() == UNMAPPED:
        return
    run(2, 'exec unshare -U "$@"').expect(lambda status: status not in (0, None), "could not connect to the PMIx server",
                                          "--userns=host")


def private_network():
    """A network namespace: no rank reaches the launcher: an error that names the remedy."""
    job = run(2, "exec " + " ".join(unshare("-n")) + ' "$@"')
    job.expect(lambda status: status not in (0, None), "could not connect to the PMIx server", "--network=host")


main([each_rank_apart, groups, all_together, several_hosts, one_late, one_late_and_apart, no_network, private_dev_shm, private_pids,
      private_users, private_network])
