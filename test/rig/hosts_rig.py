# SPDX-License-Identifier: BSD-3-Clause
"""Two to four hosts on one machine, for tests of what crosses hosts.  A host is a process that holds network, UTS, IPC and
mount namespaces of its own, with a real sshd; a switch joins them.  The switch, the hosts and everything that is started
here live in one PID namespace, and nothing has a name outside it: when its first process ends, killed or not, processes,
links and temporary files (a private /run) are gone.  So two rigs at once do not meet either.

enter() moves a script into such a namespace, Rig(...) makes hosts, Rig.attach() finds those that exist."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tool"))
from patience import Stopwatch

DIR = "/run/weft-rig"           # in the rig's own /run
STATE = DIR + "/state.json"
INSIDE = "RIG_INSIDE"      # in the environment of everything inside
SSH_PORT = 2222
HERE = os.path.dirname(os.path.abspath(__file__))
# What shells read that sshd starts.  On a host of the rig they are empty: what the user of this machine has there takes its time,
# and may leave a lock behind when a host is cut off during it, for which every later session waits a minute.
STARTUP = [os.path.expanduser(f"~/.{name}") for name in ("bashrc", "zshenv", "cshrc", "tcshrc")] + ["/etc/bash.bashrc"]
NEEDED = {"/usr/sbin/sshd": "openssh-server", "ssh": "openssh-client", "ip": "iproute2", "tc": "iproute2",
          "unshare": "util-linux"}


class Unavailable(Exception):
    """No rig on this machine; says why."""


def run(*words, **more):
    """Runs a command that has to succeed; its output."""
    r = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       stdin=subprocess.DEVNULL, timeout=60, **more)
    if r.returncode:
        raise RuntimeError(f"{shlex.join(map(str, words))}: status {r.returncode}: {r.stdout.strip()}")
    return r.stdout


def install():
    """Installs what is missing, with the machine's package manager."""
    missing = sorted({package for tool, package in NEEDED.items() if not shutil.which(tool)})
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise Unavailable(f"{', '.join(missing)} not installed, and there is no apt-get to do it with")
    apt = ["apt-get", "-o", "Acquire::Retries=3"]         # a mirror may fail once
    command = [*apt, "install", "-y", "--no-install-recommends", *missing]
    lock = ["flock", os.environ.get("RIG_APT_LOCK", HERE)]      # rigs are made at the same time
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    try:
        for first in ([], [*apt, "update"]):
            if first:
                subprocess.run(lock + first, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, timeout=300)
            r = subprocess.run(lock + command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, timeout=300)
            if r.returncode == 0:
                return
    except subprocess.TimeoutExpired as e:
        raise Unavailable(f"{shlex.join(e.cmd)} took more than {e.timeout} s")
    raise Unavailable(f"{shlex.join(command)} failed: {r.stdout.strip().splitlines()[-1:]}")


def enter():
    """Starts this script again inside new namespaces, unless it is there already.  Call it first.  Raises Unavailable."""
    if os.environ.get(INSIDE):
        return become_first() if os.getpid() == 1 else None
    if os.geteuid() != 0:
        raise Unavailable("namespaces and links need root")
    install()
    words = ["unshare", "--fork", "--kill-child=KILL", "--pid", "--mount", "--net", "--uts", "--ipc", "--mount-proc"]
    probe = subprocess.run(words + ["sh", "-c", "mount -t tmpfs tmpfs /run && ip link add name l0 type veth peer name l1 "
                                    "&& ip link add name br0 type bridge"], capture_output=True, text=True, timeout=20)
    if probe.returncode:
        raise Unavailable("namespaces are not permitted here: " + probe.stderr.strip())
    sys.stdout.flush()
    os.environ[INSIDE] = str(os.getpid())
    os.execvp(words[0], words + [sys.executable, *sys.argv])


