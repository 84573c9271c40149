#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages of the procedures: each procedure has one, each parameter is described, each
page has a purpose of its own, no formatter complains, references and error classes exist, and the
generator refuses texts with gaps."""

import csv
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SRC = os.path.abspath(os.environ.get("TEST_SRCDIR", "."))
API = os.path.join(SRC, "mpi/api")
OVERVIEW = os.path.join(API, "man/weft.7")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def generate(api, folder):
    return subprocess.run([sys.executable, os.path.join(api, "man.py"), folder], check=False,
                          capture_output=True, text=True)


def procedures():
    with open(os.path.join(API, "functions.tsv"), encoding="utf-8", newline="") as f:
        rows = csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {r["name"]: r for r in rows if r["c_presence"] in ("abi", "not-in-abi(MPI_Fint)")}


def page(folder, name):
    text = read(folder, name + ".3")
    other = re.fullmatch(r"\.so man3/(\w+)\.3\n", text)
    return read(folder, other[1] + ".3") if other else text


def section(text, name):
    found = re.search(r'^\.SH "?%s"?\n(.*?)(?=^\.SH|\Z)' % name, text, re.M | re.S)
    assert found, f"no section {name} in {text[:200]}"
    return found[1]


def all_exist(folder):
    procs = procedures()
    have = {f[:-2] for f in os.listdir(folder)}
    assert have == set(procs) and len(procs) > 690, have ^ set(procs)
    for name, row in procs.items():
        text = page(folder, name)
        for part in ("DESCRIPTION", "DEVICE BUFFERS", "ERRORS", "STANDARD"):
            assert section(text, part).strip(), f"{name}: {part} is empty"
        flat = re.sub(r"\s+", " ", section(text, "SYNOPSIS"))
        assert re.search(r"\b%s\(" % name, flat), f"{name} has no prototype"
        assert row["large_count_of"] == "-" or row["large_count_of"] in flat, name


def parameters(folder):
    for name, row in procedures().items():
        decls = [re.match(r".*?(\w+)(\[\w*\])*$", d)[1] for d in row["c_params"].split(", ")
                 if d not in ("void", "...")]
        directions = [p.split(":")[1] for p in row["param_semantics"].split("|") if decls]
        text = section(page(folder, name), "PARAMETERS") if decls else ""
        assert len(decls) == len(directions) - (row["c_params"][-3:] == "..."), name
        for arg, direction in zip(decls, directions):
            found = re.search(r"^\\fI%s\\fR \(([a-z ]+)[^)]*\)\n(\S.*)" % arg, text, re.M)
            assert found and len(found[2].split()) > 1, f"{name}: {arg} is not described"
            word = {"in": "input", "out": "output", "inout": "input and output"}[direction]
            assert found[1] == word, f"{name}: {arg} is {word}"


def purposes(folder):
    seen = {}
    for file in sorted(os.listdir(folder)):
        if read(folder, file).startswith(".so"):
            continue
        names, _, purpose = section(read(folder, file), "NAME").partition(" \\- ")
        assert file[:-2] in names.split(", ") and len(purpose.split()) > 2, f"{file}: {purpose}"
        assert purpose not in seen, f"{file} and {seen[purpose]} have one purpose: {purpose}"
        seen[purpose] = file


def references(folder):
    have = {f[:-2] for f in os.listdir(folder)} | {"weft_errors"}
    for top in ("mpi", "launcher", "test"):
        for _, _, files in os.walk(os.path.join(SRC, top)):
            have |= {f[:-2] for f in files if re.search(r"\.[1378]$", f)}
    named = " ".join(section(read(API, f), "NAME") for f in os.listdir(API) if f[:5] == "MPIX_")
    have |= set(re.findall(r"\w+", named))  # one page of several procedures
    for f in [os.path.join(folder, f) for f in os.listdir(folder)] + [OVERVIEW]:
        for other in re.findall(r"^\.BR ([\w\\-]+) \(", read(f), re.M):
            assert other.replace("\\", "") in have, f"{f} refers to {other}"


def classes(folder):
    known = set(re.findall(r"^(MPIX?_(?:T_)?ERR_\w+)", read(API, "constants.tsv"), re.M))
    raised = read(SRC, "runtime/base/err.def")
    for path in glob.glob(os.path.join(SRC, "mpi/*/*.c")) + [os.path.join(API, "sentences.py")]:
        raised += read(path)
    known &= set(re.findall(r"\bMPIX?_(?:T_)?ERR_\w+", raised))
    for f in os.listdir(folder):
        if not read(folder, f).startswith(".so"):
            for line in re.findall(r"^\.B (.*)", section(read(folder, f), "ERRORS"), re.M):
                for name in line.split(", "):
                    assert name in known, f"{f}: no source raises {name}"


def formats(folder):
    files = [os.path.join(folder, f) for f in sorted(os.listdir(folder))]
    files = [f for f in files if not read(f).startswith(".so")] + [OVERVIEW]
    if shutil.which("groff"):
        p = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"] + files, capture_output=True,
                           text=True, check=False)
        assert p.returncode == 0 and not p.stderr, p.stderr
    else:
        print("# groff is not installed: no page was formatted")
    if shutil.which("mandoc"):
        p = subprocess.run(["mandoc", "-Tlint", "-Wwarning"] + files, capture_output=True,
                           text=True, check=False)
        assert p.returncode == 0, p.stdout
    longest = max(len(line) for f in files for line in read(f).splitlines()
                  if line.startswith(("int ", "    ")))
    assert longest <= 80, longest


def gaps(folder):
    """Each change of a text makes the generator refuse it, and name what is wrong."""
    changes = [
        ("p2p.txt", "do MPI_Send: ", "#", "MPI_Send: there is no page"),
        ("common.txt", "arg dest: ", "#", "no text for the parameter dest"),
        ("p2p.txt", "do MPI_Send: ", "arg nosuch: text\ndo MPI_Send: ", "no procedure for: .*nosuch"),
        ("p2p.txt", "rules MPI_Send: ", "rules MPI_Sned: ", "Blocking sends: MPI_Sned"),
        ("p2p.txt", "do MPI_Send: ", "do MPI_Sned: ", "MPI_Sned: unknown"),
        ("p2p.txt", "do MPI_Send: ", "see MPI_Sned\ndo MPI_Send: ", "see MPI_Sned"),
        ("p2p.txt", "device Yes.", "# ", "no row device"),
        ("p2p.txt", "\n@path", "\n@sums", "no block sums"),
    ]
    for number, (file, old, new, message) in enumerate(changes):
        copy = os.path.join(folder, str(number), "mpi/api")
        os.makedirs(os.path.join(folder, str(number)))
        os.symlink(os.path.join(SRC, "docs"), os.path.join(folder, str(number), "docs"))
        shutil.copytree(API, copy, ignore=shutil.ignore_patterns("*.c", "*.h", "fortran_*"))
        text = read(copy, "man", file)
        assert old in text, f"{file} has no {old}"
        os.chmod(os.path.join(copy, "man", file), 0o644)
        with open(os.path.join(copy, "man", file), "w", encoding="utf-8") as f:
            f.write(text.replace(old, new, 1))
        p = generate(copy, os.path.join(copy, "out"))
        assert p.returncode and re.search(message, p.stderr), f"{file}, {new}: {p.stderr}"


def catalogue(folder):
    """The same calls, and all settings, as JSON; llms.txt names pages that exist."""
    output = os.path.join(folder, "catalogue.json")
    subprocess.run([sys.executable, os.path.join(API, "catalogue.py"), output, "1.2.3"], check=True)
    whole = json.loads(read(output))
    calls = {c["name"]: c for c in whole["calls"]}
    procs = procedures()
    assert {p for p in procs if p in calls} == {p for p in procs if not p.endswith("_c") or p[:-2] not in procs}
    send = calls["MPI_Send"]
    assert [p["name"] for p in send["parameters"]] == ["buf", "count", "datatype", "dest", "tag", "comm"]
    assert len(send["c"]) == 2 and "MPI_ERR_RANK" in send["errors"] and send["device_buffers"]
    assert calls["MPI_Attr_get"]["deprecated"] and not send["deprecated"]
    with open(os.path.join(SRC, "runtime/base/cfg.def"), encoding="utf-8") as f:
        rows = sum(line.startswith("CFG(") for line in f)
    assert whole["version"] == "1.2.3" and len(whole["settings"]) == rows
    links = re.findall(r"\]\((.*?)\)", read(SRC, "llms.txt"))
    assert len(links) > 8 and all(os.path.exists(os.path.join(SRC, link)) for link in links), links


tests = (catalogue, all_exist, parameters, purposes, references, classes, formats, gaps)
with tempfile.TemporaryDirectory() as d:
    made = generate(API, os.path.join(d, "man3"))
    assert made.returncode == 0, made.stderr
    for i, test in enumerate(tests, 1):
        test(d if test in (gaps, catalogue) else os.path.join(d, "man3"))
        print(f"ok {i} - {test.__name__}")
print(f"1..{len(tests)}")
