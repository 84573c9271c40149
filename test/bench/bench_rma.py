# SPDX-License-Identifier: BSD-3-Clause
"""Sections `rma_...` of compare: one-sided communication, with the goals that we set ourselves."""

TWO = "2 ranks on 2 cores"
SMALL = {"put": ("osu_put_latency", "-m 8:8"), "get": ("osu_get_latency", "-m 8:8"),
         "fop": ("osu_fop_latency", ""), "cas": ("osu_cas_latency", "")}
BULK = {"acc": ("osu_acc_latency", "-m 4K:1M --step 16 -T mpi_double -i 300"),
        "get_acc": ("osu_get_acc_latency", "-m 4K:1M --step 16 -T mpi_double -i 300")}
SYNCS = ("lock", "lock_all", "pscw", "fence")


def section(Case):
    """The cases, made from compare's class."""

    def case(key, title, program, args, quick, value="latency_us", better="lower", unit="us", **more):
        return Case("rma_" + key, f"{title}, {TWO}", program, 2, "core", args, quick, value, better,
                    unit, **more)

    found = [case(k, f"{p} and flush, 8 B", p, a + " -i 100000", a + " -i 5000",
                  want=lambda size: 0.5) for k, (p, a) in SMALL.items()]
    found += [case(f"put_{s}", f"osu_put_latency 8 B, {s}", "osu_put_latency",
                   f"-m 8:8 -s {s} -i 50000", f"-m 8:8 -s {s} -i 2000", want=lambda size: 0.7)
              for s in SYNCS]
    found += [case(k, f"{p} and flush, doubles", p, a, a) for k, (p, a) in BULK.items()]
    for k in ("put_bw", "get_bw"):
        found.append(case(k, "osu_" + k, "osu_" + k, "-m 64K:4M --step 4", "-m 64K:1M --step 4 -i 5",
                          "bandwidth_mb_s", "higher", "MB/s", want=lambda size: 1.3))
    found.append(case("put_create", "osu_put_latency on MPI_Win_create", "osu_put_latency",
                      "-m 8:64K --step 8 -w create -i 5000", "-m 8:4K --step 8 -w create -i 500"))
    return found + [all_ranks(Case, n) for n in (2, 16)]


def all_ranks(Case, ranks):
    keys = "lock exclusive lock_all flush pscw fence"
    return Case(f"rma_all{ranks}", f"put 8 B and its synchronisation, all of {ranks} ranks on 2 cores",
                "weft_bench_rma", ranks, "core" if ranks == 2 else "none",
                "300", "20", keys, "lower", "us",
                want=lambda row: 0.5 if row == "flush" else 0.7, source="stdout")
