#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""When faultlib.Job takes a job for hung: after HANG seconds, or without output for as long."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faultlib

faultlib.HANG = 1.0
STEPS = ["sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.4; done"]


def long_with_steps():
    """A job that prints at each step may take longer than HANG."""
    done = faultlib.Job(STEPS, steps=True)
    assert done.status == 0 and done.text == "1\n2\n3\n4\n5\n", (done.status, done.text)


def stops_after_a_step():
    """A job that prints once and then hangs is ended."""
    done = faultlib.Job(["sh", "-c", "echo 1; exec sleep 60"], steps=True)
    assert done.status is None and done.text == "1\n", (done.status, done.text)


def output_alone():
    """Without `steps`, output does not count: a job may print the same warning for ever."""
    done = faultlib.Job(["sh", "-c", "while sleep 0.2; do echo again; done"])
    assert done.status is None, done.text
    assert not [what for what in done.left if "TMPDIR" in what], done.left


faultlib.main([long_with_steps, stops_after_a_step, output_alone])
