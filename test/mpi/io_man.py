#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manual page weft_file_hints names the hints that the library knows, and no formatter complains."""

import os
import re
import shutil
import subprocess

SRC = os.path.abspath(os.environ.get("TEST_SRCDIR", "."))
IO = os.path.join(SRC, "mpi/io")
PAGE = os.path.join(IO, "weft_file_hints.7")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def formats():
    if shutil.which("groff"):
        p = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", PAGE], capture_output=True,
                           text=True, check=False)
        assert p.returncode == 0 and not p.stderr, p.stderr


def hints():
    table = read(IO, "hints.c").split("wm_hints_effect", 1)[1].split("};", 1)[0]
    keys = re.findall(r'\{ "(\w+)",', table)
    assert len(keys) > 5, keys
    for key in keys:
        assert key in read(PAGE), f"weft_file_hints.7 has no {key}"


tests = (formats, hints)
for i, test in enumerate(tests, 1):
    test()
    print(f"ok {i} - {test.__name__}")
print(f"1..{len(tests)}")
