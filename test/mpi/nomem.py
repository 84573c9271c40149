#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs test/mpi/nomem over all of its calls: each allocation takes seconds at most, with the same outcome on
all ranks, or by a rank that ends the job with a clear message.
    nomem.py [coll|io] [ranks=2,3] [hosts] [each] [CALL ...]
coll: test/mpi/coll_nomem; io: test/mpi/io_nomem, with access to a file.  CALL: may be a pattern.
hosts: on two hosts, which this one plays.  each: a job of its own for each allocation, so that
allocations at first use are met as well."""

import os
import re
import subprocess
import sys
from fnmatch import fnmatch

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, job

RSH = os.path.join(os.path.dirname(__file__), "../launch/rsh_here")
CLEAN = re.compile(r"aborted the job with code \d+: out of memory|boot\] out of memory")
WRONG = re.compile(r"^not ok|: failed", re.M)
AT = re.compile(r"^# at \S+ rank=(\d+) from=(\d+) only", re.M)


def two_hosts(ranks):
    return ["--rsh", RSH, "-H", f"n0:{(ranks + 1) // 2},n1:{ranks // 2}"]


def walk(program, call, ranks, launch, each):
    """One call; returns the number of jobs and how many of them were ended by a message."""
    rank, nth, jobs, ended = 0, 1, 0, 0
    while rank < ranks:
        place = [f"rank={rank}", f"from={nth}"] + (["only"] if each else [])
        done = job(ranks, call, *place, launch=launch, program=program, steps=True)
        jobs += 1
        clean = done.status not in (0, None) and CLEAN.search(done.text)
        ended += bool(clean)
        at = AT.findall(done.text)
        where = f"{' '.join(done.command)}, at allocation {at[-1] if at else 'none'}"
        assert done.status is not None, f"did not end: {where}\n{done.text}"
        assert done.status == 0 or clean, f"status {done.status}: {where}\n{done.text}"
        assert not WRONG.search(done.text), f"{where}\n{done.text}"
        left = [what for what in done.left if what.startswith("process")] # files may be of others
        assert not left, f"{where} left behind: {', '.join(left)}"
        past = "# past the last" in done.text
        if done.status == 0 and not each:
            break
        rank, nth = (rank + 1, 1) if past else (int(at[-1][0]), int(at[-1][1]) + 1)
    return jobs, ended


def main():
    program, ranks, hosts, each, chosen = "nomem", None, False, False, []
    for arg in sys.argv[1:]:
        if arg.startswith("ranks="):
            ranks = [int(n) for n in arg[6:].split(",")]
        elif arg == "hosts":
            hosts = True
        elif arg == "io":
            program = "io_nomem"
        elif arg == "each":
            each = True
        elif arg == "coll":
            program = "coll_nomem"
        else:
            chosen.append(arg)
    program = os.path.join(builddir, "test/mpi", program)
    ranks = ranks or ([3] if hosts else [2, 3])
    listed = subprocess.run([program, "list"], capture_output=True, text=True)
    if listed.returncode == 77:
        print(listed.stdout, end="")
        return 77
    bad, cases = 0, [(c, n) for c in listed.stdout.split() for n in ranks
                      if not chosen or any(fnmatch(c, pattern) for pattern in chosen)]
    for i, (call, n) in enumerate(cases, 1):
        try:
            jobs, ended = walk(program, call, n, two_hosts(n) if hosts else [], each)
            print(f"ok {i} - {call} on {n} ranks # {jobs} jobs, {ended} ended by a message")
        except AssertionError as why:
            bad += 1
            print("".join(f"# {line}\n" for line in str(why).splitlines()), end="")
            print(f"not ok {i} - {call} on {n} ranks")
        sys.stdout.flush()
    print(f"1..{len(cases)}")
    return 1 if bad else 0


sys.exit(main())
