# SPDX-License-Identifier: BSD-3-Clause
"""Point to point in the table of bench-gpu: its programs and lines."""
import statistics

from bench_gpu_table import KIB, MIB, Row, Run, size_text


class InitRun(Run):
    """osu_init as it is and without GPUs, in pairs of changing order; the first start only warms up.
    Single starts differ by a quarter, so a ratio to 0.03 needs 60 pairs."""

    def __init__(self, key, pairs):
        super().__init__(key, "osu_init", "", weft=True)
        self.pairs = pairs

    def start(self, lib, opts):
        have, off = [], []
        self.with_env(lib, opts, {})
        for i in range(self.pairs):
            both = [(have, {}), (off, {"WEFT_GPU": "off"})]
            for times, env in both if i % 2 else both[::-1]:
                times.append(self.with_env(lib, opts, env)[None]["avg_ms"])
        return {None: {"avg_ms": statistics.median(have), "off_ms": statistics.median(off)},
                "gpu": {}, "note": ""}


def make_runs(opts):
    """All programs of a turn. """
    big = opts.big
    # A device that was idle starts at a fifth of its clock; 20 windows of 64 KiB take 1 ms.
    lat, bw = ("-i 20 -x 5", "-i 1 -x 1 -W 4") if opts.tiny else \
              ("-i 1000 -x 1000", "-i 400 -x 400 --seconds 0.05") if opts.quick else \
              ("-i 2000 -x 2000", "-i 1000 -x 1000 --seconds 0.25")
    host = "-i 200 -x 20" if opts.tiny else "-i 20000 -x 1000 --repeat 5"
    inits = 1 if opts.tiny else 5 if opts.quick else 21
    sizes = f"-m {64 * KIB}:{big} --step 16"
    vector = f"-T mpi_double -m {4 * MIB}:{4 * MIB} -D"
    cuda = "-d cuda --limits"
    return [
        Run("lat", "osu_latency", f"{cuda} -m 8:{MIB} --step 2 {lat} D D", gpus=2),
        Run("launch", "osu_latency", f"{cuda} -m 8:8 {lat} D D", gpus=2, weft=True,
            env={"WEFT_GPU_LINGER_US": "0"}),
        Run("bw", "osu_bw", f"{cuda} {sizes} {bw} D D", gpus=2),
        Run("bibw", "osu_bibw", f"{cuda} {sizes} {bw} D D", gpus=2),
        Run("same_bw", "osu_bw", f"{cuda} --same-gpu -m {big}:{big} {bw} D D"),
        Run("same_lat", "osu_latency", f"{cuda} --same-gpu -m 8:8 {lat} D D"),
        Run("hh", "osu_latency", f"--limits -m 8:8 {host}"),
        Run("hh_touch", "osu_latency", f"--limits -m 8:8 --touch-gpu {host}"),
        Run("dh", "osu_latency", f"{cuda} -m 8:8 {lat} D H"),
        Run("hd", "osu_latency", f"{cuda} -m 8:8 {lat} H D"),
        Run("plain", "osu_bw", f"{vector} cont -d cuda {bw} D D", gpus=2),
        Run("vector", "osu_bw", f"{vector} vect:2048:1024 -d cuda {bw} D D", gpus=2),
        InitRun("init", inits),
        Run("mm", "osu_bw", f"-d cuda -m {MIB}:{MIB} {bw} M M"),
        Run("md", "osu_bw", f"-d cuda -m {MIB}:{MIB} {bw} M D"),
        Run("pairs", "osu_mbw_mr", f"-d cuda -m {MIB}:{big} --step 64 {bw} D D", gpus=4, ranks=4),
    ]


def latency(run_key, size=8):
    return lambda d: d[run_key][size]["latency_us"]


def rate(run_key, size):
    return lambda d: d[run_key][size]["bandwidth_mb_s"] / 1e3


def engine(run_key, size, scale=1.0):
    return lambda d: d[run_key][size]["limit"] * scale or None


def link(run_key):
    """The best that the copy engines do at any size: what the link carries."""
    return lambda d: max(r["limit"] for k, r in d[run_key].items() if isinstance(k, int)) / 1e3


def resident(d):
    """A resident kernel signalled by the host, and a hop to the other device."""
    gpu = d["lat"]["gpu"]
    both = gpu.get("round_us") and gpu.get("hop_us")
    return gpu["round_us"] + gpu["hop_us"] if both else None


def make_rows(opts):
    big = opts.big
    rows = [
        Row("lat_8", "osu_latency D D 8 B, lingering kernel", "us", "lat", latency("lat"), resident,
            3.3, published=(14.7, 8.05)),
        Row("lat_8_launch", "osu_latency D D 8 B, by launch", "us", "launch", latency("launch"),
            engine("launch", 8), 7, published=(14.7, 8.05), weft=True),
    ]
    for size, goal, published in ((8 * KIB, 4.5, (7.95, 8.3)), (64 * KIB, 6.5, (7.97, 8.4)),
                                  (MIB, 10, (13.6, 11.4))):
        rows.append(Row(f"lat_{size}", f"osu_latency D D {size_text(size)}", "us", "lat",
                        latency("lat", size), engine("lat", size), goal, published=published))
    for name, goals, published in (
            ("bw", (80, 300, 385), ((19.8, 19.8), (175, 177), (387, 387))),
            ("bibw", (150, 560, 755), ((40, 39), (331, 328), (730, 729)))):
        for size, label, goal, pub in zip((64 * KIB, MIB, big), (64 * KIB, MIB, "big"), goals,
                                          published):
            rows.append(Row(f"{name}_{label}", f"osu_{name} D D {size_text(size)}", "GB/s", name,
                            rate(name, size), link(name), goal,
                            published=(None, None) if opts.tiny and label == "big" else pub))
    return rows + [
        Row("same_bw", f"osu_bw D D in one GPU, {size_text(big)}", "GB/s", "same_bw",
            rate("same_bw", big), engine("same_bw", big, 1e-3), of_limit=0.8),
        Row("hh", "osu_latency H H 8 B", "us", "hh", latency("hh"), engine("hh", 8), 0.17,
            published=(0.21, 0.53)),
        Row("hh_touch", "the same with CUDA in use (limit: without)", "us", "hh hh_touch",
            latency("hh_touch"), latency("hh"), of_limit=1.05),
        Row("dh", "osu_latency D H 8 B", "us", "dh", latency("dh"), engine("dh", 8), 9),
        Row("hd", "osu_latency H D 8 B", "us", "hd", latency("hd"), engine("hd", 8), 9),
        Row("vector", "osu_bw D D vector 512 x 8 KiB (limit: contiguous)", "GB/s", "vector plain",
            rate("vector", 4 * MIB), rate("plain", 4 * MIB), of_limit=0.6),
        Row("init", "MPI_Init with CUDA (limit: WEFT_GPU=off)", "ms", "init",
            lambda d: d["init"][None]["avg_ms"], lambda d: d["init"][None]["off_ms"],
            of_limit=1.1, weft=True),
        Row("same_lat", "for information: osu_latency D D in one GPU, 8 B", "us", "same_lat",
            latency("same_lat"), engine("same_lat", 8)),
        Row("mm", "for information: osu_bw M M 1 MiB", "GB/s", "mm", rate("mm", MIB)),
        Row("md", "for information: osu_bw M D 1 MiB", "GB/s", "md", rate("md", MIB)),
        Row("pairs", f"for information: osu_mbw_mr D D, 2 pairs, {size_text(big)}", "GB/s", "pairs",
            rate("pairs", big)),
    ]
