# SPDX-License-Identifier: BSD-3-Clause
"""Sections `oversub_...` of compare: collectives of more ranks than cores, on a quiet machine and
beside other work; a section for each number of ranks and kind of other work, so that each takes a
few minutes at most.  As a program it starts a command beside that work and ends the work with it:
`bench_oversub.py busy N CMD...`: N processes that compute; `bench_oversub.py job CMD...`: the same
job once more.  Both in the command's session, so that they are its equals for the scheduler."""
import math
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from bench_peers import Failure, end, warn  # noqa: E402

KEY = "oversub"
SITUATIONS = {"quiet": ([], "quiet"), "busy1": (["busy", "1"], "beside a computing process"),
              "busy2": (["busy", "2"], "beside two computing processes"),
              "job": (["job"], "beside a second job")}
PROGRAMS = {"allreduce": ["-m", "8:8"], "barrier": []}
RANKS, QUICK_RANKS = (4, 8, 16, 64), (8, 16)
RUNS = 10
PROBE = 20          # iterations by which the time of one is estimated
SECONDS = 0.6       # of a run: many turns of the scheduler
MOST = 20000        # iterations
ROW_S = 40          # after so long a library is left out of a row
JOB_START_S = 1.0   # until the other job is at work


def section(Case):
    """The cases, made from compare's class."""

    class Oversubscribed(Case):
        def __init__(self, ranks, situation):
            self.beside, title = SITUATIONS[situation]
            super().__init__(f"{KEY}_{ranks}_{situation}", "osu_allreduce 8 B and osu_barrier, "
                             f"{ranks} ranks on 2 cores, {title}", "osu_allreduce", ranks, "none",
                             "", "", "latency_us", "lower", "us",
                             want=lambda size: 1.0 if self.beside else 0.5, least_runs=RUNS,
                             worst=True)
            self.programs = ["osu_" + p for p in PROGRAMS]
            self.iterations, self.slow = {}, set()

        def measure(self, lib, quick, timeout):
            found = {}
            for row in PROGRAMS:
                if (lib.name, row) not in self.slow:
                    self.row(lib, row, min(timeout, ROW_S), found)
            if not found:
                raise Failure(f"{lib.name}: no row of {self.key} could be measured")
            return found

        def row(self, lib, row, timeout, found):
            plain, key = lib.launcher, (lib.name, row)
            if self.beside:
                lib.launcher = [sys.executable, os.path.abspath(__file__)] + self.beside + plain
            try:
                found[row] = self.long_enough(lib, key, row, timeout)
            except Failure as err:
                warn(f"{self.key}: {row}: {lib.name} left out: {err}")
                self.slow.add(key)
            finally:
                lib.launcher = plain

        def long_enough(self, lib, key, program, timeout):
            """A run of SECONDS; how many iterations that are, the first run finds out."""
            self.program = "osu_" + program
            n = self.iterations.setdefault(key, PROBE)
            while True:
                args = PROGRAMS[program] + ["-i", str(n), "-x", str(max(1, n // 10))]
                took = self.measure_json(lib, args, timeout).popitem()[1]
                if n >= MOST or n * took >= SECONDS * 5e5:
                    return took
                n = min(MOST, 8 * n, max(2 * n, math.ceil(SECONDS * 1e6 / took)))
                self.iterations[key] = n

    probe = "weft_bench_probe"
    return [Oversubscribed(ranks, name) for name in SITUATIONS for ranks in RANKS] + [
            Case(KEY + "_compute", "time of a rank that computes while 7 others wait, of that while "
                 "they do nothing", probe, 8, "none", "compute", "compute", "compute_percent",
                 "lower", "%", want=None, absolute=103.0, source="stdout",
                 least_runs=RUNS, worst=True),
            Case(KEY + "_idle", "processor use of 15 of 16 ranks blocked in MPI, added up", probe,
                 16, "none", "idle 2", "idle 1", "idle_cpu_percent", "lower", "%", want=None,
                 absolute=2.0, source="stdout", least_runs=RUNS, worst=True)]


def expand(keys, known):
    """`oversub` stands for all sections of that name, `oversub_8` for those of 8 ranks."""
    return [k for key in keys
            for k in ([k for k in known if k.startswith(key + "_")] or [key]
                      if key.startswith(KEY) else [key])]


def left_out(key):
    """By --quick."""
    ranks = key.removeprefix(KEY + "_").partition("_")[0]
    return key.startswith(KEY) and ranks.isdigit() and int(ranks) not in QUICK_RANKS


def show_worst(case, found, text):
    """The longest run of each row and library."""
    rows = list(dict.fromkeys(row for figures in found.values() for row in figures))
    wide = max(14, *(len(name) + 2 for name in found))
    print(f"\nthe worst runs of these ({case.unit})")
    for row in rows:
        worst = (text(max(f[row])) if row in f else "-" for f in found.values())
        print(f"{row:<20}" + "".join(f"{w:>{wide}}" for w in worst))


def spin():
    pid = os.fork()
    while not pid:
        pass
    return pid


def busy(count, argv):
    pids = [spin() for _ in range(count)]
    try:
        return subprocess.run(argv, check=False).returncode
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def job(argv):
    """The other job is the same command with iterations without end."""
    other = list(argv)
    other[other.index("-i") + 1] = str(2**31 - 1)
    at = other.index("--json")
    del other[at:at + 2]
    proc = subprocess.Popen(other, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
    try:
        time.sleep(JOB_START_S)
        if proc.poll() is not None:
            raise SystemExit(f"the other job ended: {proc.stderr.read().decode()[-500:]}")
        return subprocess.run(argv, check=False).returncode
    finally:
        end(proc)


if __name__ == "__main__":
    status = busy(int(sys.argv[2]), sys.argv[3:]) if sys.argv[1] == "busy" else job(sys.argv[2:])
    sys.exit(status if status >= 0 else 128 - status)
