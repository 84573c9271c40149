# SPDX-License-Identifier: BSD-3-Clause
"""What happens on the link of a host: change(host, net, ["delay=1", "loss=1"]) and the like.  Delay and loss hold in each
direction.  They are tc's netem where the kernel has it; where not, hosts_wire.py carries the frames of the link between
its port and the bridge.  Runs anywhere inside a rig."""

import os
import signal
import subprocess
import sys

import hosts_rig
from hosts_rig import DIR, HERE, run, wait_for


def switch(*words):
    """Runs a command in the switch's namespace, which is that of process 1."""
    return run("nsenter", "-t", "1", "-n", "--", *words)


def quiet(*words):
    """The same for a command that may have nothing to do."""
    subprocess.run(["nsenter", "-t", "1", "-n", "--", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20)


def has_netem():
    """Asked once a rig, on the loopback device of the switch, which is not used."""
    path = f"{DIR}/netem"
    if not os.path.exists(path):
        yes = subprocess.run(["nsenter", "-t", "1", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
                             capture_output=True, timeout=20).returncode == 0
        if yes:
            switch("tc", "qdisc", "del", "dev", "lo", "root")
        with open(path, "w") as f:
            f.write("yes" if yes else "no")
    with open(path) as f:
        return f.read() == "yes"


class Link:
    def __init__(self, host, net):
        self.host, self.net = host, net
        self.port, self.inner = host.port(net), f"w{host.index}n{net}"
        self.record = f"{host.dir}/wire.{net}"      # pid of the process that carries the frames

    def bridged(self):
        """The device of this link that is a port of the bridge."""
        return f"x{self.host.index}n{self.net}" if os.path.exists(self.record) else self.port

    def up(self):
        switch("ip", "link", "set", self.port, "up")

    def down(self):
        switch("ip", "link", "set", self.port, "down")

    def drop(self):
        """A device that is no port of a bridge continues to take frames, which are never read."""
        switch("ip", "link", "set", self.bridged(), "nomaster")

    def heal(self):
        switch("ip", "link", "set", self.bridged(), "master", f"br{self.net}")
        self.up()

    def clear(self):
        """No delay, no loss, no rate."""
        for enter, dev in (["-t", "1"], self.port), (["-t", str(self.host.pid)], f"eth{self.net}"):
            subprocess.run(["nsenter", *enter, "-n", "tc", "qdisc", "del", "dev", dev, "root"], stderr=subprocess.DEVNULL,
                           timeout=20)
        if os.path.exists(self.record):
            with open(self.record) as f:
                pid = int(f.read())
            os.kill(pid, signal.SIGKILL)
            os.unlink(self.record)
            quiet("ip", "link", "del", self.inner)
            self.heal()

    def shape(self, delay=0.0, loss=0.0, rate=0.0):
        """Milliseconds, percent, Mbit/s; 0 = as it is without."""
        self.clear()
        ends = (["-t", "1"], self.port), (["-t", str(self.host.pid)], f"eth{self.net}")
        if has_netem() and (delay or loss):
            words = ["netem", "limit", "100000", "delay", f"{delay}ms", "loss", f"{loss}%"] + (
                ["rate", f"{rate}mbit"] if rate else [])
        elif rate:
            words = ["tbf", "rate", f"{rate}mbit", "burst", "128k", "latency", "200ms"]
        else:
            words = None
        for enter, dev in ends if words else ():
            run("nsenter", *enter, "-n", "tc", "qdisc", "replace", "dev", dev, "root", *words)
        if (delay or loss) and not has_netem():
            self.carry(delay, loss)

    def carry(self, delay, loss):
        outer = f"x{self.host.index}n{self.net}"
        switch("ip", "link", "add", "name", self.inner, "type", "veth", "peer", "name", outer)
        switch("ip", "link", "set", self.port, "nomaster", "promisc", "on")
        switch("ip", "link", "set", self.inner, "up", "promisc", "on")
        switch("ip", "link", "set", outer, "master", f"br{self.net}", "up")
        ready = f"{self.record}.ready"
        with open(f"{self.record}.log", "w") as log:
            p = subprocess.Popen(["nsenter", "-t", "1", "-n", sys.executable, f"{HERE}/hosts_wire.py", self.port, self.inner,
                                  str(delay), str(loss), ready], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)
        if not wait_for(lambda: os.path.exists(ready) or p.poll() is not None, 10) or p.poll() is not None:
            with open(f"{self.record}.log") as f:
                raise RuntimeError("hosts_wire.py did not start: " + f.read())
        os.unlink(ready)
        with open(self.record, "w") as f:
            f.write(str(p.pid))


def change(host, net, what):
    link, shape = Link(host, net), {}
    for word in what:
        name, eq, value = word.partition("=")
        if eq and name in ("delay", "loss", "rate"):
            shape[name] = float(value)
        elif not eq and name in ("up", "down", "drop", "heal", "clear"):
            getattr(link, name)()
        else:
            raise hosts_rig.Unavailable(f"no such change of a link: {word}")
    if shape:
        link.shape(**shape)
