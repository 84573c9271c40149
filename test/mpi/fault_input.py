#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Wrong input to the launcher and to the library's settings: an error or one warning that names
the nearest valid form."""

import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import Job, failed, job, main, mpirun, victim


def program_missing():
    """A program that does not exist; 127 as in a shell."""
    job(2, program="./no-such-program").expect(127, "no-such-program",
                                               "not found|does not exist|no such file")


def program_not_executable():
    """A file without the execute permission; 126 as in a shell."""
    with tempfile.NamedTemporaryFile(prefix="weft-plain-") as f:
        os.chmod(f.name, 0o644)
        job(2, program=f.name).expect(126, os.path.basename(f.name), "permission|execut")


def no_program():
    """Nothing to start."""
    Job([mpirun, "-n", "2"]).expect(failed, "program")


def unknown_option():
    """The nearest option is named."""
    Job([mpirun, "--report-binding", "-n", "2", victim]).expect(failed, "--report-binding",
                                                                "--report-bindings")


def bad_count():
    """-n takes a positive number."""
    for count in ("0", "-3", "two", "99999999999", ""):
        Job([mpirun, "-n", count, victim]).expect(failed, "-n")


def malformed_size():
    """The message names the variable, the value and the range; once, not once a rank."""
    j = job(4, env={"WEFT_SHM_EAGER": "banana"}).expect(failed, "WEFT_SHM_EAGER", "banana", "16K")
    assert j.count("banana") <= 4, j.text


def outside_range():
    """Beyond the range."""
    job(2, env={"WEFT_SHM_EAGER": "1G"}).expect(failed, "WEFT_SHM_EAGER", "1G", "16K")


def bad_choice():
    """The message lists the choices."""
    job(2, env={"WEFT_SHM_LARGE": "magic"}).expect(failed, "WEFT_SHM_LARGE", "magic", "auto", "cma",
                                                   "copy")


def bad_algorithm():
    """A forced algorithm that does not exist; said once."""
    j = job(4, env={"WEFT_COLL": "allreduce:rong"}).expect(failed, "rong", "ring")
    assert j.count("does not exist") == 1, j.text


def bad_transport():
    """A transport that does not exist; said once."""
    j = job(4, env={"WEFT_BTL": "self,shmm"}).expect(failed, "shmm", "known are self, cuda, shm")
    assert j.count("does not exist") == 1, j.text


def bad_in_one():
    """A rank whose settings alone are wrong reports them."""
    Job([mpirun, "-n", "1", victim, "work", ":", "-n", "1", "-x", "WEFT_BTL=self,shmm", victim,
         "work"]).expect(failed, "shmm", "does not exist")


def bad_table():
    """A table of algorithms that is not there, or not one."""
    job(2, env={"WEFT_TUNE_FILE": "/nonexistent"}).expect(failed, "/nonexistent", "WEFT_TUNE_FILE")
    job(2, env={"WEFT_TUNE_FILE": __file__}).expect(failed, "fault_input.py:3", "expected TUNE")


def bad_singleton():
    """Without a launcher it is the same."""
    Job([victim, "work"], {"WEFT_SHM_EAGER": "banana"}).expect(failed, "WEFT_SHM_EAGER", "banana")


def unknown_variable():
    """One warning for the job with the nearest name; the job runs."""
    j = job(4, env={"WEFT_SHM_EGER": "4K"}, limit=10).expect(0, "WEFT_SHM_EGER", "WEFT_SHM_EAGER")
    assert j.count("WEFT_SHM_EGER") == 1, f"not one warning:\n{j.text}"


def unknown_in_file():
    """The same for a name in the file."""
    with tempfile.NamedTemporaryFile("w", prefix="weft-conf-") as f:
        f.write("shm_eger = 4K\n")
        f.flush()
        j = job(4, env={"WEFT_CONFIG_FILE": f.name}, limit=10).expect(0, "shm_eger", "WEFT_SHM_EAGER")
        assert j.count("shm_eger") == 1, f"not one warning:\n{j.text}"


def bad_set_option():
    """mpirun --set checks names and values before anything is started."""
    Job([mpirun, "--set", "shm_eger=4K", "-n", "2", victim]).expect(failed, "shm_eger", "shm_eager")
    Job([mpirun, "--set", "shm_eager=banana", "-n", "2", victim]).expect(failed, "shm_eager",
                                                                         "banana")


main([program_missing, program_not_executable, no_program, unknown_option, bad_count,
      malformed_size, outside_range, bad_choice, bad_algorithm, bad_transport, bad_in_one, bad_table,
      bad_singleton, unknown_variable, unknown_in_file, bad_set_option])
