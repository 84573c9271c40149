# SPDX-License-Identifier: BSD-3-Clause
"""MPI libraries as the benchmark scripts see them: build the sources with a compiler wrapper, start
a program with the library's own launcher and binding options, and end it when its time is up.  Only
processes that were started here are ever killed, by number."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tool"))
from patience import Stopwatch

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
COMMON = ("driver opts data device table limits limits_gpu report plot pair coll coll_kinds icoll pcoll nccl rma "
          "types compute").split()
# MPICH's MPI_STATUSES_IGNORE is the address 1, which gcc takes for a real array.
CFLAGS = ["-O3", "-g", "-std=gnu11", "-Wno-stringop-overflow", "-I" + TOP]
VERSION_PROGRAM = "osu_barrier"
GRACE_S = 3  # for a launcher to clean up after SIGTERM


class Failure(Exception):
    """A program that could not be built or run; the text says which and why."""


def processes():
    """{number: (parent, session, start time)} of all processes."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(path.split("/")[2])] = (int(fields[1]), int(fields[3]), fields[19])
    return found


def family(root):
    """{number: start time} of what descends from `root` or belongs to the session it leads: a
    program whose launcher is gone has another parent, but still that session."""
    table = processes()
    found = {p: t for p, (_, session, t) in table.items() if session == root}
    grown = True
    while grown:
        more = {p: t for p, (parent, _, t) in table.items()
                if p not in found and (parent == root or parent in found)}
        found.update(more)
        grown = bool(more)
    return found


def end(proc):
    """Ends a program that is out of time: its launcher politely, then the whole family for good."""
    ours = family(proc.pid)
    proc.terminate()
    try:
        proc.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        ours.update(family(proc.pid))
    now = processes()
    for pid, started in ours.items():
        if pid in now and now[pid][2] == started:  # else another process may have the number by now
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    proc.wait()
    proc.stdout.close()
    proc.stderr.close()


starting = False  # a program is being started, so no variable has it yet
ended_by = 0      # the signal that has ended this program meanwhile


def on_end(sig, _frame):
    global ended_by
    ended_by = sig
    if not starting:
        sys.exit(128 + sig)


def end_in_order():
    """By `timeout` or a lost terminal: what runs is ended and removed first."""
    for sig in signal.SIGTERM, signal.SIGHUP:
        signal.signal(sig, on_end)


def run(argv, env, timeout):
    """Returns (exit status, stdout, stderr, wall seconds); raises Failure when the time is up, on a machine that is not
    busy with something else."""
    global starting
    watch = Stopwatch()
    starting = True
    try:
        proc = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, start_new_session=True)
    except OSError as err:
        starting = False
        raise Failure(f"{argv[0]}: could not start: {err.strerror}") from err
    try:
        starting = False
        while True:
            if ended_by:
                sys.exit(128 + ended_by)
            try:
                out, err = proc.communicate(timeout=min(1, timeout))
                break
            except subprocess.TimeoutExpired:
                if watch.over(timeout):
                    end(proc)
                    raise Failure(f"no end after {timeout:g} s, killed: {' '.join(argv)}") from None
    except BaseException:
        end(proc)
        raise
    return proc.returncode, out, err, watch.wall()


def real_program(path):
    """(program, library folder): behind libtool's start script stands the program itself."""
    try:
        with open(path, "rb") as f:
            head = f.read(2048)
    except OSError as err:
        raise Failure(f"{path}: {err.strerror}; build it first") from err
    folder, name = os.path.split(os.path.abspath(path))
    hidden = os.path.join(folder, ".libs", name)
    if head.startswith(b"#!") and b"libtool" in head and os.path.exists(hidden):
        return hidden, True
    return path, False


