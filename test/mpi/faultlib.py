# SPDX-License-Identifier: BSD-3-Clause
"""What the fault_*.py scripts share: start a job that must go wrong, then check that it ended in
time, with the right exit status and a message that says what to do, and that nothing is left
behind: no process, no shared memory, no file in TMPDIR."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tool"))
from patience import Stopwatch

# Seconds without those in which processors were short (test/tool/patience.py).
LIMIT = 3.0                     # that a failed job may take from start to end
AFTER = 1.0                     # and from the moment of the fault, where the program says it
HANG = 20.0                     # when to stop waiting for a job that does not end
TAG = "FAULT_TEST_TAG"
SEGMENTS = os.environ.get("WEFT_SHM_DIR", "/dev/shm") + "/weft*"
SCALE = float(os.environ.get("TEST_TIMEOUT_SCALE") or 1)

builddir = os.environ.get("TEST_BUILDDIR", os.getcwd())
mpirun = os.environ.get("TEST_MPIRUN", os.path.join(builddir, "mpirun"))
victim = os.path.join(builddir, "test/mpi/fault_victim")
deny = os.path.join(builddir, "test/mpi/fault_deny")
nocma = [deny, "EPERM", "process_vm_readv,process_vm_writev"]


def is_sanitized():
    """Whether the library has been built with a sanitizer."""
    return "-fsanitize" in subprocess.run([os.path.join(builddir, "mpicc"), "-show"], stdout=subprocess.PIPE, text=True).stdout


class Skip(Exception):
    """This case cannot run here."""


class Job:
    """One finished job: status, text (stdout and stderr), seconds, and what it left behind.
    `steps`: it prints a line at each of its many steps, so HANG is for the time without output."""

    def __init__(self, command, env=None, limit=LIMIT, stdin=None, steps=False):
        self.command, self.limit = command, limit * SCALE
        tmp = tempfile.mkdtemp(prefix="weft-fault-")
        tag = f"{os.getpid()}-{time.monotonic_ns()}"
        full = dict(os.environ, TMPDIR=tmp, **{TAG: tag}, **(env or {}))
        before, watch = set(glob.glob(SEGMENTS)), Stopwatch()
        with tempfile.TemporaryFile() as out:
            p = subprocess.Popen(command, env=full, stdin=stdin or subprocess.DEVNULL,
                                 stdout=out, stderr=out, start_new_session=True)
            said, silence = 0, watch
            while (status := p.poll()) is None and not silence.over(HANG * SCALE):
                time.sleep(0.01)
                if steps and said < (size := os.fstat(out.fileno()).st_size):
                    said, silence = size, Stopwatch()
            end, self.seconds = time.monotonic(), watch.own()
            if status is None:
                p.kill()
                p.wait()
            self.status, starved = status, watch.wall() - self.seconds
            out.seek(0)
            self.text = out.read().decode(errors="replace")
        faults = re.findall(r"^(?:\[.*?\] ?)?fault at ([0-9.]+)", self.text, re.M)
        self.after = max(0.0, end - max(map(float, faults)) - starved) if faults else None
        self.left = self._left_behind(tag, before, tmp)
        shutil.rmtree(tmp, ignore_errors=True)

    @staticmethod
    def _living(tag):
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as f:
                    if f"{TAG}={tag}".encode() in f.read().split(b"\0"):
                        found.append(int(path.split("/")[2]))
            except OSError:
                continue
        return found

    @staticmethod
    def _mapped(path):
        """True when a living process maps the file: then it belongs to another job."""
        for maps in glob.glob("/proc/[0-9]*/maps"):
            try:
                with open(maps, errors="replace") as f:
                    if path in f.read():
                        return True
            except OSError:
                continue
        return False

    def _left_behind(self, tag, before, tmp):
        wrong, watch = [], Stopwatch()
        while (pids := self._living(tag)) and not watch.over(1):
            time.sleep(0.02)        # the kernel may still be taking down what mpirun has killed
        for pid in pids:
            wrong.append(f"process {pid}")
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        new = set(glob.glob(SEGMENTS)) - before
        if new:
            time.sleep(0.2)                 # another job may just be starting
            wrong += [p for p in new if os.path.exists(p) and not self._mapped(p)]
        return wrong + [f"{name} in TMPDIR" for name in os.listdir(tmp)]

    def expect(self, status, *patterns):
        """Status: a number or a test of it.  Each pattern (any case) must be in the output."""
        assert self.status is not None, f"no end in {HANG * SCALE:.0f} s; output:\n{self.text}"
        right = status(self.status) if callable(status) else self.status == status
        wanted = "another" if callable(status) else status
        assert right, f"exit status {self.status}, expected {wanted}; output:\n{self.text}"
        for pattern in patterns:
            found = re.search(pattern, self.text, re.I)
            assert found, f"no '{pattern}' in the output:\n{self.text}"
        assert self.seconds < self.limit, f"took {self.seconds:.1f} s, allowed {self.limit:.0f}"
        assert self.after is None or self.after < AFTER * SCALE, (
            f"ended {self.after:.2f} s after the fault, allowed {AFTER * SCALE:.0f}")
        assert not self.left, "left behind: " + ", ".join(self.left)
        return self

    def count(self, pattern):
        return len(re.findall(pattern, self.text, re.I))


def job(ranks, *args, launch=(), program=None, **more):
    return Job([mpirun, "-n", str(ranks), *launch, program or victim, *args], **more)


def failed(status):
    """An orderly failure: not success and not a death by signal."""
    return 0 < status < 128


def main(cases):
    """Runs the cases (functions); TAP; exit status 1 when one failed."""
    bad = 0
    for i, case in enumerate(cases, 1):
        try:
            case()
            print(f"ok {i} - {case.__name__}")
        except Skip as why:
            print(f"ok {i} - {case.__name__} # SKIP {why}")
        except AssertionError as why:
            bad += 1
            print("".join(f"# {line}\n" for line in str(why).splitlines()), end="")
            print(f"# case: {case.__doc__}\nnot ok {i} - {case.__name__}")
        except Exception:
            bad += 1
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"not ok {i} - {case.__name__}")
        sys.stdout.flush()
    print(f"1..{len(cases)}")
    sys.exit(1 if bad else 0)
