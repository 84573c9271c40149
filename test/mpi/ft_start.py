#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mpirun --ft: a rank dies at its n-th call of the C library, from the start of MPI_Init to the end of the process, and
before the PMIx server answers it.  Each job ends by itself, with right values and exit code 0.

  ft_start.py              some calls of each case
  ft_start.py --every N    each N-th call of each case"""
import os
import re
import subprocess
import sys

mpirun, build, src = (os.environ["TEST_" + n] for n in ("MPIRUN", "BUILDDIR", "SRCDIR"))
PROGRAM = os.path.join(build, "test/mpi/ft_start")
HOSTS = ["--rsh", os.path.join(src, "test/launch/rsh_here"), "-H", "n0:2,n1:3", "--map-by", "node"]
TCP = ["--set", "btl=self,tcp"]
CASES = [(2, 1, []), (3, 0, []), (3, 2, TCP), (5, 4, HOSTS), (5, 0, HOSTS), (5, 1, HOSTS)]
START = (1, 11, 23)                     # calls of MPI_Init, in each run
CALLS = (*START, 53, 97, 150, 260)      # later ones are waits, whose number differs: from 59 calls in all beside load


def run(n, victim, options, at):
    job = subprocess.run([mpirun, "--ft", "--oversubscribe", *options, "-n", str(n), PROGRAM, str(victim), str(at)],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    died = f"1 of {n} ranks died" in job.stdout
    # A rank that is killed after MPI_Finalize has not died; its code may be that of mpirun.
    # PMIx prints an error where its server loses count of the ranks, and may answer no process from then on.
    good = not re.search("failed|PMIX ERROR", job.stdout) and (
        job.returncode == 0 or (job.returncode == 137 and victim == 0 and not died))
    if not good:
        print(f"# {n} ranks, {victim} dies at call {at}: code {job.returncode}\n# " + job.stdout.replace("\n", "\n# "))
    calls = re.search(r"^(\d+) calls", job.stdout, re.M)
    return good, died, int(calls[1]) if calls else 0


def main():
    usable = subprocess.run([PROGRAM], stdout=subprocess.PIPE, text=True, check=False)
    if usable.returncode == 77:
        print(usable.stdout, end="")
        return 77
    every = int(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else 0
    failed = 0
    for i, (n, victim, options) in enumerate(CASES):
        good, died, calls = run(n, victim, options, 0)
        good = good and not died and calls > 40
        ok, unread, _ = run(n, victim, options, -1)
        good, ndied = good and ok and unread, 0
        for at in range(1, calls, every) if every else CALLS:
            ok, died, _ = run(n, victim, options, at)
            good, ndied = good and ok, ndied + died
        good = good and ndied >= len(START)
        failed |= not good
        print(f"{'' if good else 'not '}ok {i + 1} - {n} ranks, rank {victim} dies", *options[-1:])
    print(f"1..{len(CASES)}")
    return failed


sys.exit(main())
