# SPDX-License-Identifier: BSD-3-Clause
"""What the Fortran tests share: the compiler, mpifort, the report."""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.abspath(os.environ.get("TEST_SRCDIR", os.path.join(HERE, "..", "..")))
BUILD = os.path.abspath(os.environ.get("TEST_BUILDDIR", os.path.join(SRC, "build")))
MPIRUN = os.environ.get("TEST_MPIRUN", os.path.join(BUILD, "mpirun"))
# Modules of compilers that are not the build's are made once a build tree.
os.environ.setdefault("WEFT_MOD_DIR", os.path.join(BUILD, "test/fortran/mod"))


def compiler():
    """The compiler of mpifort; the test is skipped where there is none."""
    r = subprocess.run([os.path.join(BUILD, "mpifort"), "-showme:command"], capture_output=True, text=True)
    name = r.stdout.strip()
    if r.returncode or not name or not shutil.which(name.split()[0]):
        print("1..0 # SKIP no Fortran compiler" + (" " + name if name else ""))
        sys.exit(77)
    if "WEFT_FC" in os.environ:
        without_sanitizer("a sanitizer goes with the build's compiler only")
    return name


def without_sanitizer(why):
    """Skips the test in a build with a sanitizer."""
    if "-fsanitize" in mpifort(["-showme:link"]).stdout:
        print("1..0 # SKIP " + why)
        sys.exit(77)


def wide_flag():
    """The option for 8-byte INTEGER."""
    name = compiler()
    return "-fdefault-integer-8" if "gfortran" in name or "flang" in name else "-i8"


def mpifort(args, cwd=None, env=None, name="mpifort"):
    """Runs the wrapper."""
    full = dict(os.environ, **(env or {}))
    return subprocess.run([os.path.join(BUILD, name), *args], cwd=cwd, env=full,
                          capture_output=True, text=True)


class Failed(Exception):
    """A step that the rest of a test needs; the text says what the compiler said."""


def compile_all(folder, args):
    """Runs mpifort on sources of this folder and files of `folder`."""
    args = [os.path.join(HERE, a) if a.lower().endswith((".f", ".f90")) else a for a in args]
    r = mpifort(args, cwd=folder)
    if r.returncode:
        raise Failed(r.stderr)


def launch(folder, n, *command, options=()):
    """Runs a program that prints "passed" on n ranks; returns what is wrong."""
    r = subprocess.run([MPIRUN, *options, "-n", str(n), *command], cwd=folder, capture_output=True, text=True, timeout=60)
    if r.returncode == 0 and r.stdout == "passed\n" and not r.stderr:
        return []
    lines = r.stdout.splitlines() + r.stderr.splitlines()
    return ["%s, %d ranks: exit status %d" % (command[0], n, r.returncode), *lines[:20]]


class Tests:
    def __init__(self):
        self.n = self.failed = 0

    def report(self, name, wrong):
        """`wrong`: lines that say what; none: passed."""
        self.n += 1
        self.failed += bool(wrong)
        for line in list(wrong)[:20]:
            print("# " + line)
        print("%sok %d - %s" % ("not " if wrong else "", self.n, name), flush=True)

    def skip(self, name, why):
        self.n += 1
        print("ok %d - %s # SKIP %s" % (self.n, name, why), flush=True)

    def finish(self):
        print("1..%d" % self.n)
        sys.exit(1 if self.failed else 0)
