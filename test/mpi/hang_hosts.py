#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What mpirun says of a job that makes no progress and whose ranks are on several hosts, played by this machine: their agents
read what the ranks publish, and mpirun prints one text.  An agent is stopped meanwhile; another one sends nonsense."""

import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faultlib import main, mpirun
from hanglib import EACH_OTHER, LIMIT, SCALE, expect, explained, picture, program, start, stop

HERE = os.path.dirname(os.path.abspath(__file__))
RSH = os.path.join(HERE, "..", "launch", "rsh_here")
FRAME_H = os.path.join(HERE, "..", "..", "runtime", "boot", "frame.h")


def hosts(rsh=RSH, deal=False):
    """Ranks 0 and 1 on host n0, rank 2 on n1; dealt out: 0 and 2, 1."""
    return ["--rsh", rsh, "-H", "n0:2,n1:2", *(["--map-by", "node"] if deal else [])]


def on(rank, host):
    return f"2 of 3 ranks wait, directly or through others, for rank {rank} ({host}, pid #PID#)"


def cycles_over_two_hosts():
    explained("recv_cycle", EACH_OTHER,
              "  0-2  MPI_Recv from rank r-1 of each rank r tag 0, 4 B on MPI_COMM_WORLD (3 ranks)@recv_cycle@, for #S#",
              "kind: cycle of waits: ranks 0 -> 2 -> 1 -> 0; all receive first; let one send first, or use MPI_Sendrecv",
              options=hosts())
    explained("send_cycle", EACH_OTHER,
              "  0-2  MPI_Send to rank r+1 of each rank r tag 0, 1 MiB on MPI_COMM_WORLD (3 ranks)@send_cycle@, for #S#",
              "kind: cycle of waits: ranks 0 -> 1 -> 2 -> 0; all send first; let one receive first, or use MPI_Sendrecv",
              options=hosts(deal=True))


def message_that_matches_nothing():
    explained("wrong_tag", on(0, "n0"),
              "  0,2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@wrong_tag others@, for #S#",
              "  1    MPI_Recv from rank 0 tag 9, 4 B on MPI_COMM_WORLD (3 ranks)@wrong_tag@, for #S#",
              "kind: a message that matches nothing: tag 8 is here, tag 9 is asked; "
              "rank 1 is in MPI_Recv from rank 0 tag 9 on MPI_COMM_WORLD@wrong_tag@", options=hosts(deal=True))


def collectives_in_two_orders():
    explained("two_orders", EACH_OTHER,
              '  1-2  MPI_Barrier #0 on "columns" (3 ranks)@two_orders@, for #S#',
              '  0    MPI_Barrier #0 on "rows" (3 ranks)@two_orders@, for #S#',
              'kind: collectives in different orders: rank 1 is in MPI_Barrier #0 on "columns"@two_orders@; '
              'rank 0 is in MPI_Barrier #0 on "rows"@two_orders@', options=hosts())


def rank_of_another_host_is_stopped():
    explained("stopped", on(1, "n1"),
              "  0,2  MPI_Barrier #0 on MPI_COMM_WORLD (3 ranks)@stopped others@, for #S#",
              "  rank 1 (n1, pid #PID#) is stopped by SIGSTOP",
              "kind: a stopped process: continue it with kill -CONT #PID# on n1", options=hosts(deal=True))


def rank_of_another_host_computes():
    """Where it computes can be found only if the kernel allows it."""
    job = start("computes", *hosts(deal=True))
    try:
        text = "\n".join(picture(job.stdout))
    finally:
        stop(job)
    assert re.search(r"2 of 3 ranks wait, directly or through others, for rank 1 \(n1, pid [0-9]+\)", text), text
    assert re.search(r"rank 1 \(n1, pid [0-9]+\) is computing", text), text
    assert "kind: a late rank, no deadlock is proven" in text, text


def deadlock_is_ended():
    done = subprocess.run([mpirun, "-n", "3", *hosts(), "--set", "hang_s=1", "--hang-action", "abort", program, "recv_cycle"],
                          capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 124 and EACH_OTHER in done.stderr and "ending the 3 ranks of this deadlock" in done.stderr, done


def all_stacks():
    job = start("recv_cycle", *hosts(), "--hang-action", "stacks")
    try:
        text = "\n".join(picture(job.stdout))
        for line in job.stdout:
            text += line
            if line.startswith("stack of rank 2 (n1, pid"):
                break
        assert "stack of rank 0 (n0, pid" in text and "stack of rank 1 (n0, pid" in text, text
    finally:
        stop(job)


def end_of_a_limit():
    """The picture, all stacks and JSON, then the end."""
    seconds = int(3 * SCALE)    # the ranks have to be there
    with tempfile.NamedTemporaryFile() as f:
        done = subprocess.run([mpirun, "-n", "3", *hosts(), "--timeout", str(seconds), "--get-stack-traces",
                               "--report-state-on-timeout", "--json", f.name, program, "recv_cycle"], capture_output=True,
                              text=True, timeout=LIMIT)
        assert done.returncode == 124, done
        found = json.load(open(f.name, encoding="utf-8"))
    lines = done.stderr.splitlines()
    assert lines[0] == EACH_OTHER and lines[-1].startswith(f"mpirun: the job did not end within {seconds} s"), done
    assert found["kind"] == "cycle" and [r["host"] for r in found["ranks"]] == ["n0", "n0", "n1"], found
    assert [r["rank"] for r in found["ranks"]] == [0, 1, 2] and found["ranks"][2]["waits"][0]["call"] == "MPI_Recv", found
    stacks = [line for line in lines if line.startswith("stack of rank")]
    assert [re.sub("[0-9]+\\)", "PID)", line) for line in stacks] == \
        [f"stack of rank {r} ({h}, pid PID):" for r, h in ((0, "n0"), (1, "n0"), (2, "n1"))], done


def children(pid, name):
    found = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        for child in f.read().split():
            with contextlib.suppress(OSError), open(f"/proc/{child}/comm", encoding="ascii") as c:
                found += [int(child)] if c.read().strip() == name else []
    return found


def agents_below(pid):
    found = children(pid, "weftd")
    return found + [below for agent in found for below in agents_below(agent)]


def agents_of(job):
    """All, when their ranks run: before, SIGQUIT has no answer."""
    begin = time.monotonic()
    while sum(len(children(a, "hang")) for a in agents_below(job.pid)) < 3:
        assert job.poll() is None and time.monotonic() - begin < LIMIT
        time.sleep(0.05)
    return agents_below(job.pid)


@contextlib.contextmanager
def frozen(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def ask(job):
    job.send_signal(signal.SIGQUIT)
    return picture(job.stdout)


def wait_for_cycle(job):
    """Until all ranks are in it."""
    begin, lines = time.monotonic(), [""]
    while lines[0] != EACH_OTHER:
        assert time.monotonic() - begin < LIMIT, lines
        lines = ask(job)


def agent_is_stopped():
    """Its host is named after two seconds, and its ranks may do anything.  When it continues, so does the explanation."""
    job = start("recv_cycle", *hosts(), "--set", "hang_s=0")
    try:
        agents = agents_of(job)
        wait_for_cycle(job)
        with frozen(agents[1]):
            expect(ask(job), on(2, "n1"),
                   "  0-1  MPI_Recv from rank r-1 of each rank r tag 0, 4 B on MPI_COMM_WORLD (3 ranks)@recv_cycle@, for #S#",
                   "  rank 2 (n1, pid #PID#) could not be read: host n1 did not answer",
                   "kind: unknown: too little is known of the ranks that the others wait for")
            assert job.stdout.readline() == "  (host n1 did not answer)\n"
        wait_for_cycle(job)
    finally:
        stop(job)


def agents_below_agents():
    """Each one starts the next: what the last one says passes both others, and a stopped one hides those below it."""
    job = start("recv_cycle", "--rsh", RSH, "-H", "n0,n1,n2", "--set", "host_radix=1", "--set", "hang_s=0")
    try:
        agents = agents_of(job)
        wait_for_cycle(job)
        with frozen(agents[1]):
            lines = ask(job)
            assert "for rank 2 (n2, pid" in lines[0] and lines[-1].startswith("kind: unknown"), lines
            assert job.stdout.readline() == "  (hosts n1, n2 did not answer)\n"
        wait_for_cycle(job)
    finally:
        stop(job)


def cut():
    """cut COMMAND: an agent whose pictures have lost their end."""
    with open(FRAME_H, encoding="utf-8") as f:
        text = f.read()
    names = re.findall(r"^    FRAME_(\w+)(?: = 1)?,", text[text.index("enum frame_type"):], re.M)
    agent = subprocess.Popen(["sh", "-c", " ".join(sys.argv[2:])], stdout=subprocess.PIPE, bufsize=0)

    def read(n):
        data = b""
        while len(data) < n:
            more = os.read(agent.stdout.fileno(), n - len(data))
            if not more:
                sys.exit(agent.wait())
            data += more
        return data

    os.write(1, read(64))
    while True:
        length, kind, version, pad, node = struct.unpack("<IHBBI", read(12))
        payload = read(length)
        if names[kind - 1] == "PICTURE":
            payload = payload[:-20]
        data = struct.pack("<IHBBI", len(payload), kind, version, pad, node) + payload
        while data:
            data = data[os.write(1, data):]


def agent_sends_a_malformed_picture():
    with tempfile.TemporaryDirectory() as d:
        rsh = os.path.join(d, "rsh")
        with open(rsh, "w", encoding="ascii") as f:
            f.write(f'#!/bin/sh\nhost=$1\nshift\n[ $host = n1 ] && exec {sys.executable} {os.path.abspath(__file__)} cut "$*"\n'
                    'exec sh -c "$*"\n')
        os.chmod(rsh, 0o755)
        job = start("recv_cycle", *hosts(rsh))
        try:
            lines = picture(job.stdout)
            assert job.stdout.readline() == "  (host n1 sent a malformed state)\n"
            assert any("rank 2 (n1, pid" in line and "host n1 sent a malformed state" in line for line in lines), lines
            assert lines[-1] == "kind: unknown: too little is known of the ranks that the others wait for", lines
            assert job.poll() is None, "the job continues"
        finally:
            stop(job)


def correct_programs():
    """A rank that sleeps is named as late, at most once; a running job is not explained; both end well."""
    done = subprocess.run([mpirun, "-n", "3", *hosts(deal=True), "--set", "hang_s=1", program, "slow"], capture_output=True,
                          text=True, timeout=LIMIT)
    kinds = [line for line in done.stderr.splitlines() if line.startswith("kind:")]
    assert done.returncode == 0 and len(kinds) <= 1, done       # none if the ranks of a busy machine come late to their wait
    assert not kinds or ("a late rank, no deadlock is proven" in kinds[0] and "rank 0 (n0, pid" in done.stderr), done
    # Rank 2 waits alone on its host; only those of the other host move.
    done = subprocess.run([mpirun, "-n", "3", *hosts(), "--set", "hang_s=2", program, "busy"], capture_output=True, text=True,
                          timeout=LIMIT)
    assert done.returncode == 0 and not done.stderr, done


def running_job_shows_no_deadlock():
    """Asked again and again while ranks of two hosts exchange messages."""
    job = start("busy", *hosts(deal=True))
    kinds = []
    try:
        agents_of(job)
        while job.poll() is None and len(kinds) < 20:
            kinds += ask(job)[-1:]
    finally:
        stop(job)
    assert len(kinds) > 3 and not [k for k in kinds if "cycle" in k or "misses" in k or "early" in k], kinds


if __name__ == "__main__":
    if sys.argv[1:2] == ["cut"]:
        cut()
    main([cycles_over_two_hosts, message_that_matches_nothing, collectives_in_two_orders, rank_of_another_host_is_stopped,
          rank_of_another_host_computes, deadlock_is_ended, all_stacks, end_of_a_limit, agent_is_stopped, agents_below_agents,
          agent_sends_a_malformed_picture, correct_programs, running_job_shows_no_deadlock])
