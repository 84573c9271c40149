# SPDX-License-Identifier: BSD-3-Clause
"""Agents that wait for mpirun, and the remote shell that finds them."""

import os
import random
import signal
import socket
import subprocess
import tempfile

from harness import MPIRUN, SCALE, check, wait_for

WEFTD = os.path.join(os.path.dirname(MPIRUN), "weftd")


def free_port():
    """Below those that the kernel gives to programs that name none, so no other program gets it before it is used."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        first = int(f.read().split()[0])
    for port in random.sample(range(first // 2, first), 50):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no free port")


class Waiter:
    """weftd --wait on a free port, with a key, started `late` seconds after the block begins; all names of
    hosts lead to it.  `inside`: words before its command."""

    def __init__(self, late=0, key="k" * 40, inside=()):
        self.folder, self.late, self.inside, self.p = tempfile.TemporaryDirectory(), late, inside, None
        self.port = str(free_port())
        self.key = self.file("key", "k" * 40)
        self.command = [*inside, WEFTD, "--wait", "--port", self.port, "--key", self.file("waiter", key)]

    def file(self, name, text):
        with open(os.path.join(self.folder.name, name), "w") as f:
            f.write(text)
        return f.name

    def rsh(self):
        path = self.file("rsh", f"#!/bin/sh\nshift\nexec {WEFTD} --call --port {self.port} --key {self.key} 127.0.0.1 \"$@\"\n")
        os.chmod(path, 0o755)
        return path

    def __enter__(self):
        words = ["sh", "-c", f'sleep {self.late}; exec "$@"', "sh", *self.command] if self.late else self.command
        self.p = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        check(self.late or wait_for(self.listens, 10 * SCALE), "weftd --wait does not listen")
        return self

    def listens(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", int(self.port))) == 0

    def pid(self):
        """Of weftd; in namespaces of its own, it is the child of unshare, which takes no SIGTERM."""
        if not self.inside:
            return self.p.pid
        with open(f"/proc/{self.p.pid}/task/{self.p.pid}/children") as f:
            return int(f.read().split()[0])

    def __exit__(self, *ignored):
        os.kill(self.pid(), signal.SIGTERM)
        try:
            _, self.err = self.p.communicate(timeout=20 * SCALE)
        finally:
            self.p.kill()
        check(self.p.returncode in (0, -signal.SIGTERM), self.p.returncode, self.err)
        self.folder.cleanup()
