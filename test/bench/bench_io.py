# SPDX-License-Identifier: BSD-3-Clause
"""Sections `io_...` of compare: collective access to a file, with the goals that we set ourselves.
`make bench-io` runs them; compare alone leaves them out, because they measure the file system of the
current folder or of TMPDIR as well."""

KEY = "io"
PROGRAM = "weft_bench_io"
SIZES = {2: ("-s 8M -i 3", "-s 1M -i 1"), 8: ("-s 1M -i 3", "-s 256K -i 1")}


def goal(size):
    """Half of the better peer's time, but for contiguous access, which is the file system's."""
    return 1.0 if size.startswith("contiguous") else 2.0


def within(Case, key, title, ranks, args, more, value, most, unit="x"):
    """A case whose figure has a reference in the same run of the program: at most `most`."""
    args, quick = (f"{a} {more}" for a in args)
    return Case(key, title, PROGRAM, ranks, "none", args, quick, value, "lower", unit, want=None,
                absolute=most)


def section(Case):
    """The cases, made from compare's class."""
    found = [Case(f"{KEY}_{n}", f"write_at_all and read_at_all, {n} ranks", PROGRAM, n, "none", *args,
                  "mb_s", "higher", "MB/s", want=goal) for n, args in SIZES.items()]
    for n, args in SIZES.items():
        found += [within(Case, f"{KEY}_plain_{n}", f"time as a multiple of plain pwrite or pread, {n} ranks", n,
                         args, "--pattern contiguous", "plain_times", 1 / 0.95),
                  within(Case, f"{KEY}_hand_{n}", f"time as a multiple of alltoallv and pwrite by hand, {n} ranks",
                         n, args, "--pattern strided,4d,btio", "hand_times", 1.2)]
    found.append(within(Case, f"{KEY}_overlap", "the part of iwrite_at_all that a computation does not hide, 1 rank",
                        1, ("-s 32M", "-s 1M -i 1"), "--overlap", "visible_percent", 20, "%"))
    found.append(within(Case, f"{KEY}_overlap_2", "the same through aggregators, 2 ranks", 2,
                        ("-s 8M -i 5", "-s 1M -i 1"), "--overlap --pattern strided,4d,btio", "visible_percent", 20, "%"))
    found.append(within(Case, f"{KEY}_overlap_sleep_2", "the same beside ranks that sleep", 2, ("-s 8M -i 5", "-s 1M -i 1"),
                        "--overlap --sleep --pattern strided,4d,btio", "visible_percent", 20, "%"))
    found += [Case(f"{KEY}_open_{n}", f"MPI_File_open and MPI_File_close, {n} ranks", PROGRAM, n, "none",
                   "--opens 51", "--opens 5", "us", "lower", "us", want=lambda size: 0.5)
              for n in (16, 64)]
    return found


def left_out(key):
    """Unless it is named."""
    return key.startswith(KEY + "_")


def expand(keys, known):
    """`io`: all of them."""
    return [k for key in keys for k in ([x for x in known if left_out(x)] if key == KEY else [key])]
