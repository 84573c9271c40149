#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The back end of PyTorch (python/torch) under each way to start it: torchrun, mpirun, mpirun over several hosts, processes
that meet by a file.  Skipped where torch is not installed.  test/rig/torch installs torch and runs this, too.

TEST_TORCH_PYTHON names the Python that has torch; default: the one that runs this."""

import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("TEST_BUILDDIR") or os.getcwd()
SCALE = float(os.environ.get("TEST_TIMEOUT_SCALE", "1"))
PYTHON = os.environ.get("TEST_TORCH_PYTHON") or sys.executable
MPIRUN = os.environ.get("TEST_MPIRUN") or os.path.join(BUILD, "mpirun")
TORCHRUN = [PYTHON, "-m", "torch.distributed.run", "--standalone"]
OPS = [PYTHON, os.path.join(HERE, "ops.py")]
CASES = "allreduce coalesced modes broadcast_and_reduce gathers reduce_scatters alltoalls messages works groups named splits sparse threads wrong".split()
LATE = "missing late explained aborted absent".split()  # after these, MPI cannot be finalized, which mpirun reports

FILE_STORE = """if 1:
    import os, sys
    import torch, torch.distributed as dist
    import weft_torch
    rank, size, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("cpu:weft", init_method="file://" + path, rank=rank, world_size=size)
    t = torch.ones(3)
    dist.all_reduce(t)
    assert t.tolist() == [size] * 3, t
    dist.destroy_process_group()
    dist.init_process_group("weft", init_method="file://" + path + "2", rank=rank, world_size=size)
    dist.all_reduce(t)
    assert t.tolist() == [size * size] * 3, t
    print("both groups worked")
"""
DEATH = """if 1:
    import os, signal, sys
    import torch, torch.distributed as dist
    import weft_torch
    dist.init_process_group("weft", init_method="file://" + sys.argv[3], rank=int(sys.argv[1]), world_size=int(sys.argv[2]))
    t = torch.ones(3)
    dist.all_reduce(t)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.all_reduce(t)
        dist.all_reduce(t)
    except dist.DistBackendError as e:
        print(f"rank {dist.get_rank()} got an error: {e}", flush=True)
"""
RESTART = """if 1:
    import os, signal, sys
    import torch, torch.distributed as dist
    import weft_torch
    dist.init_process_group("weft")
    t = torch.ones(3)
    dist.all_reduce(t)
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if attempt == 0 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)  # while the others wait for it
    if attempt == 1 and dist.get_rank() == 0:
        sys.exit(3)
    dist.all_reduce(t)
    assert t.tolist() == [9.0] * 3, t
    dist.destroy_process_group()
    sys.stdout.write("worked after " + os.environ["TORCHELASTIC_RESTART_COUNT"] + " restarts\\n")
"""
PARTIAL = """if 1:
    import sys
    import torch, torch.distributed as dist
    import weft_torch
    dist.init_process_group("gloo")
    ranks = list(range(1, dist.get_world_size()))
    if dist.get_rank():
        try:
            dist.new_group(ranks, backend="weft", use_local_synchronization=True)
        except RuntimeError as e:
            sys.stdout.write(str(e) + "\\n")
