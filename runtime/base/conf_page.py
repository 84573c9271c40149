#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual page weft.conf(5) from the rows of cfg.def: conf_page.py CFG.DEF OUTPUT."""

import re
import sys

DATE = "2026-12-01"
# Heading and beginnings of the names; a setting belongs to the first that fits.
GROUPS = (
    ("Starting jobs, jobs over several hosts", ("rsh", "host_", "hang_s", "ft", "connect_")),
    ("Shared memory of a host", ("shm_",)),
    ("Networks: TCP", ("tcp_", "net_")),
    ("Networks: RDMA", ("ib_", "verbs_")),
    ("GPUs", ("gpu", "io_gds")),
    ("Waiting", ("spin_", "sleep_")),
    ("Looking for mistakes", ("check", "log", "abort_")),
    ("Other settings", ("",)),
)
HEAD = r'''.\" SPDX-License-Identifier: BSD-3-Clause
.\" Written by runtime/base/conf_page.py from runtime/base/cfg.def.
.TH weft.conf 5 "%s" "Weft MPI" "Weft MPI"
.SH NAME
weft.conf \- settings of Weft MPI
.SH SYNOPSIS
.nf
.I ~/.config/weft.conf
.BI WEFT_ NAME = value
.BI "mpirun \-\-set " name = "value PROGRAM"
.fi
.SH DESCRIPTION
Every setting has a default with which Weft is meant to be used; most users need no file.  A setting
can be changed in four places.  A later one in this list wins:
.IP 1. 4
The file
.IR ~/.config/weft.conf ,
or the one that the environment variable
.B WEFT_CONFIG_FILE
names, which must exist then.
.IP 2. 4
The environment:
.B WEFT_
and the name in capitals.
.B mpirun
passes its environment on to the ranks, on all hosts.
.IP 3. 4
.BR "mpirun \-\-set" .
.IP 4. 4
A tool, by MPI_T_cvar_write, for settings that may change while the program runs.
.PP
.B weft_info \-\-config
prints each value and the place that it comes from; with
.B \-v
in the form of shell assignments.
.SS The file
One setting a line,
.IB name " = " value\fR.
Empty lines and lines that begin with # are ignored.  A name that this version does not know is a
warning with the nearest name, so that one file can serve several versions; a value that is not
valid is an error, and MPI_Init fails with the line, the value and what is valid.
.PP
.nf
# three ranks share a card, and the network has two ports
gpu_multiprocessors = 16
tcp_if = eth0,eth1
.fi
.SS Values
A number of bytes may end in K, M, G or T (powers of 1024).  Lists have commas, and ^ at the front
excludes what follows.  yes and no may be written 1 and 0, true and false, on and off.
.SH SETTINGS
'''
TAIL = r'''.SH ENVIRONMENT
.TP
.B WEFT_CONFIG_FILE
The file with settings, in place of
.IR ~/.config/weft.conf .
.SH SEE ALSO
.BR weft_info (1),
.BR mpirun (1),
.BR weft (7)
'''
FORM = {"BOOL": "yes or no", "STR": "text", "LIST": "a list with commas"}


def rows(path):
    """(name, type, default, valid, help) of each row; a line that looks like one must be one."""
    with open(path, encoding="utf-8") as f:
        lines = [line for line in f if line.startswith("CFG(")]
    text = r'"((?:[^"\\]|\\.)*)"'
    form = re.compile(r"CFG\(\s*(\w+),\s*(\w+),\s*%s,\s*(?:NULL|%s),\s*%s\s*\)\s*$" % ((text,) * 3))
    for line in lines:
        found = form.match(line)
        if not found:
            raise SystemExit("%s: not a row: %s" % (path, line))
        name, kind, default, valid, words = found.groups()
        yield name, kind, default, valid, words.replace('\\"', '"')


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def entry(name, kind, default, valid, words):
    if kind == "ENUM":
        form = "one of " + valid.replace(",", ", ")
    elif kind in ("INT", "SIZE"):
        form = "%s in %s to %s" % (("a number of bytes" if kind == "SIZE" else "a number",) + tuple(valid.split("..")))
    else:
        form = FORM[kind]
    out = [".TP", ".B " + roff(name), roff("Value: %s.  Default: %s." % (form, default or "empty")), ".br"]
    return out + [roff(s) for s in re.split(r"(?<=\.)  ", words)]


def group_of(name):
    return next(title for title, begins in GROUPS if name.startswith(begins))


def main(source, output):
    all_rows = list(rows(source))
    out = []
    for title, _ in GROUPS:
        of_group = [r for r in all_rows if group_of(r[0]) == title]
        out += [".SS " + title] if of_group else []
        for row in sorted(of_group):
            out += entry(*row)
    with open(output, "w", encoding="utf-8") as f:
        f.write(HEAD % DATE + "\n".join(out) + "\n" + TAIL)


if __name__ == "__main__":
    main(*sys.argv[1:])
