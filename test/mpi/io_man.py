#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages of files: every procedure of chapter 14 has one, no formatter complains, and
weft_file_hints names the hints that the library knows."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SRC = os.path.abspath(os.environ.get("TEST_SRCDIR", "."))
IO = os.path.join(SRC, "mpi/io")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def pages_exist(folder):
    subprocess.run([sys.executable, os.path.join(IO, "man.py"), SRC, folder], check=True)
    rows = [line.split("\t") for line in read(SRC, "mpi/api/functions.tsv").splitlines()]
    names = {r[0] for r in rows if r[2] == "14 I/O"}
    have = {f[:-2] for f in os.listdir(folder)}
    assert names == have and len(names) > 80, names ^ have
    for name in names:
        text = read(folder, name + ".3")
        other = re.match(r"\.so man3/(\w+)\.3$", text.strip())
        page = read(folder, other[1] + ".3") if other else text
        assert f"int {name}(" in page, f"{name} is not in its page"
        for part in ("ARGUMENTS", "DESCRIPTION", "ERRORS", "STANDARD"):
            assert f".SH {part}" in page, f"{name} has no {part}"


def references_exist(folder):
    have = {f[:-2] for f in os.listdir(folder)} | {"weft_file_hints", "weft_info"}
    for f in os.listdir(folder):
        for other in re.findall(r"^\.BR (\w+) \(", read(folder, f), re.M):
            assert other in have, f"{f} refers to {other}"


def formats(folder):
    for f in sorted(os.listdir(folder)) + [os.path.join(IO, "weft_file_hints.7")]:
        if not shutil.which("groff"):
            break
        p = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", os.path.join(folder, f)],
                           capture_output=True, text=True, check=False)
        if not read(os.path.join(folder, f)).startswith(".so"):
            assert p.returncode == 0 and not p.stderr, f"{f}: {p.stderr}"


def hints(_):
    table = read(IO, "hints.c").split("wm_hints_effect", 1)[1].split("};", 1)[0]
    keys = re.findall(r'\{ "(\w+)",', table)
    assert len(keys) > 5, keys
    page = read(IO, "weft_file_hints.7")
    for key in keys:
        assert key in page, f"weft_file_hints.7 has no {key}"


tests = (pages_exist, references_exist, formats, hints)
with tempfile.TemporaryDirectory() as d:
    for i, test in enumerate(tests, 1):
        test(d)
        print(f"ok {i} - {test.__name__}")
print(f"1..{len(tests)}")