"""


def environment():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PMIX_", "TORCHELASTIC_"))}
    parts = [os.path.join(ROOT, "python", "torch"), env.get("PYTHONPATH")]
    env.update(PYTHONPATH=os.pathsep.join(filter(None, parts)), PATH=os.path.dirname(MPIRUN) + os.pathsep + env["PATH"],
               OMP_NUM_THREADS="1", XDG_CACHE_HOME=os.environ.get("TEST_TORCH_CACHE") or env.get("XDG_CACHE_HOME", ""))
    return env


def run(*command, code=0, more=None):
    with tempfile.TemporaryDirectory() as tmp:  # torchrun leaves files there if a process fails
        r = subprocess.run(list(map(str, command)), env=dict(environment(), TMPDIR=tmp, **(more or {})), capture_output=True,
                           text=True, timeout=240 * SCALE)
    if code is not None and r.returncode != code:
        raise AssertionError(f"{command} ended with {r.returncode}\n{r.stdout}\n{r.stderr}")
    return r


def check(condition, r):
    if not condition:
        raise AssertionError(f"exit {r.returncode}\n{r.stdout}\n{r.stderr}")


def passed(r, size, cases=CASES):
    for case in cases:
        check(f"passed {case} with {size} ranks" in r.stdout, r)


def test_torchrun():
    for size in (1, 2, 5):
        passed(run(*TORCHRUN, "--nproc-per-node", size, *OPS[1:]), size, CASES + LATE)


def test_mpirun():
    passed(run(MPIRUN, "-n", 3, *OPS, *CASES), 3)


def test_mpirun_over_hosts():
    r = run(MPIRUN, "--rsh", os.path.join(ROOT, "test", "launch", "rsh_here"), "-H", "n0:1,n1:2", "-x", "MASTER_ADDR=127.0.0.1",
            *OPS, *CASES)
    passed(r, 3)


def run_alone(script, size):
    """Starts the ranks without a launcher that would end them; exit statuses, outputs, errors."""
    with tempfile.TemporaryDirectory() as d:
        ranks = [subprocess.Popen([PYTHON, "-c", script, str(r), str(size), os.path.join(d, "store")], env=environment(),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in range(size)]
        texts = [p.communicate(timeout=240 * SCALE) for p in ranks]
        return [(p.returncode, *text) for p, text in zip(ranks, texts)]


def test_file_store():
    """Without torchrun and without ports; a second init_process_group in the same processes."""
    for code, out, err in run_alone(FILE_STORE, 3):
        if code or "both groups worked" not in out:
            raise AssertionError(f"exit {code}\n{out}\n{err}")


def test_death():
    """The survivors get an error, not a hang, without a launcher that ends them."""
    results = run_alone(DEATH, 3)
    for rank in (0, 2):
        code, out, err = results[rank]
        if f"rank {rank} got an error: weft: allreduce" not in out:
            raise AssertionError(f"exit {code}\n{out}\n{err}")


def test_restart():
    """torchrun restarts the group twice: a rank is killed, and rank 0 ends; all attempts use one store."""
    r = run(*TORCHRUN, "--nproc-per-node", 3, "--max-restarts", 2, "--no-python", PYTHON, "-c", RESTART)
    check(r.stdout.count("worked after 2 restarts") == 3, r)


def test_device():
    """CUDA tensors over the fake driver, where torch knows CUDA tensors and the build tree has the driver."""
    driver = os.path.join(BUILD, "test", "fake", "gpu")
    if not os.path.exists(os.path.join(driver, "libcuda.so.1")):
        print("# no fake CUDA driver here: not run")
        return
    cases = "collectives order streams messages coalesced groups graphs futures".split()
    paths = os.pathsep.join(filter(None, [driver, os.environ.get("LD_LIBRARY_PATH")]))
    with tempfile.TemporaryDirectory() as d:
        run(PYTHON, os.path.join(HERE, "device.py"), "--build", d)
        more = dict(LD_LIBRARY_PATH=paths, WEFT_GPU="on", FAKE_CUDA_DEVICES="4")
        for size in (2, 3):
            passed(run(*TORCHRUN, "--nproc-per-node", size, os.path.join(HERE, "device.py"), d, more=more), size, cases)


def test_partial():
    r = run(*TORCHRUN, "--nproc-per-node", 3, "--no-python", PYTHON, "-c", PARTIAL)
    check(r.stdout.count("has 2 of 3 processes, but all must start MPI together") == 2, r)


def main():
    wanted = sys.argv[1:]
    if subprocess.run([PYTHON, "-c", "import torch.distributed as d; assert d.is_available()"], capture_output=True).returncode:
        print(f"1..0 # SKIP {PYTHON} has no torch with torch.distributed; test/rig/torch installs it")
        sys.exit(77)
    tests = [f for name, f in globals().items() if name.startswith("test_") and (not wanted or name in wanted)]
    bad = 0
    for i, test in enumerate(tests, 1):
        begin = time.monotonic()
        try:
            test()
            result = "ok"
        except (AssertionError, subprocess.TimeoutExpired) as e:
            print("\n".join("# " + line for line in str(e).splitlines()))
            result, bad = "not ok", bad + 1
        print(f"{result} {i} - {test.__name__} # {time.monotonic() - begin:.1f} s", flush=True)
    print(f"1..{len(tests)}")
    sys.exit(1 if bad else 0)


main()
