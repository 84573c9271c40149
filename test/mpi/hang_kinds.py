#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""More of hang.py: windows, numbers of collectives, partitions, other jobs, streams, files, MPI_Finalize."""

import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import Skip, builddir, is_sanitized, main, mpirun
from hanglib import EACH_OTHER, LIMIT, expect, explained, picture, places, program, start, stop, two_for


def lock_that_another_rank_holds():
    """The target is not accused, and the holder is, as soon as it waits."""
    explained("lock_of_another", two_for(2),
              "  0,2  MPI_Barrier #1 on MPI_COMM_WORLD (3 ranks)@lock_of_another@, for #S#",
              '  1    MPI_Win_unlock for rank 0 on "window" (3 ranks)@lock_of_another others@, for #S#',
              "kind: a rank waits while it holds the lock of a window: rank 2 is in MPI_Barrier #1 on MPI_COMM_WORLD"
              '@lock_of_another@; rank 1 is in MPI_Win_unlock for rank 0 on "window"@lock_of_another others@')


def lock_of_a_rank_on_another_lane():
    """The holder waits in a lane that has no windows.  Rank 0 is the target, and waits like rank 2."""
    explained("lock_beside", two_for(2),
              '  0,2  MPI_Recv from rank 1 tag 7, 4 B on "beside" (3 ranks)@lock_beside@, for #S#',
              '  1    MPI_Win_unlock for rank 0 on "window" (3 ranks)@lock_beside others@, for #S#',
              'kind: a rank waits while it holds the lock of a window: rank 2 is in MPI_Recv from rank 1 tag 7 on "beside"'
              '@lock_beside@; rank 1 is in MPI_Win_unlock for rank 0 on "window"@lock_beside others@', options=["--set", "lanes=4"])


def different_roots():
    """Rank 2 has sent its block to rank 0, and continues."""
    explained("roots", "3 of 3 ranks wait",
              "  2  MPI_Barrier #1 on MPI_COMM_WORLD (3 ranks)@roots others@, for #S#",
              "  0  MPI_Gather #0 root 0, 4 B on MPI_COMM_WORLD (3 ranks)@roots@, for #S#",
              "  1  MPI_Gather #0 root 1, 4 B on MPI_COMM_WORLD (3 ranks)@roots@, for #S#",
              "kind: different roots of one collective: rank 0 is in MPI_Gather #0 root 0, 4 B on MPI_COMM_WORLD@roots@; "
              "rank 1 is in MPI_Gather #0 root 1, 4 B on MPI_COMM_WORLD@roots@")


def fence_that_a_rank_misses():
    explained("fence", EACH_OTHER,
              '  0,2  MPI_Win_fence #1 on "window" (3 ranks)@fence@, for #S#',
              "  1    MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@fence missed@, for #S#",
              "kind: collectives in different orders: rank 1 is in MPI_Barrier #0 on MPI_COMM_WORLD@fence missed@; "
              'rank 0 is in MPI_Win_fence #1 on "window"@fence@')


def one_collective_more():
    """By messages; in shared memory the job ends with an error."""
    explained("one_more", "3 of 3 ranks wait",
              "  1-2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@one_more@, for #S#",
              "  0    MPI_Barrier #1 on MPI_COMM_WORLD (3 ranks)@one_more@, for #S#",
              "kind: different numbers of collective calls: ranks 1-2 are in MPI_Barrier #0 on MPI_COMM_WORLD@one_more@; "
              "rank 0 is in MPI_Barrier #1 on MPI_COMM_WORLD@one_more@; rank 0 has made 1 more call on this communicator: "
              "look for the one that rank 1 has left out",
              options=["--set", "coll=barrier:dissemination"])


PARTS = "MPI_Wait, partitioned receive from rank 0 tag 5"


