# SPDX-License-Identifier: BSD-3-Clause
"""What the tests over several hosts share.  A test file calls main(); each of its functions test_* finds the rig in
`rig()`, with each host's own /tmp and /dev/shm, and starts mpirun on host 0.  After each test nothing may be left on any
host: no process, no file in /tmp or /dev/shm, and all links are as they were."""

import os
import signal
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "launch"))
import hosts_link
import hosts_rig
from harness import BUILD, MPIRUN, RANK, SCALE, Result, Skip, Stopwatch, check, communicate, wait_for
from hosts_rig import DIR

PROGRAM = os.path.join(BUILD, "test", "rig", "hostrank")
WEFTD = os.path.join(os.path.dirname(MPIRUN), "weftd")
# For failures that only time shows: short enough for a test, and what is asserted allows for a busy machine.
QUICK_NET = ["--set", f"net_timeout_s={int(4 * SCALE)}"]
QUICK = [*QUICK_NET, "--set", f"host_timeout_s={int(4 * SCALE)}"]
QUICK_S = 4 * SCALE
_rig = None


def rig():
    return _rig


def host(i):
    return _rig.hosts[i]


def link(i, *what, net=0):
    hosts_link.change(host(i), net, what)


def names(*indices, slots=None):
    """For -H: rig0:2,rig1:2."""
    return ",".join(f"rig{i}" + (f":{slots}" if slots else "") for i in indices or range(len(_rig.hosts)))


def start(*args, on=0, env=None, **more):
    """Starts mpirun on a host and returns at once, its output in pipes."""
    more.setdefault("stdin", subprocess.DEVNULL)
    words = [MPIRUN, "--rsh", f"ssh -F {DIR}/ssh_config", *map(str, args)]
    return host(on).popen(*words, cwd=BUILD, env=_rig.environ(**(env or {})), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True, **more)


def finish(p, timeout=20, text=None, began=None):
    """Waits for a started mpirun; one that does not end in time is killed and fails the test."""
    began = began or Stopwatch()
    try:
        out, err = communicate(p, timeout * SCALE, text)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, err = p.communicate()
        raise AssertionError(f"{p.args[12:]} did not end within {timeout * SCALE:g} s\n--- stdout\n{out[-2000:]}\n"
                             f"--- stderr\n{err[-3000:]}")
    return Result(p.returncode, out, err, began)


def mpirun(*args, timeout=20, text=None, **more):
    began = Stopwatch()
    if text is not None:
        more["stdin"] = subprocess.PIPE
    return finish(start(*args, **more), timeout, text, began)


def read_until(p, word):
    """Reads the output of a started mpirun up to a line with this word; all that was read."""
    got = ""
    while word not in got:
        line = p.stdout.readline()
        if not line:
            raise AssertionError(f"ended before it said '{word}':\n{got}\n{p.stderr.read()}")
        got += line
    return got


def started(word, *args):
    """A job with short times that has said this word.  Agents have as short a time to start as a host may be silent later, which
    on a busy machine is too short now and then: then the start, which is not what is tested, is repeated."""
    for attempt in range(4):
        p = start(*QUICK, *args)
        try:
            read_until(p, word)
            return p
        except AssertionError as e:
            p.wait(60 * SCALE)
            if attempt == 3 or "no answer within" not in str(e):
                raise


def messages(r):
    """What mpirun itself said, a message a line."""
    return [line for line in r.err.splitlines() if line.startswith("mpirun:")]


def says(r, *words):
    """One message of mpirun has all these words."""
    for line in messages(r):
        if all(str(w) in line for w in words):
            return
    raise AssertionError(f"no message of mpirun has {words}\n{r}")


def pids(i, word):
    """Processes on host i with this word in their command line (a whole word, or the end of a path)."""
    found = []
    for pid in _rig.processes(host(i)):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
            with open(f"/proc/{pid}/stat") as f:
                state = f.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z" and any(w == word or w.endswith("/" + word) for w in words):
            found.append(pid)
    return found


