# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program of hang.c that stops, and compares what mpirun says with patterns, line by line."""

import ctypes
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, mpirun

program = os.path.join(builddir, "test/mpi/hang")
info = os.path.join(builddir, "weft_info")
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hang.c")
SCALE = float(os.environ.get("TEST_TIMEOUT_SCALE", "1"))
LIMIT = 30 * SCALE
try:
    ctypes.CDLL("libdw.so.1")
    places = True
except OSError:     # without it the texts have no lines
    places = False


def line(mark):
    with open(source, encoding="utf-8") as f:
        return next(n for n, text in enumerate(f, 1) if text.rstrip().endswith(f"/* {mark} */"))


def start(mode, *options):
    return subprocess.Popen([mpirun, "-n", "3", "--set", "hang_s=1", *options, program, mode], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def stop(job):
    """Ends the ranks, too: one may be stopped."""
    job.terminate()
    try:
        job.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        job.kill()
        job.communicate()
        raise


def picture(stream):
    """The lines from "N of N ranks wait" up to the kind of fault."""
    lines = []
    for text in stream:
        if lines or " ranks wait" in text:
            lines.append(text.rstrip("\n"))
        if text.startswith("kind:"):
            break
    return lines


def expect(lines, *patterns):
    """Each pattern is a whole line; @MARK@ stands for the place of a marked line, #PID# for a process,
    #B# for a number of bytes."""
    shown = "\n".join(lines)
    assert len(lines) == len(patterns) <= 12, shown
    for text, pattern in zip(lines, patterns):
        wanted = re.escape(pattern).replace(r"\ ", " ")
        wanted = re.sub("@([A-Za-z_ ]+)@", lambda m: rf" at hang\.c:{line(m[1])}" if places else "", wanted)
        for mark, meaning in (r"\#PID\#", "[0-9]+"), (r"\#HOST\#", "[^ ,]+"), (r"\#S\#", "[0-9]+ s"), (r"\#B\#", "[0-9]+ [KM]?i?B"):
            wanted = wanted.replace(mark, meaning)
        assert re.fullmatch(wanted, text), f"expected: {wanted}\nfound:    {text}\nin\n{shown}"


def explained(mode, *patterns, first="no progress for #S#: ", options=()):
    job = start(mode, *options)
    try:
        expect(picture(job.stdout), first + patterns[0], *patterns[1:])
    finally:
        stop(job)


EACH_OTHER = "3 of 3 ranks wait, directly or through others, for each other"


def two_for(rank):
    return f"2 of 3 ranks wait, directly or through others, for rank {rank} (#HOST#, pid #PID#)"