def become_first():
    """Process 1 of the namespace only waits, also for orphans, so that no dead process stays visible.  Returns in its child."""
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, lambda s, frame: os._exit(128 + s))    # and the kernel ends all others
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    os.makedirs("/run/sshd", 0o755)
    os.makedirs("/run/lock", 0o755)
    os.makedirs(DIR, 0o755)
    child = os.fork()
    if child == 0:
        for sig in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(sig, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return
    while True:
        pid, status = os.wait()
        if pid == child:
            sys.stdout.flush()
            os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def mount_privately(path, keep):
    """Shell text: an empty temporary file system at path, in which the folders `keep` below it stay what they were."""
    keep = [k for k in keep if (k + "/").startswith(path + "/")]
    text = []
    for i, k in enumerate(keep):
        text += [f"mkdir -p {DIR}/keep/$$.{i}", f"mount --rbind {shlex.quote(k)} {DIR}/keep/$$.{i}"]
    text.append(f"mount -t tmpfs -o mode=1777 tmpfs {path}")
    for i, k in enumerate(keep):
        text += [f"mkdir -p {shlex.quote(k)}", f"mount --move {DIR}/keep/$$.{i} {shlex.quote(k)}"]
    return text


class Host:
    """One host.  Its link on net k is the pair `eth<k>` (host side) and `p<i>n<k>` (switch side)."""

    def __init__(self, rig, index, pid):
        self.rig, self.index, self.pid = rig, index, pid
        self.name = f"rig{index}"
        self.dir = f"{DIR}/{self.name}"

    def ip4(self, net=0):
        return f"10.77.{net}.{self.index + 1}"

    def ip6(self, net=0):
        return f"fd77:{net}::{self.index + 1}"

    def words(self, command, cwd=None):
        """The command line that runs `command` (words) on this host."""
        go = ["sh", "-c", 'cd "$0" && exec "$@"', cwd or os.getcwd()]
        return ["nsenter", "-t", str(self.pid), "-m", "-u", "-n", "-i", "--", *go, *map(str, command)]

    def run(self, *command, **more):
        """Runs a command that has to succeed; its output."""
        return run(*self.words(command), **more)

    def popen(self, *command, cwd=None, env=None, **more):
        return subprocess.Popen(self.words(command, cwd), env=env or self.rig.environ(), **more)

    def start_sshd(self):
        self.run("/usr/sbin/sshd", "-f", f"{self.dir}/sshd_config", "-E", f"{self.dir}/sshd.log")

    def stop_sshd(self):
        with open(f"{self.dir}/sshd.pid") as f:
            os.kill(int(f.read()), signal.SIGTERM)

    def new_host_key(self):
        """sshd shows another key from now on: what a reinstalled host looks like."""
        self.stop_sshd()
        os.unlink(f"{self.dir}/key")
        make_key(f"{self.dir}/key")
        wait_for(lambda: not self.listening(), 5)
        self.start_sshd()

    def listening(self):
        return f":{SSH_PORT} " in self.run("ss", "-Hltn")

    def port(self, net=0):
        return f"p{self.index}n{net}"


def make_key(path):
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rig", "-f", path)


def wait_for(condition, seconds):
    watch = Stopwatch()
    while not condition():
        if watch.over(seconds):
            return False
        time.sleep(0.01)
    return True


class Rig:
    """hosts: how many; nets: networks that join all of them, each with a subnet of its own; ipv4 False: IPv6 only;
    private_tmp: each host has a /tmp of its own, but for `keep` (folders that all see, as the build tree); /dev/shm is
    always private; slots: what the host file says."""

    def __init__(self, hosts=2, nets=1, ipv4=True, private_tmp=False, keep=(), slots=4):
        self.nets, self.ipv4, self.slots = nets, ipv4, slots
        self.keep = [os.path.realpath(k) for k in keep]
        self.hosts = []
        self.switch(hosts)
        for i in range(hosts):
            self.hosts.append(self.start_host(i, private_tmp))
        self.write_names()
        self.write_ssh()
        for h in self.hosts:
            h.start_sshd()
        with open(STATE, "w") as f:
            json.dump({"pids": [h.pid for h in self.hosts], "nets": nets, "ipv4": ipv4, "slots": slots}, f)
        if not wait_for(lambda: all(h.listening() for h in self.hosts), 10):
            raise RuntimeError(f"sshd does not listen; see {DIR}/*/sshd.log")

    @classmethod
    def attach(cls):
        """The rig around this process."""
        if not os.path.exists(STATE):
            raise Unavailable("there is no rig here")
        with open(STATE) as f:
            state = json.load(f)
        rig = cls.__new__(cls)
        rig.nets, rig.ipv4, rig.slots, rig.keep = state["nets"], state["ipv4"], state["slots"], []
        rig.hosts = [Host(rig, i, pid) for i, pid in enumerate(state["pids"])]
        return rig

    def stop(self):
        """Ends all hosts and what runs on them: a script can make another rig afterwards."""
        for h in self.hosts:
            for pid in self.processes(h) + [h.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for k in range(self.nets):      # the kernel removes links of dead namespaces only after a while
            for dev in [f"br{k}"] + [h.port(k) for h in self.hosts]:
                subprocess.run(["ip", "link", "del", dev], stderr=subprocess.DEVNULL)
        wait_for(lambda: not any(os.path.exists(f"/proc/{h.pid}/ns/net") for h in self.hosts), 5)
        shutil.rmtree(DIR)
        os.makedirs(DIR, 0o755)

    def switch(self, hosts):
        """Bridges and the switch side of all links.  The switch itself has no addresses."""
        with open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w") as f:
            f.write("1")
        for k in range(self.nets):
            run("ip", "link", "add", "name", f"br{k}", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
            run("ip", "link", "set", f"br{k}", "up")

    def start_host(self, i, private_tmp):
        h = Host(self, i, 0)
        os.makedirs(h.dir, 0o755)
        text = ["set -e", "exec </dev/null >&2", f"echo {h.name} >/proc/sys/kernel/hostname",
                *mount_privately("/dev/shm", []), f"mkdir -p {DIR}/keep/cgroup.$$",
                f"mount --rbind /sys/fs/cgroup {DIR}/keep/cgroup.$$ && mount -t sysfs sysfs /sys && "
                f"mount --rbind {DIR}/keep/cgroup.$$ /sys/fs/cgroup || true"]
        if private_tmp:
            text += mount_privately("/tmp", self.keep)
        text += [f"[ ! -e {name} ] || mount --bind /dev/null {name}" for name in STARTUP]
        text += [f"touch {h.dir}/ready", "exec sleep infinity"]
        with open(f"{h.dir}/log", "w") as log:
            p = subprocess.Popen(["unshare", "--mount", "--net", "--uts", "--ipc", "sh", "-c", "\n".join(text)], stderr=log,
                                 stdin=subprocess.DEVNULL, stdout=log, start_new_session=True)
        if not wait_for(lambda: os.path.exists(f"{h.dir}/ready") or p.poll() is not None, 10) or p.poll() is not None:
            with open(f"{h.dir}/log") as f:
                raise RuntimeError(f"{h.name} did not start: {f.read()}")
        h.pid = p.pid
        for k in range(self.nets):
            run("ip", "link", "add", "name", h.port(k), "type", "veth", "peer", "name", f"eth{k}", "netns", h.pid)
            run("ip", "link", "set", h.port(k), "master", f"br{k}", "up")
        text = ["sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 "
                "net.ipv6.conf.lo.disable_ipv6=0 net.ipv6.conf.all.keep_addr_on_down=1 "
                "net.ipv6.conf.default.keep_addr_on_down=1 || true", "set -e", "ip link set lo up"]
        for k in range(self.nets):
            text.append(f"ip link set eth{k} up && ip addr add {h.ip6(k)}/64 dev eth{k} nodad")
            if self.ipv4:
                text.append(f"ip addr add {h.ip4(k)}/24 dev eth{k}")
        h.run("sh", "-c", "\n".join(text))
        return h

    def write_names(self):
        """/etc/hosts of all: rig0 has the addresses on the first net, rig0-net1 those on the second, rig0-ip6 IPv6 only;
        `nowhere` is an address that no host has, `away` one to which there is no route."""
        lines = ["127.0.0.1 localhost", "::1 localhost", "10.77.0.250 nowhere", "192.0.2.1 away"]
        for h in self.hosts:
            for k in range(self.nets):
                names = h.name if k == 0 else f"{h.name}-net{k}"
                if self.ipv4:
                    lines.append(f"{h.ip4(k)} {names}")
                lines.append(f"{h.ip6(k)} {names} {names}-ip6")
        with open(f"{DIR}/hosts", "w") as f:
            f.write("\n".join(lines) + "\n")
        with open(f"{DIR}/hostfile", "w") as f:
            f.writelines(f"{h.name} slots={self.slots}\n" for h in self.hosts)
        for h in self.hosts:
            h.run("mount", "--bind", f"{DIR}/hosts", "/etc/hosts")

    def write_ssh(self):
        make_key(f"{DIR}/id")
        known = []
        for h in self.hosts:
            make_key(f"{h.dir}/key")
            with open(f"{h.dir}/key.pub") as f:
                names = [h.name, f"{h.name}-ip6", h.ip4(), h.ip6()] + [f"{h.name}-net{k}" for k in range(1, self.nets)]
                known.append(",".join(f"[{n}]:{SSH_PORT}" for n in names) + " " + f.read())
            with open(f"{h.dir}/sshd_config", "w") as f:
                f.write(f"Port {SSH_PORT}\nHostKey {h.dir}/key\nPidFile {h.dir}/sshd.pid\nAuthorizedKeysFile {DIR}/id.pub\n"
                        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                        "UsePAM no\nStrictModes no\nUseDNS no\nPrintMotd no\nMaxStartups 200\nMaxSessions 200\n")
        with open(f"{DIR}/known_hosts", "w") as f:
            f.writelines(known)
        with open(f"{DIR}/ssh_config", "w") as f:
            f.write(f"Host *\n  Port {SSH_PORT}\n  User root\n  IdentityFile {DIR}/id\n  IdentitiesOnly yes\n"
                    f"  UserKnownHostsFile {DIR}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
                    "  StrictHostKeyChecking yes\n  UpdateHostKeys no\n  ConnectTimeout 10\n")
        for h in self.hosts:    # plain `ssh rig1` works on the hosts too
            h.run("sh", "-c", "[ -e /etc/ssh/ssh_config ] && mount --bind $0 /etc/ssh/ssh_config", f"{DIR}/ssh_config")

    def environ(self, **more):
        """Of what runs on a host."""
        env = {k: v for k, v in os.environ.items() if k not in ("TMPDIR", "WEFT_SHM_DIR", "SSH_AUTH_SOCK")}
        env.update(RIG=f"{HERE}/hosts", RIG_RSH=f"ssh -F {DIR}/ssh_config", RIG_HOSTFILE=f"{DIR}/hostfile",
                   RIG_HOSTS=",".join(h.name for h in self.hosts), **more)
        return env

    def processes(self, host):
        """Pids of what runs on a host, the rig's own left out (its holder and the sshd that listens)."""
        net = os.stat(f"/proc/{host.pid}/ns/net").st_ino if os.path.exists(f"/proc/{host.pid}") else None
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                if os.stat(f"/proc/{pid}/ns/net").st_ino == net and pid != host.pid and pid != self.sshd_pid(host):
                    found.append(pid)
            except OSError:
                continue
        return found

    @staticmethod
    def sshd_pid(host):
        try:
            with open(f"{host.dir}/sshd.pid") as f:
                return int(f.read())
        except (OSError, ValueError):
            return 0