class Library:
    """One MPI library: a launcher, and programs built against it."""

    def __init__(self, name, cc, launcher, folder, lib_folder=None):
        self.name, self.cc, self.folder = name, cc, folder
        self.launcher = launcher.split()
        self.env = dict(os.environ)
        self.lib_folder = lib_folder
        self.kind = "other"

    def missing(self):
        """What is not installed, or None; finds out the launcher's kind."""
        for tool in (self.cc, self.launcher[0]):
            if tool and not shutil.which(tool):
                return f"{tool} not found"
        self.launcher[0] = shutil.which(self.launcher[0])
        path, wrapped = real_program(self.launcher[0])
        if wrapped:
            self.launcher[0] = path
        if self.lib_folder:
            old = self.env.get("LD_LIBRARY_PATH")
            self.env["LD_LIBRARY_PATH"] = self.lib_folder + (":" + old if old else "")
        _, out, err, _ = run(self.launcher + ["--version"], self.env, 20)
        if "Open MPI" in out + err or "OpenRTE" in out + err:
            self.kind = "openmpi"
            self.env["OMPI_ALLOW_RUN_AS_ROOT"] = self.env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        elif "HYDRA" in out + err:
            self.kind = "mpich"
        elif "Intel(R) MPI" in out + err:
            self.kind = "impi"
        return None

    def build(self, programs):
        """Compiles what is older than its sources; without a compiler all is there already."""
        if not self.cc:
            return
        os.makedirs(self.folder, exist_ok=True)
        newest = max(os.path.getmtime(p) for p in glob.glob(HERE + "/*.[ch]"))
        objects = [os.path.join(self.folder, c + ".o") for c in COMMON]
        objects.append(self.no_kernels(newest))
        for name, obj in zip(COMMON, objects):
            self.compile(["-c", f"{HERE}/{name}.c"], obj, newest)
        for name in programs:
            self.compile([f"{HERE}/{name}.c"] + objects + ["-lpthread", "-lm", "-ldl"],
                         os.path.join(self.folder, name), newest)

    def no_kernels(self, newest):
        """--limits of devices takes its kernels from a file that nvcc's images are made into; here
        it is empty, and those limits are left out."""
        base = os.path.join(self.folder, "limits_image")
        run([sys.executable, TOP + "/runtime/gpu/embed.py", base + ".c"], self.env, 20)
        self.compile(["-c", base + ".c"], base + ".o", newest)
        return base + ".o"

    def compile(self, args, output, newest):
        if os.path.exists(output) and os.path.getmtime(output) > newest:
            return
        status, _, err, _ = run([self.cc] + CFLAGS + args + ["-o", output], self.env, 120)
        if status:
            raise Failure(f"{self.cc} failed for {output}:\n{err[-2000:]}")

    def program(self, name):
        return real_program(os.path.join(self.folder, name))[0]

    def placement(self, bind):
        """`core`: each rank its own core; `none`: more ranks than cores."""
        if self.kind == "mpich":
            return ["-bind-to", "core" if bind == "core" else "none"]
        if self.kind == "impi":
            return ["-genv", "I_MPI_PIN", "1" if bind == "core" else "0"]
        if bind == "core":
            return ["--bind-to", "core"]
        return ["--bind-to", "none", "--oversubscribe"]

    def start(self, name, args, ranks, bind, timeout):
        argv = (self.launcher + ["-n", str(ranks)] + self.placement(bind) + [self.program(name)]
                + args)
        status, out, err, wall = run(argv, self.env, timeout)
        if status:
            tail = "\n".join((out + err).strip().splitlines()[-8:])
            raise Failure(f"exit status {status}: {' '.join(argv)}\n{tail}")
        return out, wall


    def version(self, timeout):
        """MPI_Get_library_version of the library that programs really run with."""
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
            path = os.path.join(folder, "out.json")
            self.start(VERSION_PROGRAM, ["-i", "1", "-x", "0", "--json", path], 2, "none", timeout)
            with open(path) as f:
                return " ".join(json.load(f)["mpi_library"].partition(",")[0].split())


def weft_library(builddir, prefix):
    """Ours, from the build tree or as installed."""
    if builddir:
        top = os.path.abspath(builddir)
        return Library("weft", None, top + "/mpirun", top + "/test/bench", top + "/.libs")
    return Library("weft", None, prefix + "/bin/mpirun", prefix + "/libexec/weft")


def warn(text):
    print(text, file=sys.stderr, flush=True)