def partitions_that_are_not_ready():
    advice = "; let rank 0 call MPI_Pready for each partition, after MPI_Start and before it waits"
    explained("partitions", "3 of 3 ranks wait, directly or through others, for rank 0 (#HOST#, pid #PID#)",
              "  2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@partitions others@, for #S#",
              "  0  MPI_Wait, partitioned send to rank 1 tag 5, 32 B, partitions 1,3 of 4 not marked ready on MPI_COMM_WORLD (3 ranks)"
              "@partitions@, for #S#",
              f"  1  {PARTS}, 32 B, partitions 1,3 of 4 missing on MPI_COMM_WORLD (3 ranks)@partitions@, for #S#",
              "kind: partitions that are not marked ready: rank 0 is in MPI_Wait, partitioned send to rank 1 tag 5, "
              f"partitions 1,3 of 4 not marked ready on MPI_COMM_WORLD@partitions@{advice}")
    explained("partitions_late", "3 of 3 ranks wait, directly or through others, for rank 0 (#HOST#, pid #PID#)",
              "  0,2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@partitions_late others@, for #S#",
              f"  1    {PARTS}, 32 B, partition 1 of 2 missing on MPI_COMM_WORLD (3 ranks)@partitions_late@, for #S#",
              "kind: partitions that are not marked ready: rank 0 is in MPI_Barrier #0 on MPI_COMM_WORLD@partitions_late others@; "
              f"rank 1 is in {PARTS}, partition 1 of 2 missing on MPI_COMM_WORLD@partitions_late@{advice}")
    explained("parrived", two_for(1),
              "  0,2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@parrived others@, for #S#",
              "  1    MPI_Parrived@parrived@, for #S#",
              "kind: unknown, no deadlock is proven: look at what the loop of rank 1 asks for; rank 1 is in MPI_Parrived@parrived@")


def waits_for_another_job():
    of = "kind: a wait for another job: "
    explained("accepts", two_for(0),
              "  1-2  MPI_Comm_accept for rank 0 on MPI_COMM_WORLD (3 ranks)@accepts@, for #S#",
              "  0    MPI_Comm_accept@accepts@, for #S#",
              f"{of}no process has called MPI_Comm_connect with the name of this port; rank 0 is in MPI_Comm_accept@accepts@")
    explained("connects", two_for(1),
              "  0,2  MPI_Barrier #1 on MPI_COMM_WORLD (3 ranks)@connects others@, for #S#",
              "  1    MPI_Comm_connect@connects@, for #S#",
              f"{of}the process that has opened this port has not called MPI_Comm_accept; rank 1 is in MPI_Comm_connect@connects@")
    explained("spawns", two_for(0),
              "  1-2  MPI_Comm_spawn for rank 0 on MPI_COMM_WORLD (3 ranks)@spawns@, for #S#",
              "  0    MPI_Comm_spawn@spawns@, for #S#",
              f"{of}the started processes have not called MPI_Init yet; look at what they do; "
              "rank 0 is in MPI_Comm_spawn@spawns@")