def left_behind():
    """What is still there, in words."""
    found = []
    for h in _rig.hosts:
        for pid in _rig.processes(h):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    found.append(f"{h.name}: process {pid} {f.read().replace(bytes(1), b' ').decode(errors='replace')[:150]}")
            except OSError:
                continue
        for path in ("/dev/shm", "/tmp"):
            top = f"/proc/{h.pid}/root{path}"
            keep = {k[len(path) + 1:].split("/")[0] for k in _rig.keep if k.startswith(path + "/")}
            found += [f"{h.name}: {path}/{name}" for name in sorted(set(os.listdir(top)) - keep)]
    return found


def clean_up():
    """Removes what is left, after it was reported."""
    for h in _rig.hosts:
        for pid in _rig.processes(h):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        h.run("sh", "-c", "rm -rf /dev/shm/*; mount | grep -q '/etc/.* rig' ; true")
        for k in range(_rig.nets):
            hosts_link.Link(h, k).clear()
            hosts_link.Link(h, k).heal()


def hide(i, path):
    """On host i the file does not exist any more.  Returns what makes it visible again."""
    h, folder = host(i), os.path.dirname(path)
    work = f"{DIR}/hide.{i}"
    os.makedirs(work, exist_ok=True)
    h.run("sh", "-ec", 'mount -t tmpfs tmpfs "$0" && mkdir "$0/up" "$0/work" && mount -t overlay overlay -o '
          'lowerdir="$1",upperdir="$0/up",workdir="$0/work" "$1" && rm "$2"', work, folder, path)
    return lambda: h.run("umount", "-l", folder, work)


def replace(i, path, by):
    """On host i another file stands at this path."""
    h = host(i)
    h.run("mount", "--bind", by, path)
    return lambda: h.run("umount", "-l", path)


def main(module, **more):
    """Runs the tests of a module, those named on the command line or all, over one rig.  more: of hosts_rig.Rig."""
    global _rig
    try:
        hosts_rig.enter()
    except hosts_rig.Unavailable as e:
        print(f"1..0 # SKIP {e}")
        sys.exit(77)
    tests = [(n, f) for n, f in vars(module).items() if n.startswith("test_")]
    wanted, failed, began = sys.argv[1:], 0, time.monotonic()
    if "-l" in wanted:
        print("\n".join(n for n, f in tests))
        return
    tests = [t for t in tests if not wanted or t[0] in wanted]
    _rig = make(**more)
    print(f"1..{len(tests)}")
    for i, (name, function) in enumerate(tests, 1):
        failed += not run_one(i, name, function)
    print(f"# {time.monotonic() - began:.1f} s")
    sys.stdout.flush()
    sys.exit(1 if failed else 0)


def make(**more):
    more.setdefault("keep", [BUILD, os.path.dirname(os.path.dirname(HERE))])
    return hosts_rig.Rig(private_tmp=True, **more)


def remake(**more):
    """Another rig in place of the present one, for a test that needs other hosts."""
    global _rig
    _rig.stop()
    _rig = make(**more)


def run_one(i, name, function):
    began, why = time.monotonic(), None
    try:
        function()
        ok = True
    except Skip as e:
        ok, why = True, f" # SKIP {e}"
    except (AssertionError, RuntimeError, OSError, subprocess.SubprocessError):
        ok = False
        print("".join("# " + line for line in traceback.format_exc().splitlines(True)))
    # Agents may need a moment: they leave after mpirun, which does not wait for one that does not answer.
    wait_for(lambda: not left_behind(), 3)
    if left := left_behind():
        ok = False
        print("".join(f"# left behind: {what}\n" for what in left[:20]), end="")
        clean_up()
    print(f"{'ok' if ok else 'not ok'} {i} - {name}{why or f' ({time.monotonic() - began:.1f} s)'}", flush=True)
    return ok
