# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the launcher share: start mpirun, look at how it ended, TAP output.  A test file is a list of functions
test_*; each fails by an assert.  Every run is bounded in time; what a test says of time is said of a machine that has
processors for it (test/tool/patience.py)."""

import os
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tool"))
from patience import PATIENCE, Stopwatch

BUILD = os.environ.get("TEST_BUILDDIR", os.getcwd())
MPIRUN = os.environ.get("TEST_MPIRUN", os.path.join(BUILD, "mpirun"))
RANK = os.path.join(BUILD, "test", "launch", "rank")
SCALE = float(os.environ.get("TEST_TIMEOUT_SCALE", "1"))   # sanitizer builds are slower
SECOND = 1.0 * SCALE


class Skip(Exception):
    """Raised by a test that cannot run here; says why."""


class Result:
    """seconds: without those in which processors were short, for limits; wall: all."""

    def __init__(self, code, out, err, watch):
        self.code, self.out, self.err = code, out, err
        self.seconds, self.wall = watch.own(), watch.wall()

    def __repr__(self):
        return (f"exit code {self.code} after {self.seconds:.2f} of {self.wall:.2f} s\n--- stdout\n{self.out[-3000:]}"
                f"--- stderr\n{self.err[-3000:]}---")


def communicate(p, limit, text=None):
    """Popen.communicate() with a limit that guards against hanging.  A second call would forget what is left of the text."""
    watch = Stopwatch()
    while True:
        try:
            return p.communicate(text, PATIENCE * limit if text else 1)
        except subprocess.TimeoutExpired:
            if text or watch.over(limit):
                raise


def mpirun(*args, stdin=subprocess.DEVNULL, env=None, cwd=None, timeout=20, text=None):
    """Runs mpirun; a run that does not end in time is killed and fails the test."""
    watch = Stopwatch()
    full = dict(os.environ, **(env or {}))
    p = subprocess.Popen([MPIRUN, *map(str, args)], stdin=subprocess.PIPE if text is not None else stdin,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=full, cwd=cwd)
    try:
        out, err = communicate(p, timeout * SCALE, text.encode() if text is not None else None)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        raise AssertionError(f"mpirun {args} did not end within {timeout} s\n{out[-2000:]!r}\n{err[-2000:]!r}")
    return Result(p.returncode, out.decode(errors="replace"), err.decode(errors="replace"), watch)


def start(*args, **more):
    """Starts mpirun and returns at once, its output in pipes."""
    return subprocess.Popen([MPIRUN, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **more)


def exists(pid):
    """Whether a process is there that has not ended.  One that has, and has lost its parent, stays visible where process 1 does
    not wait for it, as in many containers.  One whose first thread has ended before the others still holds its descriptors."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return fields[0] != "Z" or int(fields[17]) > 1
    except (OSError, IndexError):
        return False


def alive(marker):
    """Pids of processes with this text in their command line, mpirun and the caller left out."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if int(pid) != os.getpid() and marker in words and words[0] != MPIRUN and exists(pid):
            found.append(int(pid))
    return found


def wait_for(condition, seconds=5):
    watch = Stopwatch()
    while not (done := condition()) and not watch.over(seconds * SCALE):
        time.sleep(0.01)
    return bool(done)


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(map(repr, what)) or "check failed")


def main(module):
    tests = [(n, f) for n, f in sorted(vars(module).items()) if n.startswith("test_")]
    tests.sort(key=lambda t: t[1].__code__.co_firstlineno)
    wanted = sys.argv[1:]
    failed = 0
    print(f"1..{len(tests)}")
    for i, (name, function) in enumerate(tests, 1):
        if wanted and name not in wanted:
            print(f"ok {i} - {name} # SKIP not asked for")
            continue
        try:
            function()
            print(f"ok {i} - {name}", flush=True)
        except Skip as e:
            print(f"ok {i} - {name} # SKIP {e}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError):
            failed += 1
            print("".join("# " + line for line in traceback.format_exc().splitlines(True)))
            print(f"not ok {i} - {name}", flush=True)
    sys.exit(1 if failed else 0)
