#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""WEFT_CHECK=1: mistakes in messages, buffers, windows and files are found and named; right programs run silently."""

import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import builddir, failed, is_sanitized, job, main

program = os.path.join(builddir, "test/mpi/check_local")
AT = r" at check_local\+0x[0-9a-f]+"

# What the report says.
MESSAGES = {
    "signature": "rank 0 sends 4 MPI_INT with tag 5, rank 1 receives 2 MPI_DOUBLE in MPI_Recv" + AT,
    "signature_long": "rank 0 sends 100000 MPI_INT with tag 5, rank 1 receives 100000 MPI_FLOAT",
    "signature_mixed": "rank 0 sends 36 bytes of several datatypes with tag 5, rank 1 receives 3 elements of a derived",
    "signature_part": "rank 0 sends 2 MPI_INT with tag 5, rank 1 receives 3 elements of a derived datatype",
    "left": 'rank 1 waits for a message from rank 0, tag 6, on communicator "MPI_COMM_WORLD", but rank 0 calls MPI_Finalize; '
            "tag 5 is here, tag 6 is asked",
    "waits": "rank 1 waits for a message from rank 0, tag 6, on .* but rank 0 calls MPI_Finalize",
    "unreceived": "1 message has not been received; the first is from rank 0, tag 5, 12 bytes|"
                  "a message of 12 bytes from rank 0 to rank 1, tag 5, .*has not been received: rank 1 calls MPI_Finalize",
}
BUFFERS = {
    "changed": "rank 0: the buffer of MPI_Isend" + AT + ", to rank 1, tag 5, was modified before the operation was complete",
    "overlap": "rank 1: buffers of two unfinished operations overlap, 40 bytes .*MPI_Irecv" + AT + ", from rank 0, tag 0 .*tag 1",
    "entries": "rank 1: entries of the receive buffer of MPI_Recv" + AT + " overlap: .*4 bytes at displacement 0 and .* at displacement 3",
    "frame": "rank 1: the buffer of MPI_Recv" + AT + " has 2048 bytes .*(is a variable of a function whose variables end|"
             "begins at byte 0 of the variable small)",
    "unmapped": "rank 0: the buffer of MPI_Send" + AT + " has data .*but no memory is mapped",
    "coll_changed": "rank [01]: the buffer of MPI_Iallreduce" + AT + ', on communicator "MPI_COMM_WORLD", was modified before',
    "coll_vector": "rank [01]: the buffer of MPI_Ialltoallv" + AT + ", on .* was modified before",
    "coll_overlap": "rank [01]: buffers of two unfinished operations overlap, 40 bytes .*MPI_Irecv" + AT + ".*MPI_Iallgather" + AT,
    "coll_persistent": "rank 0: the buffer of MPI_Start" + AT + ", on .* was modified before",
    "collective_buffer": "rank [01]: the buffer of MPI_Bcast" + AT + " has 32768 bytes",
}
WINDOWS = {
    "get_changed": "the buffer of MPI_Get" + AT + ', from rank [01] of window "shown", was modified',
    "put_changed": "the buffer of MPI_Put" + AT + ', to rank [01] of window "shown", was modified',
    "no_memory": "memory of the window: the buffer of 64 bytes at .* is a null pointer, in MPI_Win_create" + AT,
    "conflict_puts": 'MPI_Win_fence, .*window "shown": conflicting accesses in the epoch that it ends, to 4 bytes from byte 20 on of the '
                     "memory of rank 0: rank 0 writes them in MPI_Put" + AT + ", rank 1 writes them in MPI_Put" + AT,
    "conflict_get": "4 bytes from byte 56 on .* of rank 0: rank 1 writes them in MPI_Put.*, rank 0 reads them in MPI_Get",
    "conflict_own": "4 bytes from byte 56 on .* of rank 0: rank 1 writes them in MPI_Put.*, rank 0 reads them in MPI_Put",
    "conflict_vector": "4 bytes from byte 28 on .* of rank 0: rank 1 writes them in MPI_Put.*, rank 0 changes them in MPI_Acc",
    "missing_fence": 'collective call 2 on window "shown": rank 1 calls MPI_Win_free, rank 0 calls MPI_Win_fence',
}
CONTINUES = {
    "freed": "1 request freed by MPI_Request_free and not complete in MPI_Finalize; the first is a receive, rank 1, tag 5, "
             'on communicator "MPI_COMM_WORLD", from MPI_Irecv' + AT,
    "freed_memory": 'memory of the window: the buffer of 40 bytes .*of window "shown" has been freed, in MPI_Win_free' + AT,
    "dead_frame": 'the buffer of 64 bytes .*of window "shown" is a variable of a function that has returned',
    "lock_in_fences": 'operations under MPI_Win_lock or MPI_Win_lock_all on window "shown" lie between two MPI_Win_fence',
}


