# SPDX-License-Identifier: BSD-3-Clause
"""Collectives in the table of bench-gpu: blocking call beside NCCL's call and synchronisation, from
the same loop.  Each program takes its medians itself (--repeat), so it is started once.  Bus
bandwidth is NCCL's: bytes moved a second as if each had crossed the links as often as the best
algorithm must."""
from bench_gpu_table import KIB, MIB, Row, Run, size_text

BIG, HUGE, LONG = 256 * MIB, 1024 * MIB, 64 * MIB
SIZES = (8, 32 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, LONG, BIG, HUGE)
THREE = (8, MIB, BIG)
PAIR = ("alltoall", "allgather", "reduce_scatter", "bcast", "reduce")
# Goals by ranks and size: us, from BIG on GB/s.  Where there is none: ahead of NCCL.
GOALS = {
    2: {"allreduce": {8: 4.5, MIB: 15, BIG: 355}},
    4: {"allreduce": {8: 4.5, 32 * KIB: 9, 256 * KIB: 14, MIB: 18, 4 * MIB: 32, 16 * MIB: 85,
                      LONG: 290, BIG: 360, HUGE: 370},
        "alltoall": {8: 8, MIB: 18}},
}
LAUNCH_GOAL = {4: 9}
PUBLISHED = {
    2: {"allreduce": {8: (33.5, None), MIB: (622, None)}},
    4: {"allreduce": {8: (35, 17), 32 * KIB: (68, 41), 256 * KIB: (227, 134), MIB: (751, 375),
                      4 * MIB: (6954, 810), 16 * MIB: (28373, 2522)},
        "alltoall": {8: (31, None), MIB: (42, None)}},
}
# type, operation, name, whether NCCL has it
TYPES = (("mpi_float", "sum", "float sum", True), ("mpi_double", "sum", "double sum", True),
         ("mpi_int8", "sum", "int8 sum", True), ("mpi_bf16", "sum", "bf16 sum", True),
         ("mpi_float", "max", "float max", True),
         ("mpi_float_int", "minloc", "float-int MINLOC", False))
LIMITED = ("scan", "allgatherv", "alltoallv")


def cut(size, opts):
    """--tiny: sizes that a test can afford; the rows keep their names."""
    return min(size, MIB) if opts.tiny else size


def listed(sizes, opts):
    return "--sizes " + ",".join(str(n) for n in sorted({cut(n, opts) for n in sizes}))


def make_runs(opts, nccl):
    """All programs; `nccl`: its library was found."""
    time = "-i 3 -x 1" if opts.tiny else "--seconds 0.2 --repeat 3" if opts.quick else \
        "--seconds 0.6 --repeat 5"
    always = f"-d cuda -M 5G {time} "
    runs = [Run("link", "osu_bw", f"-d cuda --limits -m {cut(LONG, opts)}:{cut(LONG, opts)} "
                "-i 2 -x 1 -W 4 D D", gpus=2, weft=True, once=True)]

    def add(ranks, key, program, args, **more):
        runs.append(Run(f"{key}_{ranks}", program, always + args, gpus=ranks, ranks=ranks, once=True,
                        **more))

    def both(ranks, key, name, args):
        add(ranks, key, "osu_" + name, args)
        if nccl:
            add(ranks, key + "_nccl", "osu_nccl_" + name, args, weft=True)

    for ranks in (2, 4):
        both(ranks, "allreduce", "allreduce", "-T mpi_float " + listed(SIZES, opts))
        add(ranks, "launch", "osu_allreduce", "-T mpi_float -m 8:8", weft=True,
            env={"WEFT_GPU_LINGER_US": "0"})
        both(ranks, "in_place", "allreduce", "-l -T mpi_float " + listed((8, MIB, LONG, BIG), opts))
        for name in PAIR:
            both(ranks, name, name, "-T mpi_float " + listed(THREE, opts))
        for kind, op, _, in_nccl in TYPES:
            args = f"-T {kind} -O {op} " + listed((LONG,), opts)
            add(ranks, f"{kind}_{op}", "osu_allreduce", args)
            if nccl and in_nccl:
                add(ranks, f"{kind}_{op}_nccl", "osu_nccl_allreduce", args, weft=True)
        for name in LIMITED:
            add(ranks, name, "osu_" + name, listed((8, BIG), opts))
        add(ranks, "persistent", "osu_allreduce_persistent", "-T mpi_float " + listed((8, MIB), opts))
        for where in ("cpu", "gpu"):
            add(ranks, f"overlap_{where}", "osu_iallreduce",
                f"-T mpi_float -t 8 -r {where} " + listed((MIB, LONG), opts))
    return runs


