#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Generates, from the API table, mpi.h, the prototypes of the bodies and the bindings.

    gen.py --src SRCDIR --out BUILDDIR

A file is written only when its content changes, so that make rebuilds no more than it must."""

import argparse
import os
import sys

sys.dont_write_bytecode = True  # the source folder may be read-only
import bind  # noqa: E402
import bodies  # noqa: E402
import foreign  # noqa: E402
import fortran_c  # noqa: E402
import fortran_f  # noqa: E402
import header  # noqa: E402
from fortran import Fortran  # noqa: E402
from table import Table  # noqa: E402


def write(path, text):
    """Writes through a temporary file: an interrupted run leaves no half header behind."""
    try:
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    except OSError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--src", required=True, help="top of the source tree, scanned for bodies")
    parser.add_argument("--out", required=True, help="top of the build tree")
    args = parser.parse_args()

    table = Table()
    files = {
        "mpi/include/mpi.h": header.mpi_h(table),
        "mpi/include/mpi-ext.h": header.MPI_EXT_H,
        "mpi/api/bodies.h": bodies.bodies_h(table),
    }
    found = bodies.scan(args.src)
    files.update(bind.files(table, found))
    files["mpi/api/api_table.c"] = bodies.api_table_c(table, found)
    fortran = Fortran(table)
    files.update(fortran_c.files(fortran))
    files.update(fortran_f.files(fortran))
    files.update(foreign.files(table))
    for name, text in files.items():
        write(os.path.join(args.out, name), text)


if __name__ == "__main__":
    main()
