# SPDX-License-Identifier: BSD-3-Clause
"""What a job costs each process as it grows: test/bench/job_cost over hosts that this machine plays (no rights needed; the
network is loopback).  Times say how the launcher fares on this machine, which runs all ranks on its few cores; memory is the
same on any.  A line through the memory of the measured sizes says what 100,000 ranks would take."""

import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAR = 100_000           # ranks that are extrapolated to


def job(build, ranks, hosts, more=()):
    """What job_cost says; None and a line when it does not run."""
    each = (ranks + hosts - 1) // hosts
    names = ",".join(f"n{i}:{min(each, ranks - i * each)}" for i in range(hosts))
    words = [f"{build}/mpirun", "--rsh", f"{TOP}/test/launch/rsh_here", "-H", names, "--bind-to", "none",
             "--set", "spin_us=0", *more, "-n", str(ranks), f"{build}/test/bench/job_cost", str(hosts)]
    try:
        r = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        print(f"{ranks} ranks: no end after 300 s")
        return None
    if r.returncode:
        print(f"{ranks} ranks: status {r.returncode}: {r.stderr[-500:]}")
        return None
    return json.loads(r.stdout.strip().splitlines()[-1])


def line_through(points):
    """Least squares: (at zero, slope)."""
    n, xs, ys = len(points), [p[0] for p in points], [p[1] for p in points]
    mx, my = sum(xs) / n, sum(ys) / n
    over = sum((x - mx) ** 2 for x in xs)
    slope = sum((x - mx) * (y - my) for x, y in points) / over if over else 0.0
    return my - slope * mx, slope


def peers(build):
    """Memory of a connection, at the one of two processes that has many."""
    got = job(build, 34, 34)
    if not got:
        return 1
    print(f"\nmemory of a connected peer over TCP ({got['peers']} of them): {got['peer']:.0f} bytes and {got['peer_fds']:.1f} "
          f"descriptors after small messages, {got['peer_large']:.0f} and {got['peer_large_fds']:.1f} after large ones "
          "(of malloc, the launcher's library included; the kernel's sockets are not)")
    return 0


def scale(build, sizes, hosts=4):
    print(f"# MPI_Init over {hosts} hosts played by this machine; means over all ranks, KiB\n"
          f"{'ranks':>7}{'init ms':>10}{'slowest':>10}{'heap':>10}{'most':>10}{'resident':>10}")
    rows = []
    for n in sizes:
        got = job(build, n, hosts)
        if not got:
            return 1
        rows.append(got)
        print(f"{n:>7}{got['init_ms']:>10.1f}{got['init_ms_most']:>10.1f}{got['heap'] / 1024:>10.1f}"
              f"{got['heap_most'] / 1024:>10.1f}{got['rss'] / 1024:>10.1f}", flush=True)
    for what in "heap", "rss":
        base, slope = line_through([(g["ranks"], g[what]) for g in rows])
        print(f"# {what}: {base / 1024:.0f} KiB and {slope:.0f} bytes a rank of the job; at {FAR} ranks "
              f"{(base + slope * FAR) / 2**20:.1f} MiB a process")
    return 0


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
    if len(sys.argv) > 2:
        return scale(build, [int(n) for n in sys.argv[2].split(",")])
    return peers(build)


if __name__ == "__main__":
    sys.exit(main())
