#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""WEFT_CHECK=1: buffers that are smaller than count and datatype say, or have elements of another type, by the program's debug
information.  Right programs run silently."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import Skip, builddir, failed, is_sanitized, job, main
from hanglib import places

program = os.path.join(builddir, "test/mpi/check_variable")
AT = r" at check_variable\+0x[0-9a-f]+"
BCAST = "rank [01]: the datatype of MPI_Bcast" + AT + " stands for "
SECTION = r" there \(MPI-5.0 section 3.3.1\)"
CASES = {
    "small": "rank [01]: the buffer of MPI_Bcast" + AT + " has 12 bytes by count and datatype, but begins at byte 0 of the variable "
             "pair, which has 8",
    "small_tail": "has 11 bytes by count and datatype, but begins at byte 90 of the variable text, which has 100",
    "kind": BCAST + "floating-point numbers of 4 bytes at displacement 0, but the variable numbers has integers of 4 bytes" + SECTION,
    "length": BCAST + "integers of 4 bytes at displacement 0, but the variable numbers has integers of 8 bytes" + SECTION,
    "address": BCAST + "floating-point numbers of 8 bytes at displacement 0, but the variable numbers has a pointer of 8 bytes",
    "order": BCAST + "integers of 4 bytes at displacement 4, but the variable m has room for 1 characters" + SECTION,
    "padding": BCAST + "floating-point numbers of 4 bytes at displacement 5, but the variable m has no number that begins" + SECTION,
}


def run(name, status, *texts):
    if not places:
        raise Skip("libdw is missing")
    if is_sanitized():
        raise Skip("the address sanitizer gives variables other places")
    return job(2, name, program=program, env={"WEFT_CHECK": "1"}, limit=20).expect(status, *texts)


def mistakes():
    """Each ends the job, and names the variable."""
    for name, text in CASES.items():
        run(name, failed, "WEFT_CHECK: .*" + text)


def warnings():
    """A difference of the sign, and what only a pointer shows."""
    run("pointed", 0, "WEFT_CHECK: warning: " + BCAST + "integers of 4 bytes at displacement 0, but the buffer, by the type of the pointer "
        "numbers has floating-point numbers of 8 bytes" + SECTION)
    run("sign", 0, "WEFT_CHECK: warning: rank 0: the datatype of MPI_Allreduce" + AT + " stands for integers of 4 bytes at displacement "
        "0, but the variable number has unsigned integers of 4 bytes" + SECTION)


def right():
    """Nothing is reported."""
    j = run("right", 0)
    assert j.text == "", j.text


main([mistakes, warnings, right])
