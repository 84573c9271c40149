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


def section(Case):
    """The cases, made from compare's class."""
    found = [Case(f"{KEY}_{n}", f"write_at_all and read_at_all, {n} ranks", PROGRAM, n, "none", *args,
                  "mb_s", "higher", "MB/s", want=goal) for n, args in SIZES.items()]
    found.append(Case(KEY + "_plain", "the same, 2 ranks, as a part of plain pwrite or pread", PROGRAM,
                      2, "none", *SIZES[2], "ratio", "higher", "x", want=None))
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