def spawn_that_is_not_started():
    """The remote shell does not answer until the test ends it.  Too few slots are an error at once."""
    with tempfile.TemporaryDirectory(prefix="weft-hang-") as folder:
        shell, number = (os.path.join(folder, name) for name in ("rsh", "pid"))
        with open(shell, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\necho $$ >{number}\nexec sleep 300\n")
        os.chmod(shell, 0o755)
        job = start("spawns_elsewhere", "--rsh", shell)
        try:
            expect(picture(job.stdout), "no progress for #S#: " + two_for(0),
                   "  1-2  MPI_Comm_spawn for rank 0 on MPI_COMM_WORLD (3 ranks)@spawns_elsewhere@, for #S#",
                   "  0    MPI_Comm_spawn of 2 processes@spawns_elsewhere@, for #S#",
                   "kind: a wait for another job: mpirun has not started the processes yet: it waits until their hosts have answered "
                   "its remote shell, or for the slots of a job that is ending; "
                   "rank 0 is in MPI_Comm_spawn of 2 processes@spawns_elsewhere@")
            job.send_signal(signal.SIGTERM)
            job.communicate(timeout=LIMIT / 2)      # not as long as the shell may take to answer
        finally:
            with contextlib.suppress(OSError), open(number, encoding="utf-8") as f:
                os.kill(int(f.read()), signal.SIGTERM)
            stop(job)
    done = subprocess.run([mpirun, "-n", "3", "-H", "localhost:3", program, "spawns"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode and re.search("1 more rank cannot be spawned: 3 of the 3 slots are in use; give mpirun more slots, "
                                         "or --oversubscribe", done.stderr), done


def no_room_for_messages():
    """To a rank that is not calling MPI: in its ring, and in a socket.  The number of bytes is that of all messages that wait."""
    for btl in "self,shm", "self,tcp":
        for mode, call in (("sends_to_busy", "MPI_Send to rank 1 tag 0, 1000 B (queued: 1000 B)"),
                           ("isends_to_busy", "MPI_Waitall, first request: send to rank 1 tag 0, 8000 B (queued: #B#)")):
            job = start(mode, "--set", f"btl={btl}")
            try:
                lines = picture(job.stdout)
            finally:
                stop(job)
            expect(lines[:3], "no progress for #S#: " + two_for(1),
                   f"  2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@{mode} others@, for #S#",
                   f"  0  {call} on MPI_COMM_WORLD (3 ranks)@{mode}@, for #S#")
            assert re.fullmatch(r"kind: a late rank, no deadlock is proven: look at what rank 1 does outside MPI[^;]*; messages to it are "
                                "queued, because its ring or socket is full: it reads them only in MPI calls", lines[-1]), lines


def calls_on_a_stream():
    """Over the fake driver.  The lines of that program are not compared."""
    fake = os.path.join(builddir, "test/fake/gpu")
    stuck = os.path.join(builddir, "test/gpu/stream_stuck")
    if not os.path.exists(os.path.join(fake, "libcuda.so.1")):
        return
    env = dict(os.environ, LD_LIBRARY_PATH=fake, WEFT_GPU="on", FAKE_CUDA_DEVICES="1")
    receive = "MPIX_Recv_enqueue from rank 0 tag 7"
    # Under MPS the hosts wait for each other, else the threads that carry the calls out.
    for mode, mps, call in (("receive", "1", receive), ("receive", "0", receive), ("reduce", "1", "MPIX_Allreduce_enqueue for rank 0"),
                            ("reduce", "0", "MPIX_Allreduce_enqueue #0"), ("differ", "0", "MPIX_Barrier_enqueue #0")):
        job = subprocess.Popen([mpirun, "-n", "3", "--set", "hang_s=1", stuck, mode], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(env, FAKE_CUDA_MPS=mps))
        try:
            lines = [re.sub(r" at stream_stuck\.c:[0-9]+", "", text) for text in picture(job.stdout)]
        finally:
            stop(job)
        # The root of a short broadcast waits for no other rank, so only the last rank is in its call.
        stuck_ranks, others = ("2", "0-1") if mode == "differ" else ("1-2", "0")
        here = [f"  {stuck_ranks:<4} {call} on communicator 10 (3 ranks), for #S#",
                f"  {others:<4} MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks), for #S#"]
        expect(lines, "no progress for #S#: 2 of 3 ranks wait, directly or through others, for rank 0 (#HOST#, pid #PID#)",
               *(reversed(here) if mode == "differ" else here),
               "kind: a rank has not enqueued its part of a call on a stream: rank 0 is in MPI_Barrier #0 on MPI_COMM_WORLD; "
               f"rank {stuck_ranks[0]} is in {call} on communicator 10")


def pythons():
    """An interpreter of each version that is here, by version: its frames can be read from 3.13 on."""
    found = {}
    for name in (sys.executable, *map(shutil.which, ("python3", "python3.13", "python3.14")),
                 *glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[34]*/bin/python3"))):
        if not name:
            continue
        done = subprocess.run([name, "-c", "import ctypes, sys; print(*sys.version_info[:2], sys.executable)"], capture_output=True,
                              text=True, timeout=LIMIT)
        if done.returncode == 0:
            major, minor, path = done.stdout.strip().split(" ", 2)
            found.setdefault((int(major), int(minor)), path)
    return found


def lines_of_python_code():
    """In an MPI call, and outside; the place needs libdw, which finds that Python runs the stack."""
    found = pythons()
    library = os.path.join(builddir, ".libs/libmpi_abi.so")
    if not found or not places or is_sanitized():
        raise Skip("there is no Python with ctypes" if not found else "there is no libdw" if not places else
                   "a sanitizer must be loaded before Python")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hang_script.py")
    with open(script, encoding="utf-8") as f:
        lines = f.read().split("\n")
    waits, computes = (next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {mark}")) for mark in ("waits", "computes"))
    for version, python in found.items():
        job = subprocess.Popen([mpirun, "-n", "3", "--set", "hang_s=1", python, script, library], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            text = "\n".join(picture(job.stdout))
            lacks = job.stdout.readline() if version < (3, 13) else ""
        finally:
            stop(job)
        if version < (3, 13):
            assert re.search(r"  0,2  MPI_Barrier #0 on MPI_COMM_WORLD \(3 ranks\)( at \S+\.c:[0-9]+)?, for ", text), (version, text)
            assert re.fullmatch(r"  \((no lines of Python code: they can be read of CPython 3\.13 and 3\.14; this is an older version|"
                                r"no stack: .*)\)\n", lacks), lacks
            continue
        assert f"0,2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks) at hang_script.py:{waits}, for " in text, (version, text)
        assert re.search(rf"is computing \([0-9]+ % cpu\)( in Solver\.step\(\) at hang_script\.py:({computes - 1}|{computes}))?\n",
                         text), (version, text)


def collective_calls_of_a_file():
    """No hang: the call that makes an agreement returns MPI_ERR_NOT_SAME on all ranks, and a line says why."""
    for mode, rank, here, there, why in (
            ("file_missed", 1, "call 1, MPI_File_close after MPI_File_open", "call 2, MPI_File_close after MPI_File_write_at_all",
             "this rank has left out a collective call"),
            ("file_missed_joint", 1, "call 2, MPI_File_close after MPI_File_set_view",
             "call 2, MPI_File_write_all after MPI_File_set_view", "the ranks call different procedures"),
            ("file_other_call", 0, "call 1, MPI_File_set_size after MPI_File_open", "call 1, MPI_File_sync after MPI_File_open",
             "the ranks call different procedures")):
        done = subprocess.run([mpirun, "-n", "3", program, mode], capture_output=True, text=True, timeout=LIMIT)
        assert re.fullmatch(rf"\[[^]]*\] rank {rank} of file /tmp/weft-hang-\w+ is in its collective {here}; another rank is in "
                            rf"{there}: {why}; collective calls on the file fail from now on\n", done.stderr), done
        assert done.returncode == 0 and not done.stdout, done


def left_in_finalize():
    """A warning for each rank, and the job ends well; correct programs get none."""
    for btl in "self,shm", "self,tcp":
        done = subprocess.run([mpirun, "-n", "3", "--set", f"btl={btl}", program, "left_over"], capture_output=True, text=True,
                              timeout=LIMIT)
        assert done.returncode == 0 and (btl == "self,tcp" or done.stderr.count("\n") == 2), done  # TCP may report the connection
        here = r"(?: \(tag 0 is here\))?"      # it may come later
        for what in ("send to rank 1 tag 0, 1048576 B on MPI_COMM_WORLD, which no receive has matched",
                     f"receive from rank 0 tag 1, 1048576 B on MPI_COMM_WORLD, which no message has matched{here}"):
            assert re.search(f"MPI_Finalize leaves 1 message of this rank unfinished: {what}; complete each request", done.stderr), done
    explained("left_waiting", EACH_OTHER,
              "  1-2  MPI_Recv from different ranks tag 1, 4 B on MPI_COMM_WORLD (3 ranks)@left_waiting@, for #S#",
              "  0    MPI_Finalize, send to rank 1 tag 0, 1 MiB on MPI_COMM_WORLD (3 ranks)@MPI_Finalize@, for #S#",
              "kind: cycle of waits: ranks 1 -> 2 -> 1; all receive first; let one send first, or use MPI_Sendrecv")
    for btl in "self,shm", "self,tcp":
        done = subprocess.run([mpirun, "-n", "3", "--set", f"btl={btl}", program, "nothing_left"], capture_output=True, text=True,
                              timeout=LIMIT)
        assert done.returncode == 0 and not done.stderr, done


main([lock_that_another_rank_holds, lock_of_a_rank_on_another_lane, different_roots, fence_that_a_rank_misses, one_collective_more,
      partitions_that_are_not_ready, waits_for_another_job, spawn_that_is_not_started, no_room_for_messages, calls_on_a_stream,
      lines_of_python_code, collective_calls_of_a_file, left_in_finalize])
