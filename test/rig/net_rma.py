# SPDX-License-Identifier: BSD-3-Clause
"""One-sided communication over TCP between two hosts of the rig, against messages of the same turns: an operation with its
flush against a ping-pong, windows of puts and gets against windows of messages.  `net --rma`."""

import statistics

# What, program, its arguments, the program of messages, their times in one ping-pong or 1, wanted ratio.
ROWS = [
    ("put and flush, 8 B, us", "osu_put_latency", "-m 8:8", "osu_latency", 2, 1.3),
    ("get and flush, 8 B, us", "osu_get_latency", "-m 8:8", "osu_latency", 2, 1.3),
    ("put_bw, 64 KiB, MB/s", "osu_put_bw", "-m 65536:65536", "osu_bw", 1, 0.95),
    ("put_bw, 512 KiB, MB/s", "osu_put_bw", "-m 524288:524288", "osu_bw", 1, 0.95),
    ("put_bw, 4 MiB, MB/s", "osu_put_bw", "-m 4194304:4194304", "osu_bw", 1, 0.95),
    ("get_bw, 512 KiB, MB/s", "osu_get_bw", "-m 524288:524288", "osu_bw", 1, 0.95),
]


def measure(rig, lib, turns, seconds):
    """Prints the table; what is missed."""
    got = {row: ([], []) for row in ROWS}
    for _ in range(turns):
        for row in ROWS:
            _, program, args, messages, times, _ = row
            argv = args.split() + ["--seconds", str(seconds)]
            got[row][0].append(*lib.run(rig, program, argv).values())
            got[row][1].append(times * next(iter(lib.run(rig, messages, argv).values())))
    print(f"{'':<24}{'one-sided':>11}{'messages':>11}{'ratio':>9}{'wanted':>9}")
    missed = []
    for row in ROWS:
        what, *_, wanted = row
        ours, theirs = (statistics.median(v) for v in got[row])
        ratio = statistics.median(a / b for a, b in zip(*got[row]))
        bad = ratio > wanted if wanted > 1 else ratio < wanted
        print(f"{what:<24}{ours:>11.2f}{theirs:>11.2f}{ratio:>9.2f}{wanted:>9.2f}{' MISSED' * bad}", flush=True)
        missed += [what] * bad
    return missed
