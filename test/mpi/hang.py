#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What mpirun says of a job that makes no progress: a program for each kind of fault (hang.c), the text compared, line by line.
The ranks need not answer; one of them is stopped, another one computes."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import main, mpirun
from hanglib import EACH_OTHER, LIMIT, SCALE, expect, explained, info, picture, program, start, stop, two_for


def receives_in_a_cycle():
    explained("recv_cycle", EACH_OTHER,
              "  0-2  MPI_Recv from rank r-1 of each rank r tag 0, 4 B on MPI_COMM_WORLD (3 ranks)@recv_cycle@, for #S#",
              "kind: cycle of waits: ranks 0 -> 2 -> 1 -> 0; all receive first; let one send first, or use MPI_Sendrecv")


def sends_in_a_cycle():
    explained("send_cycle", EACH_OTHER,
              "  0-2  MPI_Send to rank r+1 of each rank r tag 0, 1 MiB on MPI_COMM_WORLD (3 ranks)@send_cycle@, for #S#",
              "kind: cycle of waits: ranks 0 -> 1 -> 2 -> 0; all send first; let one receive first, or use MPI_Sendrecv")



def tag_that_matches_nothing():
    explained("wrong_tag", two_for(0),
              "  0,2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@wrong_tag others@, for #S#",
              "  1    MPI_Recv from rank 0 tag 9, 4 B on MPI_COMM_WORLD (3 ranks)@wrong_tag@, for #S#",
              "kind: a message that matches nothing: tag 8 is here, tag 9 is asked; "
              "rank 1 is in MPI_Recv from rank 0 tag 9 on MPI_COMM_WORLD@wrong_tag@")


def communicator_that_matches_nothing():
    explained("wrong_comm", two_for(0),
              "  0,2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@wrong_comm others@, for #S#",
              "  1    MPI_Probe from rank 0 tag 3 on MPI_COMM_WORLD (3 ranks)@wrong_comm@, for #S#",
              "kind: a message that matches nothing: communicator 10 is here, communicator 2 is asked; "
              "rank 1 is in MPI_Probe from rank 0 tag 3 on MPI_COMM_WORLD@wrong_comm@")


def collective_that_a_rank_misses():
    explained("missing_call", two_for(0),
              "  1-2  MPI_Allreduce #0, 4 B on MPI_COMM_WORLD (3 ranks)@missing_call@, for #S#",
              "  0    MPI_Recv from rank 1 tag 3, 4 B on MPI_COMM_WORLD (3 ranks)@missing_call others@, for #S#",
              "kind: a rank misses a collective: rank 0 is in MPI_Recv from rank 1 tag 3 on MPI_COMM_WORLD"
              "@missing_call others@; rank 1 is in MPI_Allreduce #0, 4 B on MPI_COMM_WORLD@missing_call@")


def collectives_in_two_orders():
    explained("two_orders", EACH_OTHER,
              '  1-2  MPI_Barrier #0 on "columns" (3 ranks)@two_orders@, for #S#',
              '  0    MPI_Barrier #0 on "rows" (3 ranks)@two_orders@, for #S#',
              'kind: collectives in different orders: rank 1 is in MPI_Barrier #0 on "columns"@two_orders@; '
              'rank 0 is in MPI_Barrier #0 on "rows"@two_orders@')


def lock_of_a_window():
    explained("lock", two_for(0),
              '  1-2  MPI_Win_unlock for rank 0 on "window" (3 ranks)@lock@, for #S#',
              "  0    MPI_Barrier #1 on MPI_COMM_WORLD (3 ranks)@lock others@, for #S#",
              "kind: a rank waits while it holds the lock of a window: rank 0 is in MPI_Barrier #1 on MPI_COMM_WORLD"
              '@lock others@; rank 1 is in MPI_Win_unlock for rank 0 on "window"@lock@')


