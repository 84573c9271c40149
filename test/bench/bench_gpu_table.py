# SPDX-License-Identifier: BSD-3-Clause
"""The table of bench-gpu: programs that are started (Run), its lines (Row), what was measured
(Table), and how it is printed.  What is in it, point to point and collective, is said elsewhere."""
import json
import os
import statistics
import sys
import tempfile
import time

from bench_peers import Failure, warn

KIB, MIB = 1 << 10, 1 << 20
PUBLISHED = ("Open MPI 5.0.10 with UCX 1.22 and MPICH 5.0.1 with CUDA, measured once on 4 x H200 "
             "(NVLink, driver 580): constants, not of this run")


class Run:
    """A program as it is started once in each turn, for all the rows that use its figures."""

    def __init__(self, key, program, args, gpus=1, ranks=2, env=None, weft=False, once=False):
        self.key, self.program, self.args, self.ranks = key, program, args, ranks
        self.once = once      # the program repeats by itself; in the first turn only
        self.gpus = gpus      # fewer: skipped
        self.env = env or {}
        self.weft = weft      # says nothing about other libraries

    def start(self, lib, opts):
        """{size or None: row}, with the limits of kernels and flags under "gpu"."""
        return self.with_env(lib, opts, self.env)

    def with_env(self, lib, opts, env):
        saved = lib.env
        lib.env = {**saved, **env}
        try:
            return self.figures(lib, opts)
        finally:
            lib.env = saved

    def figures(self, lib, opts):
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
            path = os.path.join(folder, "out.json")
            argv = ["--json", path] + self.args.split()
            out, _ = lib.start(self.program, argv, self.ranks, opts.bind, opts.timeout)
            try:
                with open(path) as f:
                    got = json.load(f)
            except (OSError, ValueError) as err:
                raise Failure(f"{self.program} wrote no figures: {err}\n{out[-500:]}") from None
        data = {row.get("size"): row for row in got["rows"]}
        data["gpu"] = got.get("gpu_limits", {})
        data["note"] = got.get("gpu_limits_note", "")
        return data


class Row:
    """A line of the table.  `ours` and `limit` take {run key: figures} of one turn and library."""

    def __init__(self, key, title, unit, uses, ours, limit=None, goal=None, **more):
        self.key, self.title, self.unit, self.uses = key, title, unit, uses.split()
        self.ours, self.limit, self.goal = ours, limit, goal
        self.of_limit = more.get("of_limit")    # the goal is so many times the limit
        self.limit_uses = more.get("limit_uses", uses).split()
        self.beside = more.get("beside")        # NCCL's figure of the same run, and the runs
        self.beside_uses = more.get("beside_uses", "").split()  # that measure it; they may be missing
        self.ahead = self.beside and goal is None and not self.of_limit  # that is the goal
        self.published = more.get("published", (None, None))
        self.weft = more.get("weft", False)
        self.lower = more.get("lower", unit in ("us", "ms"))

    def wants(self):
        sign = "<=" if self.lower else ">="
        if self.goal is not None:
            return f"{sign} {self.goal:g}"
        if self.of_limit:
            return f"{sign} {self.of_limit:g} x limit"
        return f"{sign} NCCL" if self.ahead else ""

    def met(self, ours, ratio, beside):
        """`ratio`: ours / limit, the median over the turns."""
        have, want = ((ours, self.goal) if self.goal is not None else
                      (ours, beside) if self.ahead else (ratio, self.of_limit))
        if have is None or want is None:
            return None
        return have <= want if self.lower else have >= want


def size_text(n):
    if n >= 1024 * MIB:
        return f"{n // (1024 * MIB)} GiB"
    return f"{n // MIB} MiB" if n >= MIB else f"{n // KIB} KiB" if n >= KIB else f"{n} B"


