#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual pages of chapter 14: man.py SOURCES FOLDER.  Names and parameters come from
mpi/api/functions.tsv, the text from man.txt.  A page of several procedures has the name of the first;
the others' files refer to it."""

import csv
import os
import re
import sys

ACCESS = """The access moves count elements of datatype between buf and the bytes of the file that the view
contains. A read ends early at the end of the file, without an error: MPI_Get_count and
MPI_Get_elements of the status return what was read. A write behind the end extends the file. A
call with large counts (_c) has MPI_Count in place of int.
error MPI_ERR_READ_ONLY: write: the file was opened with MPI_MODE_RDONLY
error MPI_ERR_ACCESS: read: the file was opened with MPI_MODE_WRONLY
error MPI_ERR_UNSUPPORTED_OPERATION: the file was opened with MPI_MODE_SEQUENTIAL, and the call does not use the shared pointer
error MPI_ERR_COUNT: count is negative, or the bytes are more than 63 bits can count
error MPI_ERR_TYPE: datatype is not committed, or the data are not whole etypes
error MPI_ERR_ARG: offset is negative, or the view contains no byte
error MPI_ERR_NO_SPACE: the file system is full
error MPI_ERR_QUOTA: a quota, RLIMIT_FSIZE or the largest file is exceeded
error MPI_ERR_IO: the system could not read or write; status has what was moved before
"""
NONBLOCKING = """Nonblocking calls (i...) return at once; a thread of the library, or the ranks together, move
the data, and buf must not be used until the request is complete.
"""
COLLECTIVE = """A wrong argument or an error of one process may be returned in all processes. Processes that
write short pieces of one range may combine them: weft_file_hints(7).
"""
POINTER = """The call begins at the individual file pointer of the process, and moves it by the number of
etypes requested, also if a read ends early at the end of the file.
"""


class Page:
    def __init__(self, names, brief):
        self.names, self.brief = names, brief
        self.text, self.errors, self.rules, self.see = [], [], [], []


def read_text(path):
    """The pages and the texts of arguments."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for word, part in (("@access", ACCESS), ("@collective", COLLECTIVE), ("@pointer", POINTER),
                       ("@nonblocking", NONBLOCKING)):
        text = text.replace(word + "\n", "\n" + part)
    pages, args = [], {}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        head, _, tail = rest.partition(": ")
        if line.startswith("#"):
            continue
        if word == "page":
            pages.append(Page(head.split(), tail))
        elif word == "arg":
            args.setdefault((head, len(pages) if "." not in head else 0), tail)
        elif word == "error":
            pages[-1].errors.append((head, tail))
        elif word == "rules":
            pages[-1].rules = rest.split()
        elif word == "see":
            pages[-1].see = rest.split()
        elif pages:
            pages[-1].text.append(line)
    return pages, args


def argument(args, page, number, name, arg):
    """The text of one argument: of the procedure, of the page, or of all pages."""
    for key in ((f"{name}.{arg}", 0), (arg, number), (arg, 0)):
        if key in args:
            return args[key]
    raise SystemExit(f"man.txt: page {page.names[0]}: no text for argument {arg} of {name}")


def roff(text):
    """Text with names of MPI in bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"\b((?:MPI_|RLIMIT_|weft_)\w+)(\(\d\))?", lambda m: f"\\fB{m[1]}\\fR{m[2] or ''}", text)


def prototype(row):
    line = f"int {row['name']}({row['c_params']});"
    at = 0
    while len(line) - at > 78:
        cut = line.rfind(", ", at, at + 76) + 1
        line = line[:cut] + "\n    " + line[cut + 1:]
        at = cut + 1
    return line


def parameters(row):
    return [p.split(":")[0] for p in row["param_semantics"].split("|")]


def takes_file(page, rows):
    return any(p.endswith("MPI_File fh") for n in page.names
               for p in [rows[n]["c_params"].split(",")[0]])


def collective(page):
    text = "\n".join(page.text)
    return bool(re.search(r"\bCollective|(is|are) collective|All\s+processes\s+of\s+the\s+file", text))


def render(page, number, rows, args):
    twins = [n + "_c" for n in page.names if n + "_c" in rows]
    out = ['.\\" SPDX-License-Identifier: BSD-3-Clause',
           f'.TH {page.names[0]} 3 "2026-11-27" "Weft MPI" "Weft MPI"', ".SH NAME",
           ", ".join(page.names + twins) + " \\- " + page.brief, ".SH SYNOPSIS", ".nf",
           "#include <mpi.h>", ""]
    out += [prototype(rows[n]) for n in page.names + twins]
    out += [".fi", ".SH ARGUMENTS"]
    seen = {}
    for name in page.names:
        for arg in parameters(rows[name]):
            text = argument(args, page, number, name, arg)
            seen.setdefault((arg, text), []).append(name)
    for (arg, text), names in seen.items():
        other = [k for k in seen if k[0] == arg and k[1] != text]
        where = f" ({', '.join(names)})" if other else ""
        out += [".TP", f".I {arg}", roff(text + where) + "."]
    out.append(".SH DESCRIPTION")
    out += [roff(line) if line else ".PP" for line in page.text]
    while out[-1] == ".PP":
        out.pop()
    out += [".SH ERRORS", "The error handler of the file is called, of " + roff("MPI_FILE_NULL") +
            " if there is no file yet; initially it returns the error."]
    errors = page.errors + [("MPI_ERR_FILE", "fh is not an open file")] * takes_file(page, rows)
    errors += [("MPI_ERR_PROC_ABORTED", "a process of the file has died")] * collective(page)
    for key, what in errors:
        out += [".TP", f".B {key}", roff(what) + "."]
    out += [".SH STANDARD", "MPI\\-5.0, section " + ", ".join(page.rules) + ".", ".SH \"SEE ALSO\""]
    out.append(",\n".join(f".BR {s} ({7 if s.startswith('weft') else 3})" for s in page.see)
               .replace("),\n", ") ,\n"))
    return "\n".join(out) + "\n"


def main(src, out):
    with open(os.path.join(src, "mpi/api/functions.tsv"), encoding="utf-8", newline="") as f:
        rows = {r["name"]: r for r in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
                if r["chapter"] == "14 I/O"}
    pages, args = read_text(os.path.join(src, "mpi/io/man.txt"))
    missing = set(rows)
    os.makedirs(out, exist_ok=True)
    for number, page in enumerate(pages, 1):
        text = render(page, number, rows, args)
        for name in [n + c for n in page.names for c in ("", "_c") if n + c in rows]:
            missing.remove(name)
            with open(os.path.join(out, name + ".3"), "w", encoding="utf-8") as f:
                f.write(text if name == page.names[0] else f".so man3/{page.names[0]}.3\n")
    if missing:
        raise SystemExit("man.txt: no page for " + ", ".join(sorted(missing)))


main(*sys.argv[1:])