def groups_of_a_window():
    explained("pscw", two_for(2),
              '  1  MPI_Win_complete for rank 0 on "window" (3 ranks)@pscw others@, for #S#',
              '  2  MPI_Win_free #0 on "window" (3 ranks)@pscw free@, for #S#',
              '  0  MPI_Win_wait, request for rank 2 on "window" (3 ranks)@pscw@, for #S#',
              "kind: groups of MPI_Win_post and MPI_Win_start that do not meet: rank 2 is in MPI_Win_free #0 on "
              '"window"@pscw free@; rank 0 is in MPI_Win_wait, request for rank 2 on "window"@pscw@')


def several_requests():
    explained("waitall", EACH_OTHER,
              "  1-2  MPI_Waitall, first request: receive from rank 0 tag 20, 4 B on MPI_COMM_WORLD (3 ranks)@waitall@, for #S#",
              "  0    MPI_Waitall, first request: receive from rank 1 tag 21, 4 B on MPI_COMM_WORLD (3 ranks)@waitall@, for #S#",
              "kind: cycle of waits: ranks 0 -> 1 -> 0; all receive first; let one send first, or use MPI_Sendrecv")


def several_threads():
    explained("threads", EACH_OTHER,
              "  0-2  MPI_Recv from rank r+1 of each rank r tag 100, 4 B on MPI_COMM_WORLD (3 ranks)@threads@, for #S#",
              "  0-2  MPI_Recv from rank r+1 of each rank r tag 101, 4 B on MPI_COMM_WORLD (3 ranks)@threads@, for #S#",
              "kind: cycle of waits: ranks 0 -> 1 -> 2 -> 0; all receive first; let one send first, or use MPI_Sendrecv")


def several_lanes():
    """Of the wait for requests of two lanes, all requests and the unexpected messages of both lanes are known."""
    explained("lanes", two_for(2),
              '  1  MPI_Recv from rank 0 tag 7, 4 B on "first" (3 ranks)@lanes others@, for #S#',
              '  2  MPI_Recv from rank 0 tag 7, 4 B on "second" (3 ranks)@lanes others@, for #S#',
              '  0  MPI_Waitall, first request: receive from rank 1 tag 5, 4 B on "first" (3 ranks)@lanes@, for #S#',
              "kind: a message that matches nothing: tag 8 is here, tag 5 is asked; rank 0 is in MPI_Waitall, first request: "
              "receive from rank 2 tag 5 on another communicator@lanes@", options=["--set", "lanes=4"])


def one_is_stopped():
    explained("stopped", two_for(1),
              "  0,2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@stopped others@, for #S#",
              "  rank 1 (#HOST#, pid #PID#) is stopped by SIGSTOP",
              "kind: a stopped process: continue it with kill -CONT #PID# on #HOST#")


def outside(mode, what):
    """A rank that is outside MPI: where it is can be found only if the kernel allows it."""
    job = start(mode)
    try:
        text = "\n".join(picture(job.stdout))
    finally:
        stop(job)
    assert re.search(r"2 of 3 ranks wait, directly or through others, for rank 1", text), text
    assert re.search(f"rank 1 \\([^ ,]+, pid [0-9]+\\) is {what}", text), text
    assert "kind: a late rank, no deadlock is proven" in text, text


def one_computes():
    outside("computes", "computing")
    outside("computes_beside_file", "computing")


def one_has_not_called_init():
    for btl in "self,shm", "self,tcp":
        job = start("before_init", "--set", f"btl={btl}")
        try:
            lines = picture(job.stdout)
        finally:
            stop(job)
        expect(lines[:3], "no progress for #S#: " + two_for(1),
               "  2  MPI_Barrier until rank 1 has called MPI_Init@before_init others@, for #S#",
               "  0  MPI_Send until rank 1 has called MPI_Init@before_init@, for #S#")
        assert "kind: a late rank, no deadlock is proven" in lines[-1], lines


