#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The program of docs/FAULTS.md loses a rank and ends with the right answer."""
import os
import subprocess
import sys

program = os.path.join(os.environ["TEST_BUILDDIR"], "test/mpi/ft_example")
failed = 0
for i, n in enumerate((2, 3, 4, 7)):
    r = subprocess.run([os.environ["TEST_MPIRUN"], "--ft", "--oversubscribe", "-n", str(n), program],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=25)
    expected = (f"heat 40.000000 after 100 steps, with {n - 1} ranks", f"1 of {n} ranks died", "signal 9")
    good = r.returncode == 0 and all(e in r.stdout for e in expected)
    if not good:
        print("# " + r.stdout.replace("\n", "\n# "))
        failed = 1
    print(f"{'' if good else 'not '}ok {i + 1} - {n} ranks")
print("1..4")
sys.exit(failed)