class Table:
    """What was measured: {library: {run: [figures of each turn, or None]}}."""

    def __init__(self, libs, runs, ngpus, opts):
        self.libs, self.opts = libs, opts
        self.skipped, self.failures = [], []
        self.figures = {lib.name: {} for lib in libs}
        self.runs = []
        for r in runs:
            if r.gpus > ngpus:
                self.skipped.append((r.key, f"needs {r.gpus} GPUs, found {ngpus}"))
            else:
                self.runs.append(r)
        self.dead = set()

    def turn(self, number):
        """Every run once with every library, next to each other; the order rotates."""
        for i, r in enumerate(self.runs):
            self.progress(number, i, r)
            if time.monotonic() > self.opts.until:
                self.skipped.append((r.key, "no time was left"))
                continue
            for lib in self.libs[number % len(self.libs):] + self.libs[:number % len(self.libs)]:
                if ((r.key, lib.name) in self.dead or (r.weft and lib is not self.libs[0])
                        or (r.once and number)):
                    continue
                try:
                    figures = r.start(lib, self.opts)
                except (Failure, OSError, ValueError, KeyError) as err:
                    self.dead.add((r.key, lib.name))
                    if "this MPI library has no such type" in str(err):
                        self.skipped.append((r.key, f"{lib.name} has no such type"))
                        continue
                    if "the device cannot compute: these benchmarks were built without nvcc" in str(err):
                        self.skipped.append((r.key, "built without nvcc"))
                        continue
                    self.failures.append(f"{r.key}: {lib.name}: {err}")
                    warn(f"{r.key}: {lib.name}: {err}")
                    continue
                self.figures[lib.name].setdefault(r.key, []).append(figures)

    def progress(self, number, i, r):
        """To people only, who wait for minutes."""
        if sys.stderr.isatty():
            print(f"\r\033[Kturn {number + 1}: {i + 1} of {len(self.runs)}, {r.key}", end="",
                  file=sys.stderr, flush=True)
            if i + 1 == len(self.runs):
                print("\r\033[K", end="", file=sys.stderr, flush=True)

    def values(self, uses, name, function):
        """One value a turn; nothing when one of the runs was skipped or failed."""
        if not function:
            return []
        lists = [self.figures[name].get(key, []) for key in uses]
        out = []
        for turn in zip(*lists):
            try:
                out.append(function(dict(zip(uses, turn))))
            except (KeyError, TypeError, ValueError):
                out.append(None)
        return out

    def line(self, row):
        weft = self.libs[0].name
        mine = self.values(row.uses, weft, row.ours)
        bound = self.values(row.limit_uses, weft, row.limit)
        beside = median(self.values(row.beside_uses, weft, row.beside))
        ratios = [m / b for m, b in zip(mine, bound) if m and b]
        out = {"key": row.key, "title": row.title, "unit": row.unit, "ours": median(mine),
               "limit": median(bound), "ratio": median(ratios), "goal": row.wants(), "turns": mine,
               "nccl": beside,
               "published": {"openmpi": row.published[0], "mpich": row.published[1]},
               "peers": {lib.name: None if row.weft else
                         median(self.values(row.uses, lib.name, row.ours)) for lib in self.libs[1:]}}
        out["met"] = row.met(out["ours"], out["ratio"], beside)
        return out

    def kernels(self):
        """The limits of kernels and flags, medians over all that measured them."""
        runs = [f["gpu"] for turns in self.figures[self.libs[0].name].values() for f in turns
                if f["gpu"]]
        return {key: median([r[key] for r in runs if r.get(key)])
                for key in ("launch_us", "flag_us", "round_us", "hop_us")}

    def notes(self):
        """Why limits were left out, each reason once."""
        return sorted({f["note"] for runs in self.figures.values() for turns in runs.values()
                       for f in turns if f["note"]})


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def text(x):
    return "-" if x is None else f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def show_skipped(skipped):
    """One line a reason."""
    for why in dict.fromkeys(why for _, why in skipped):
        print(f"skipped: {', '.join(key for key, w in skipped if w == why)}: {why}")


def show(lines, libs, title):
    """NCCL has a column where it was measured."""
    names = [lib.name for lib in libs]
    has_nccl = any(x["nccl"] for x in lines)
    wide = max([52] + [len(x["title"]) for x in lines])
    print(f"\n{title:<{wide}}{'unit':>5}{names[0]:>9}" + f"{'NCCL':>9}" * has_nccl
          + f"{'limit':>9}  {'goal':<17}{'':<8}"
          + "".join(f"{n:>10}" for n in names[1:]) + f"{'OMPI(1)':>10}{'MPICH(1)':>10}")
    for x in lines:
        verdict = {None: "", True: "met", False: "MISSED"}[x["met"]]
        peers = "".join(f"{text(x['peers'][n]):>10}" for n in names[1:])
        beside = f"{text(x['nccl']):>9}" * has_nccl
        print(f"{x['title']:<{wide}}{x['unit']:>5}{text(x['ours']):>9}{beside}{text(x['limit']):>9}  "
              f"{x['goal']:<17}{verdict:<8}{peers}{text(x['published']['openmpi']):>10}"
              f"{text(x['published']['mpich']):>10}")
    if any(x["published"]["openmpi"] for x in lines):
        print(f"(1) {PUBLISHED}")