def one_is_in_a_system_call():
    outside("reads", "blocked in the system call read")


def asked_for():
    """At once, by a signal to mpirun, by weft_info, and at the end of --timeout."""
    job = start("recv_cycle", "--set", "hang_s=0", "--timeout", "1000")
    text = ""
    try:
        begin = time.monotonic()
        while "for each other" not in text and time.monotonic() - begin < LIMIT:
            text = subprocess.run([info, "--job", str(job.pid)], capture_output=True, text=True, timeout=LIMIT).stdout
        assert EACH_OTHER in text and "no progress for" not in text, text
        with tempfile.NamedTemporaryFile() as f:
            done = subprocess.run([info, "--job", str(job.pid), "--json", f.name], capture_output=True, text=True, timeout=LIMIT)
            picture_of = json.load(open(f.name, encoding="utf-8"))
        assert done.returncode == 0 and picture_of["kind"] == "cycle" and len(picture_of["ranks"]) == 3, done
        assert picture_of["ranks"][1]["waits"][0]["call"] == "MPI_Recv", picture_of
        job.send_signal(signal.SIGQUIT)
        lines = picture(job.stdout)
        assert lines[0] == EACH_OTHER and lines[-1].startswith("kind: cycle of waits"), lines
        assert job.poll() is None, "the job goes on"
    finally:
        stop(job)
    seconds = int(3 * SCALE)    # the ranks have to be there
    job = subprocess.run([mpirun, "-n", "3", "--timeout", str(seconds), program, "recv_cycle"], capture_output=True, text=True,
                         timeout=LIMIT)
    assert job.returncode == 124 and EACH_OTHER in job.stderr and f"did not end within {seconds} s" in job.stderr, job


def source_that_has_gone():
    """No hang: the error says which message is there in place of the one that cannot come any more."""
    for mode, call in ("gone", "MPI_Recv"), ("probed", "MPI_Probe"):
        done = subprocess.run([mpirun, "-n", "3", program, mode], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode != 0 and "rank 1 on" in done.stderr and call in done.stderr, done
        assert "no message with tag 6 from rank 0 can arrive any more; a message with tag 5 from it is there" in done.stderr, done


def no_job():
    for words, code, text in ((["--job", str(os.getpid())], 1, "expected the PID of mpirun or of a rank"),
                              (["--job=x"], 2, "unknown option"), (["--json", "f"], 2, "needs --job"), (["--job", "--config"], 2, "stands alone")):
        done = subprocess.run([info, *words], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == code and text in done.stdout + done.stderr, done


def correct_programs():
    """A rank that sleeps is named as late, once, and nothing else is said; the job ends well.  hang_s=0 says nothing."""
    done = subprocess.run([mpirun, "-n", "3", "--set", "hang_s=1", program, "slow"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and done.stderr.count("kind:") == 1, done
    assert "kind: a late rank, no deadlock is proven" in done.stderr and "rank 0" in done.stderr, done
    done = subprocess.run([mpirun, "-n", "3", "--set", "hang_s=1", program, "busy"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and not done.stderr, done
    for btl in "self,shm", "self,tcp":
        done = subprocess.run([mpirun, "-n", "3", "--set", "hang_s=1", "--set", f"btl={btl}", program, "lengthy"],
                              capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0 and "cycle" not in done.stderr and "matches nothing" not in done.stderr, done
    done = subprocess.run([mpirun, "-n", "3", "--set", "hang_s=0", program, "slow"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and not done.stderr, done


main([receives_in_a_cycle, sends_in_a_cycle, tag_that_matches_nothing, communicator_that_matches_nothing,
      collective_that_a_rank_misses, collectives_in_two_orders, lock_of_a_window, groups_of_a_window, several_requests,
      several_threads, several_lanes, one_is_stopped, one_computes, one_has_not_called_init, one_is_in_a_system_call, asked_for,
      source_that_has_gone, no_job, correct_programs])