def run(name, status, *texts, env=None, launch=()):
    with tempfile.TemporaryDirectory(prefix="weft-check-") as folder:
        j = job(2, name, os.path.join(folder, "data"), program=program, env={"WEFT_CHECK": "1", **(env or {})}, limit=20, launch=launch)
        return j.expect(status, *texts)


def each(cases, status):
    for name, text in cases.items():
        run(name, status, "WEFT_CHECK: .*(" + text + ")")


def messages():
    """Datatypes of both sides, and waits for a process in MPI_Finalize."""
    each(MESSAGES, failed)


def unsafe():
    """Standard sends wait for their receives; a deadlock is reported at once."""
    abort = ["--hang-action", "abort"]
    run("unsafe", 124, "kind: cycle of waits: .*all send first", launch=abort)
    run("tags", 124, "kind: a message that matches nothing: tag 5 is here, tag 6 is asked", launch=[*abort, "--set", "hang_s=600"])


def buffers():
    """In use, too small, overlapping, not mapped.  A sanitizer ends the program where the library reads a dead variable, and
    does not give freed memory out again, by which it is found."""
    each(BUFFERS, 1)
    if not is_sanitized():
        run("heap", 1, "rank 1: the buffer of MPI_Recv" + AT + " has 120 bytes .*the block of malloc\\(\\) that it begins ends 16 bytes")
        run("coll_frame", 1, "rank [01]: the buffer of MPI_Iallreduce" + AT + ", on .* is a variable of a function that has returned before")
        run("freed_buffer", 1, "rank 0: the buffer of MPI_Isend" + AT + ", to rank 1, tag 5, has been freed before the operation was")


def windows():
    """Buffers, memory, synchronisation."""
    each(WINDOWS, 1)
    run("fence_assert", failed, "argument 1 .assert. has MPI_MODE_NOPRECEDE, but this process has called")


def warnings():
    """Mistakes that end no job."""
    each({name: text for name, text in CONTINUES.items() if name != "freed_memory" or not is_sanitized()}, 0)


def files():
    """Collective calls on files."""
    run("open_barrier", 1, "collective call 1 on communicator .*: rank 1 calls MPI_Barrier, rank 0 calls MPI_File_open")
    run("missing_view", 1, 'on file ".*data": rank 1 calls MPI_File_close, rank 0 calls MPI_File_set_view')
    run("missing_write", 1, 'on file ".*data": rank 1 calls MPI_File_close, rank 0 calls MPI_File_write_at_all')


def leaks():
    """Objects, with the call that has made them."""
    run("leaks", 0, "WEFT_CHECK: 2 datatype objects are not freed in MPI_Finalize; the first is from MPI_Type_contiguous" + AT,
        "WEFT_CHECK: 1 group object is not freed in MPI_Finalize; the first is from MPI_Comm_group" + AT,
        "WEFT_CHECK: 1 window object is not freed in MPI_Finalize; the first is from MPI_Win_create" + AT,
        "WEFT_CHECK: a communicator .* is not freed in MPI_Finalize; it is from MPI_Comm_dup" + AT)
    run("info", 0, "WEFT_CHECK: 1 info object is not freed when the program ends; the first is from MPI_Comm_get_info" + AT)
    run("session", failed, "WEFT_CHECK: 2 session objects are not freed when the program ends; "
        "the first is from MPI_Session_init" + AT)


def right():
    """Nothing is reported."""
    for name in ("right_messages", "right_windows", "right_files"):
        j = run(name, 0)
        assert j.text == "", j.text


main([messages, unsafe, buffers, windows, warnings, files, leaks, right])
