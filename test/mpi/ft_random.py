#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mpirun --ft: jobs of ft_random with different seeds, ranks, transports and hosts.  Each ends by itself, with right values, and
leaves no file in shared memory.

  ft_random.py [SECONDS [SEED]]      from seed SEED on, for SECONDS"""
import os
import subprocess
import sys
import tempfile
import time

mpirun, build, src = (os.environ["TEST_" + n] for n in ("MPIRUN", "BUILDDIR", "SRCDIR"))
PROGRAM = os.path.join(build, "test/mpi/ft_random")
RSH = ["--rsh", os.path.join(src, "test/launch/rsh_here")]
TCP = ["--set", "btl=self,tcp"]
WAYS = [[], [], TCP, [*RSH, "-H", "n0:4,n1:4", "--map-by", "node"], [*RSH, "-H", "n0:3,n1:3,n2:3"]]
LIMIT = 30 * float(os.environ.get("TEST_TIMEOUT_SCALE", "1"))


def run(seed):
    n = 2 + seed // len(WAYS) % 7
    with tempfile.TemporaryDirectory(prefix="test-weft-", dir="/dev/shm") as segments, \
            tempfile.TemporaryDirectory(prefix="test-weft-") as files:
        return run_in(seed, n, segments, files)


def run_in(seed, n, segments, files):
    words = [mpirun, "--set", f"shm_dir={segments}", "--ft", "--timeout", f"{LIMIT:.0f}", "--oversubscribe", *WAYS[seed % len(WAYS)], "-n", str(n), PROGRAM, f"seed={seed}", f"in={files}"]
    job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = job.communicate()[0]          # at the time limit mpirun says what the ranks wait for
    left = os.listdir(segments)
    good = not left and job.returncode == 0 and "\nok 1" in "\n" + out and ": failed" not in out
    if not good:
        print("# " + " ".join(words) + f": code {job.returncode}, left in {segments}: {left}\n# " + out.replace("\n", "\n# "), flush=True)
    return good


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    end, failed, first = time.monotonic() + seconds, 0, seed
    while time.monotonic() < end and failed < 5:
        failed += not run(seed)
        seed += 1
    print(f"# seeds {first} to {seed - 1}: {failed} failed")
    print(f"{'not ' if failed else ''}ok 1 - random calls and deaths\n1..1")
    return failed > 0


sys.exit(main())
