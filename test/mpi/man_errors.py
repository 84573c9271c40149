#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_errors(7) has each message of the sources, with cause and remedy, and nothing else; settings that it names exist; no
formatter complains."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SRC = os.path.abspath(os.environ.get("TEST_SRCDIR", "."))
TABLE = os.path.join(SRC, "mpi/api/messages.txt")


def run(output, table=TABLE):
    env = dict(os.environ, WEFT_MESSAGES=table, PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run([sys.executable, os.path.join(SRC, "mpi/api/messages.py"), output], env=env, capture_output=True,
                          text=True)


def read(*path):
    with open(os.path.join(SRC, *path), encoding="utf-8") as f:
        return f.read()


def changed(folder, old, new):
    """What the check says of a table in which `old` is `new`."""
    text = read(TABLE)
    assert old in text, old
    path = os.path.join(folder, "messages.txt")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(old, new, 1))
    r = run("--check", path)
    assert r.returncode != 0, f"{new!r} for {old!r} was not found"
    return r.stderr


def main():
    r = run("--check")
    assert r.returncode == 0, r.stderr
    known = {"WEFT_" + name.upper() for name in re.findall(r"^CFG\(\s*(\w+)", read("runtime/base/cfg.def"), re.M)}
    named = set(re.findall(r"\bWEFT_[A-Z_]*[A-Z]\b", read(TABLE)))
    assert named <= known | {"WEFT_CONFIG_FILE", "WEFT_VERBS"}, named - known
    with tempfile.TemporaryDirectory() as folder:
        assert "no entry for: %s is full" in changed(folder, "= %s is full\n", "")
        assert "MPI_ERR_RANK" in changed(folder, "= MPI_ERR_RANK\n", "")
        assert "begins with: no such message" in changed(folder, "= %s is full\n", "= %s is full\n= no such message\n")
        assert "an entry needs" in changed(folder, "> Raise ulimit -n.\n", "")
        page = os.path.join(folder, "weft_errors.7")
        assert run(page).returncode == 0
        if shutil.which("groff"):
            g = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True)
            assert not g.stderr, g.stderr
    print("ok 1 - messages\n1..1")


main()
