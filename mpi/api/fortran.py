# SPDX-License-Identifier: BSD-3-Clause
"""The Fortran side of the API table: the procedures of fortran.tsv with their arguments, joined with
their C twins.  What fortran.tsv says is the standard's text; how an argument gets from Fortran to C
is in fortran_c.py, how modules and mpif.h declare it in fortran_f.py."""

import re

from table import read_tsv

# C parameters without a Fortran argument.
C_ONLY = ("argc", "argv")
# Names that differ.
RENAMED = {"indx": "index", "error": "err"}
HANDLES = (
    "MPI_Comm MPI_Datatype MPI_Errhandler MPI_File MPI_Group MPI_Info MPI_Message MPI_Op "
    "MPI_Request MPI_Session MPI_Win"
).split()


class Arg:
    """One argument as fortran.tsv prints it: `name`, `shape` ("(*)" or ""), `type` with
    attributes.  `c` is the C parameter, None for IERROR and for what C lacks."""

    def __init__(self, text):
        name, self.type = text.split(": ", 1)
        m = re.fullmatch(r"(\w+)(\(.*\))?", name)
        self.printed, self.name, self.shape = m.group(1), m.group(1).lower(), m.group(2) or ""
        self.c = None

    @property
    def is_error(self):
        return self.name in ("ierror", "ierr") and self.c is None

    @property
    def is_choice(self):
        return self.type.lower().startswith("<type>") or "DIMENSION(..)" in self.type

    @property
    def is_string(self):
        return self.type.startswith("CHARACTER")


def args_of(text):
    return [Arg(t) for t in text.split(" ; ")] if text not in ("-", "") else []


class FProc:
    """A procedure with a Fortran form.  `args`: of mpif.h and module mpi; `f08`: of mpi_f08, None
    when it lacks the procedure; `large`: of the large-count form, None without one; `c`: the C
    procedure, None for what exists in Fortran only; `large_c`: its large-count twin."""

    def __init__(self, row, table):
        self.name, self.short = row["name"], row["name"].split("_", 1)[1].lower()
        self.modules, self.returns = row["modules"].split(","), row["returns"]
        self.is_function = self.returns != "subroutine"
        self.args = args_of(row["f90_args"])
        self.f08 = args_of(row["f08_args"]) if "mpi_f08" in self.modules else None
        self.large = None if row["f08_large_form"] == "-" else args_of(row["f08_large_args"])
        self.own_large_name = "separate name" in row["f08_large_form"]
        self.cptr = "_CPTR" in row["notes"]
        self.c = table.by_name.get(self.name)
        self.large_c = table.twins.get(self.name) if self.large else None
        if self.large and not self.large_c and row["category"] == "procedure":
            raise SystemExit("fortran.tsv: %s has a large form, but no C twin" % self.name)
        self.join(self.args, self.c)
        self.join(self.f08, self.c)
        self.join(self.large, self.large_c)

    def join(self, args, proc):
        """Gives each argument its C parameter, by name; none may be left over on either side."""
        if proc is None or args is None:
            return
        left = {RENAMED.get(p.name, p.name.lower()): p for p in proc.params}
        for a in args:
            a.c = left.pop(a.name, None)
            if a.c is None and not a.is_error:
                raise SystemExit("fortran.tsv: %s has no C parameter %s" % (proc.name, a.name))
        if any(name not in C_ONLY for name in left):
            raise SystemExit("fortran.tsv: %s lacks %s" % (proc.name, ", ".join(left)))

    @property
    def has_choice(self):
        return any(a.is_choice for a in self.f08 or [])

    @property
    def group(self):
        return self.c.group if self.c else "fortran-interop"


class Fortran:
    def __init__(self, table):
        self.table = table
        rows = [r for r in read_tsv("fortran.tsv") if "none" not in r["modules"]]
        self.procs = [FProc(r, table) for r in rows if r["category"] == "procedure"]
        self.callbacks = [FProc(r, table) for r in rows if r["category"] == "callback"]
        self.predefined = [FProc(r, table) for r in rows if r["category"] == "predefined function"]
        self.constants = [
            c
            for c in read_tsv("constants.tsv")
            if c["languages"] in ("C+Fortran", "Fortran-only") and c["status"] != "non-standard"
        ]
