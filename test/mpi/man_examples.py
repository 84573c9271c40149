#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The examples of the manual pages: each is in a page, compiles, and finds right results at
several numbers of ranks.  Programs: man_ring man_any_length man_persistent man_sums man_column man_grid
man_hosts man_window man_file man_session."""

import glob
import os
import subprocess
import tempfile

SRC = os.path.abspath(os.environ.get("TEST_SRCDIR", "."))
BUILD = os.path.abspath(os.environ.get("TEST_BUILDDIR", "."))
MPIRUN = os.path.abspath(os.environ.get("TEST_MPIRUN", os.path.join(BUILD, "mpirun")))
RANKS = {"grid": (1, 3, 6), "ring": (1, 2, 5)}

examples = sorted(os.path.basename(f)[:-2]
                  for f in glob.glob(os.path.join(SRC, "docs/examples/calls/*.c")))
assert len(examples) > 5, examples
texts = ""
for path in glob.glob(os.path.join(SRC, "mpi/api/man/*.txt")):
    with open(path, encoding="utf-8") as f:
        texts += f.read()
with tempfile.TemporaryDirectory() as folder:
    for i, name in enumerate(examples, 1):
        assert f"example {name}.c" in texts, f"no page has the example {name}.c"
        for n in RANKS.get(name, (1, 3)):
            p = subprocess.run([MPIRUN, "-n", str(n), os.path.join(BUILD, "test/mpi/man_" + name)],
                               cwd=folder, capture_output=True, text=True, check=False)
            assert p.returncode == 0, f"{name}, {n} ranks: {p.returncode}\n{p.stdout}{p.stderr}"
        print(f"ok {i} - {name}")
    assert not os.listdir(folder), os.listdir(folder)
print(f"1..{len(examples)}")