def latency(key, size):
    return lambda d: d[key][size]["latency_us"]


def bus_factor(name, ranks):
    """Bytes that cross a rank's link, for a message of one byte as osu_ counts it."""
    part = (ranks - 1) / ranks
    return {"allreduce": 2 * part, "reduce_scatter": part, "allgather": ranks - 1,
            "alltoall": ranks - 1, "bcast": 1, "reduce": 1}[name]


def bus_rate(key, name, ranks, size):
    """GB/s."""
    return lambda d: size * bus_factor(name, ranks) / d[key][size]["latency_us"] / 1e3


def link_us(nbytes):
    """What the copy engine takes for `nbytes` from one device to another."""
    return lambda d: nbytes / max(r["limit"] for k, r in d["link"].items() if isinstance(k, int))


def beside_row(ranks, run, name, size, opts, label):
    """One line of a program that NCCL has, too."""
    run_key, nccl_key, real = f"{run}_{ranks}", f"{run}_nccl_{ranks}", cut(size, opts)
    wide = size >= BIG

    def figure(key):
        return bus_rate(key, name, ranks, real) if wide else latency(key, real)

    plain = run == name
    goal = GOALS[ranks].get(name, {}).get(size) if plain else None
    published = PUBLISHED[ranks].get(name, {}).get(size, (None, None)) if plain else (None, None)
    return Row(f"{run}_{ranks}_{size}", f"{label} {size_text(size)}, {ranks} ranks",
               "GB/s" if wide else "us", run_key, figure(run_key), None, goal,
               beside=figure(nccl_key), beside_uses=nccl_key, published=published)


def type_rows(ranks, opts):
    size, base = cut(LONG, opts), f"mpi_float_sum_{ranks}"
    for kind, op, label, _ in TYPES:
        key, nccl_key = f"{kind}_{op}_{ranks}", f"{kind}_{op}_nccl_{ranks}"
        first = key == base
        yield Row(f"type_{key}", f"allreduce {label} {size_text(LONG)}" +
                  ("" if first else " (limit: float sum)") + f", {ranks} ranks", "us", key,
                  latency(key, size), None if first else latency(base, size),
                  limit_uses=base, of_limit=None if first else 1.1,
                  beside=latency(nccl_key, size), beside_uses=nccl_key)


def limited_rows(ranks, opts):
    """No NCCL: beside what the copy engine needs for what a rank has to receive."""
    for name in LIMITED:
        key = f"{name}_{ranks}"
        for size in (8, BIG):
            real = cut(size, opts)
            times = 1 if name == "scan" else ranks - 1
            yield Row(f"{key}_{size}", f"{name} {size_text(size)}, {ranks} ranks", "us", key,
                      latency(key, real), link_us(real * times) if size > 8 else None,
                      limit_uses="link")


def make_rows(opts):
    rows = []
    for ranks in (2, 4):
        rows += [beside_row(ranks, "allreduce", "allreduce", n, opts, "allreduce") for n in SIZES]
        launch = f"launch_{ranks}"
        rows.append(Row(launch, f"allreduce 8 B by launch, {ranks} ranks", "us", launch,
                        latency(launch, 8), None, LAUNCH_GOAL.get(ranks),
                        beside=latency(f"allreduce_nccl_{ranks}", 8),
                        beside_uses=f"allreduce_nccl_{ranks}"))
        rows += [beside_row(ranks, "in_place", "allreduce", n, opts, "allreduce in place")
                 for n in (8, MIB, LONG, BIG)]
        for name in PAIR:
            rows += [beside_row(ranks, name, name, n, opts, name) for n in THREE]
        rows += type_rows(ranks, opts)
        rows += limited_rows(ranks, opts)
        plain, started = f"allreduce_{ranks}", f"persistent_{ranks}"
        for n in (8, MIB):
            rows.append(Row(f"{started}_{n}", f"persistent allreduce {size_text(n)} (limit: plain), "
                            f"{ranks} ranks", "us", started, latency(started, n),
                            latency(plain, n), limit_uses=plain, of_limit=1))
        for where in ("cpu", "gpu"):
            key = f"overlap_{where}_{ranks}"
            for n in (MIB, LONG):
                rows.append(Row(f"{key}_{n}", f"iallreduce {size_text(n)} beside {where.upper()} "
                                f"work, 8 tests, {ranks} ranks", "%", key,
                                lambda d, k=key, z=cut(n, opts): d[k][z]["overlap_percent"]))
    return rows
