# SPDX-License-Identifier: BSD-3-Clause
"""A Slurm of several nodes on one machine: munged, slurmctld and a slurmd for each virtual node vn1, vn2, ..., all inside
the namespaces of hosts_rig.enter(), so that no port, socket, file or process is anybody else's and all of it goes with the
script.  The nodes share the machine: the same cores, the same /dev/shm, the same loopback."""

import glob
import os
import subprocess
import sys

import hosts_rig
from hosts_rig import Unavailable, wait_for

DIR = "/run/weft-slurm"         # in the rig's own /run
PACKAGES = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "unshare": "util-linux",
            "ip": "iproute2"}
CONF = """\
ClusterName=rig
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
CredType=cred/munge
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
TmpFS={dir}/tmp/%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
GresTypes=gpu
NodeName=vn[1-{n}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[16821-{last}] CPUs={cpus} Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
"""


def enter():
    """Call it first: hosts_rig.enter() with Slurm's packages.  Raises Unavailable."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    hosts_rig.NEEDED = PACKAGES
    hosts_rig.enter()


def has_pmix():
    """Whether this Slurm was built with PMIx; where not, srun cannot start our ranks."""
    return "pmix" in hosts_rig.run("srun", "--mpi=list").split()


def clean(name):
    """Not for the jobs: variables of an allocation around us, and our own."""
    return name.startswith(("SLURM", "PMIX_", "PBS_", "LSB_")) or name in ("TMPDIR", "WEFT_SHM_DIR", hosts_rig.INSIDE)


class Slurm:
    def __init__(self, nodes=4, cpus=2):
        self.names = [f"vn{i + 1}" for i in range(nodes)]
        self.daemons = []
        for name in [name for name in os.environ if clean(name)]:
            del os.environ[name]
        os.environ["SLURM_CONF"] = f"{DIR}/slurm.conf"
        self.network()
        self.write(nodes, cpus)
        self.start("munged", "--foreground", f"--key-file={DIR}/munge.key", f"--socket={DIR}/munge.socket",
                   f"--pid-file={DIR}/munged.pid", f"--log-file={DIR}/munged.log", f"--seed-file={DIR}/munge.seed", "--force")
        self.until(lambda: os.path.exists(f"{DIR}/munge.socket"), "munged")
        self.start("slurmctld", "-D")
        for name in self.names:
            self.start("slurmd", "-D", "-N", name)
        self.until(lambda: self.idle() == nodes, "Slurm")

    @staticmethod
    def network():
        """Loopback, and an address that is not: without one, name lookups (AI_ADDRCONFIG) find nothing at all."""
        for words in ("link set lo up", "link add name eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up",
                      "addr add 10.78.0.1/24 dev eth0"):
            hosts_rig.run("ip", *words.split())

    def write(self, nodes, cpus):
        for name in self.names:
            os.makedirs(f"{DIR}/tmp/{name}")
            os.makedirs(f"{DIR}/spool/{name}")
        os.chmod(DIR, 0o755)
        with open(f"{DIR}/munge.key", "wb", opener=lambda p, f: os.open(p, f, 0o400)) as f:
            f.write(os.urandom(1024))
        with open(f"{DIR}/slurm.conf", "w") as f:
            f.write(CONF.format(dir=DIR, n=nodes, last=16820 + nodes, cpus=cpus))
        with open(f"{DIR}/gres.conf", "w") as f:
            f.write("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")    # Slurm only numbers them

    def start(self, *words):
        with open(f"{DIR}/{words[0]}.out", "a") as out:
            self.daemons.append((words, subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                                         start_new_session=True)))

    def until(self, condition, what):
        """Waits for a part of the rig; when it does not come, its logs say why."""
        dead = lambda: next((words for words, p in self.daemons if p.poll() is not None), None)
        if wait_for(lambda: condition() or dead(), 30) and not dead():
            return
        raise RuntimeError(f"{what} did not start{', ended: ' + ' '.join(dead()) if dead() else ''}\n{logs()}")

    @staticmethod
    def idle():
        """Nodes that have nothing to do."""
        r = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True, timeout=20)
        return sum(map(int, r.stdout.split())) if r.returncode == 0 else 0

    def settle(self):
        """Waits until the jobs so far have left their nodes."""
        self.until(lambda: self.idle() == len(self.names), "the end of the last job")


def state():
    """What there is, for a message: jobs, nodes, processes, the ends of the logs."""
    text = "".join(subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20).stdout
                   for words in (["squeue"], ["sinfo"], ["ps", "-Ao", "pid,ppid,stat,args"]))
    return text + logs()


def logs():
    return "".join(f"--- {path}\n" + "".join(open(path, errors="replace").readlines()[-8:])
                   for path in sorted(glob.glob(f"{DIR}/*.log") + glob.glob(f"{DIR}/*.out")))


def main_words(function):
    """Runs function(rig), or says why there is no rig: TAP's skip."""
    try:
        enter()
        rig = Slurm()
    except Unavailable as e:
        print(f"1..0 # SKIP {e}")
        sys.exit(77)
    sys.exit(function(rig))
