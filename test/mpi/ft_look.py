#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_info --job shows failed ranks and revoked communicators, on one host and, by SIGQUIT to mpirun, on two."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

mpirun, build, src = (os.environ["TEST_" + n] for n in ("MPIRUN", "BUILDDIR", "SRCDIR"))
program = os.path.join(build, "test/mpi/ft_look")
info = os.path.join(os.path.dirname(mpirun), "weft_info")
TEXT = re.compile(r"  failed: rank 3, known to 0-2\n  revoked: \"halo\" \(context [0-9]+\), known to 0-2\n")


def run(options, look):
    job = subprocess.Popen([mpirun, "--ft", "--oversubscribe", *options, "-n", "4", program], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = ""
    try:
        while "has revoked" not in seen:
            line = job.stdout.readline()
            assert line, job.stderr.read()
            seen += line
        look(job)
    finally:
        job.stdin.close()
        job.stdin = None
        out, err = job.communicate(timeout=50)
    assert job.returncode == 0 and "1 of 4 ranks died" in err, out + err


def one_host(job):
    text = ""
    while not TEXT.search(text):    # each rank publishes what it knows when it waits; runtests has the limit
        with tempfile.NamedTemporaryFile() as f:
            done = subprocess.run([info, "--job", str(job.pid), "--json", f.name], capture_output=True, text=True, timeout=50)
            assert done.returncode == 0, done
            text = done.stdout
            shown = json.load(open(f.name, encoding="utf-8"))
    ranks = {r["rank"]: r for r in shown["ranks"]}
    for r in range(3):
        assert ranks[r]["failed"] == [3] and ranks[r]["nfailed"] == 1, ranks[r]
        assert [c["communicator"] for c in ranks[r]["revoked"]] == ["halo"] and ranks[r]["nrevoked"] == 1, ranks[r]


def two_hosts(job):
    text = ""
    while not TEXT.search(text):
        job.send_signal(signal.SIGQUIT)
        line = "begin"
        while line and not line.startswith("kind:"):
            line = job.stderr.readline()
            text += line
        assert line, text


failed = 0
hosts = ["--rsh", os.path.join(src, "test/launch/rsh_here"), "-H", "n0:2,n1:2"]
for i, (name, options, look) in enumerate((("one host", [], one_host), ("two hosts", hosts, two_hosts))):
    try:
        run(options, look)
    except Exception as e:
        print("# " + str(e).replace("\n", "\n# "))
        failed = 1
        print("not ", end="")
    print(f"ok {i + 1} - {name}")
print("1..2")
sys.exit(failed)
