#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the test of all Fortran procedures against a recording C library: record.c, whose MPI_X and
PMPI_X print their arguments and return values that can be foreseen; a Fortran program for each form,
which calls every procedure once as MPI_X and once as PMPI_X and checks what it gets; and the text that
must come out.  It reads the tables itself and shares no code with mpi/api/gen.py.

    record_gen.py TABLES OUTPUT-FOLDER [WIDTH OF INTEGER: 4 [INTEGERS OF A STATUS]]

The last argument is for libraries in the place of other MPI implementations (test/foreign/fortran): the C library has their ABI."""

import csv
import os
import re
import sys

FORMS = ("mpif", "mpi", "mpi_f08")
HANDLES = "Comm Datatype Errhandler File Group Info Message Op Request Session Win".split()
RENAMED = {"indx": "index", "error": "err"}
# The Fortran library asks the C library about a communicator; record.c answers without printing.
ASKED = "Comm_rank Comm_size Comm_remote_size Comm_test_inter Cartdim_get Topo_test".split()
ASKED.append("Dist_graph_neighbors_count")
# No C procedure is called.
# In another ABI the object made is also given to Weft's library, which does not know it.
NOT_FOREIGN = re.compile("MPI_(Op_create|Keyval_create|(Comm|Type|Win)_create_keyval|(Comm|File|Session|Win)_create_errhandler)")
STATUS = 8  # INTEGERs of a status
FOREIGN = False
HANDLE = 600  # first handle of a call; in another ABI it must be above the predefined ones
NO_C = ("MPI_Sizeof", "MPI_F_sync_reg", "MPI_Status_f2f08", "MPI_Status_f082f")
LENGTHS = {  # of arrays that the tables give as "*", in this test
    ("MPI_Graph_create", "edges"): 3,
    ("MPI_Graph_map", "edges"): 3,
    ("MPI_Dist_graph_create", "destinations"): 3,
    ("MPI_Dist_graph_create", "weights"): 3,
}
INTS = {("array_of_maxprocs", 0): 1, ("array_of_maxprocs", 1): 1, ("index", 0): 1, ("index", 1): 3, ("degrees", 0): 1, ("degrees", 1): 2}


def rows(tables, name):
    with open(os.path.join(tables, name), encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


class Arg:
    """An argument: its Fortran text and, where C has it, declaration and semantics."""

    def __init__(self, text, number):
        name, self.type = text.split(": ", 1)
        self.name = re.sub(r"\(.*", "", name).lower()
        self.shape = name[len(self.name) :]
        self.number = number
        self.decl = self.kind = self.direction = self.length = None

    def join(self, decl, semantics):
        self.decl = decl
        _, self.direction, kind = semantics.split(":")
        m = re.fullmatch(r"(\w+)(?:\[(.*)\])?", kind)
        self.kind = m.group(1)
        flags = m.group(2).split(",") if m.group(2) else []
        self.length = next((f[4:] for f in flags if f.startswith("len=")), None)
        self.base = re.sub(r"const |\*|\[.*|\w+$", "", decl.split("[")[0]).strip()
        self.stars = decl.count("*") + decl.count("[]")
        self.is_array = "[" in decl or self.length is not None

    @property
    def is_choice(self):
        return self.type.lower().startswith("<type>") or "DIMENSION(..)" in self.type


class Proc:
    def __init__(self, row, args, c):
        self.name = row["name"]
        self.returns = row["returns"]
        self.args = [Arg(t, i + 1) for i, t in enumerate(args.split(" ; "))] if args != "-" else []
        self.c = c
        if c:
            decls = [] if c["c_params"] == "void" else c["c_params"].split(", ")
            sems = [] if c["param_semantics"] == "-" else c["param_semantics"].split("|")
            left = {}
            for d, s in zip(decls, sems):
                left[RENAMED.get(s.split(":")[0], s.split(":")[0]).lower()] = (d, s)
            for a in self.args:
                if a.name in left:
                    a.join(*left[a.name])
        self.lengths = {a.length for a in self.args if a.length}

    def arg(self, name):
        return next((a for a in self.args if a.name == name), None)

    def n(self, a):
        """Elements of an array argument in this test."""
        if (self.name, a.name) in LENGTHS:
            return LENGTHS[self.name, a.name]
        if a.length == "nx3":
            return 6
        if "neighbor_alltoallw" in self.name.lower() and a.name.startswith("send"):
            return 3
        return 2

    def scalar(self, a):
        """Value of an INTEGER that goes in."""
        if a.name in ("valuelen", "buflen", "pset_len"):
            return 20
        if a.name in self.lengths or a.name == "n" and "nx3" in self.lengths:
            return 2
        if a.name in ("n", "incount", "count") and any(b.is_array for b in self.args if b.decl):
            return 2
        if a.name in ("root", "logical_size"):
            return 0 if a.name == "root" else 4
        return 2 if a.name == "maxprocs" else 100 + a.number

    def element(self, a, i):
        return INTS.get((a.name, i), 10 * a.number + i)


# ---- record.c ----

TOP_C = """/* Generated by record_gen.py.  Every procedure prints its name and arguments. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char *area; /* buffers are printed as places in it */
void record_area(void *p) /* what came before is the library's start */
{
    area = p;
    printf("start\\n");
}

static void ptr(const void *p)
{
    ptrdiff_t at = (const char *)p - area;
    if (at >= 0 && at < 4096)
        printf(" buf+%td", at);
    else
        printf(" %s", (uintptr_t)p <= 11 ? (const char *[]){ "BOTTOM", "IN_PLACE", "AUTOMATIC", "?",
            "?", "?", "?", "?", "?", "?", "UNWEIGHTED", "EMPTY" }[(uintptr_t)p] : "elsewhere");
}
static void num(long long v) { printf(" %lld", v); }
#define handle(h) handle_of((void *)(uintptr_t)(h))
static void handle_of(const void *h) { printf(" h%ju", (uintmax_t)(uintptr_t)h & 0x7fffffff); }
static void fn(uintptr_t f) { printf(" %s", f == 0 ? "0" : f == 1 ? "1" : "fn"); }
static void str(const char *s) { printf(" '%s'", s); }
static void r_status(const MPI_Status *s)
{
    if (!s)
        printf(" IGNORE");
    for (int i = 0; s && i < (int)(sizeof *s / sizeof(int)); i++)
        num(((const int *)s)[i]);
}
static void set_status(MPI_Status *s, int n)
{
    for (int i = 0; s && i < (int)(sizeof *s / sizeof(int)) * n; i++)
        ((int *)s)[i] = 11 + i;
}
static int done(void) { printf("\\n"); fflush(stdout); return MPI_SUCCESS; }

/* What the Fortran library asks. */
int PMPI_Comm_rank(MPI_Comm c, int *v) { (void)c; *v = 0; return 0; }
int PMPI_Comm_size(MPI_Comm c, int *v) { (void)c; *v = 2; return 0; }
int PMPI_Comm_remote_size(MPI_Comm c, int *v) { (void)c; *v = 2; return 0; }
int PMPI_Comm_test_inter(MPI_Comm c, int *v) { (void)c; *v = 0; return 0; }
int PMPI_Cartdim_get(MPI_Comm c, int *v) { (void)c; *v = 2; return 0; }
int PMPI_Topo_test(MPI_Comm c, int *v) { (void)c; *v = MPI_DIST_GRAPH; return 0; }
int PMPI_Dist_graph_neighbors_count(MPI_Comm c, int *in, int *out, int *w)
{
    (void)c; *in = 2; *out = 3; *w = 0; return 0;
}
#ifdef MPIX_ATTR_C
int PMPIX_Op_set_x(MPI_Op op, MPIX_User_function_x *f, MPIX_Destructor_function *d, void *s)
{
    (void)op, (void)f, (void)d, (void)s; return 0;
}
int PMPIX_Errhandler_set_x(MPI_Errhandler e, MPIX_Errhandler_function_x *f,
                           MPIX_Destructor_function *d, void *s)
{
    (void)e, (void)f, (void)d, (void)s; return 0;
}
int PMPIX_Keyval_set_x(int k, int l, MPIX_Destructor_function *d)
{
    (void)k, (void)l, (void)d; return 0;
}
MPI_Fint *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
MPI_F08_status *MPI_F08_STATUS_IGNORE, *MPI_F08_STATUSES_IGNORE;
#endif
/* Open MPI's pointers of this kind have no object.  Those of requests have Weft's values. */
#ifdef OMPI
#define OBJECT(v) (0x80000000u | (v))
#else
#define OBJECT(v) (v)
#endif
"""


def c_name(a):
    return re.search(r"(\w+)(?:\[\w*\])*$", a.decl).group(1)


def makes(a):
    return "(uintptr_t)" if a.base == "MPI_Request" else "OBJECT"


def record(proc, a):
    """(statements that print, statements that set) of one parameter."""
    v, n, k = c_name(a), proc.n(a), a.number
    handles = a.base in ["MPI_" + h for h in HANDLES]
    if "function" in a.base:
        return "fn((uintptr_t)%s);" % v, ""
    if a.name == "extra_state":
        return 'printf(" state");', ""
    if a.kind == "LOGICAL_VOID":
        return 'printf(" p");', ""
    if a.kind in ("C_BUFFER", "C_BUFFER2"):
        return "", "*(void **)%s = (void *)(uintptr_t)%d;" % (v, 28672 + k)
    if a.kind.startswith("ATTRIBUTE_VAL"):
        if a.direction == "in":
            return "num((intptr_t)%s);" % v, ""
        return "", "*(void **)%s = (void *)(intptr_t)%d;" % (v, 1000 + k)
    if a.base == "void":
        return "ptr(%s);" % v, ""
    if a.base == "MPI_Status":
        show = "r_status(%s);" % v
        if a.direction == "in":
            return show, ""
        return (show if a.direction == "inout" else ""), "set_status(%s, %d);" % (
            v,
            n if a.is_array else 1,
        )
    if a.base == "char":
        return record_string(a, v, n)
    if handles and not a.stars:
        return "handle(%s);" % v, ""
    if handles and not a.is_array:
        show = "handle(*%s);" % v if a.direction != "out" else ""
        return show, "*%s = (%s)(uintptr_t)%s(%d);" % (v, a.base, makes(a), 20480 + k)
    if handles:
        show = "for (int i = 0; i < %d; i++) handle(%s[i]);" % (n, v)
        put = "for (int i = 0; i < %d; i++) %s[i] = (%s)(uintptr_t)%s(%d + i);"
        put = put % (n, v, a.base, makes(a), 20480 + k)
        return (show if a.direction != "out" else ""), put if a.direction != "in" else ""
    if not a.stars:
        return "num(%s);" % v, ""
    if not a.is_array:
        value = {"outcount": 2, "buflen": 6, "pset_len": 6}.get(a.name, 1000 + k)
        value = 1 if a.kind == "LOGICAL" else value
        return ("num(*%s);" % v if a.direction == "inout" else ""), "*%s = %d;" % (v, value)
    return record_ints(a, v, n, k)


def record_string(a, v, n):
    if a.direction == "out":
        return "", 'strcpy(%s, "out-%d");' % (v, a.number)
    if a.name == "argv":
        return "for (int i = 0; %s && %s[i]; i++) str(%s[i]);" % (v, v, v), ""
    if a.name == "array_of_argv":
        loop = "for (int i = 0; i < 2; i++) for (int j = 0; %s[i][j]; j++) str(%s[i][j]);"
        return loop % (v, v), ""
    if a.name == "array_of_commands":
        return "for (int i = 0; i < 2; i++) str(%s[i]);" % v, ""
    return "str(%s);" % v, ""


def record_ints(a, v, n, k):
    if a.kind == "RANK" and a.length == "nx3":
        return "for (int i = 0; i < 6; i++) num(((int *)%s)[i]);" % v, ""
    show = "for (int i = 0; i < %d; i++) num(%s[i]);" % (n, v)
    value = "i == 0" if a.kind == "LOGICAL" else "%d + i" % (1000 + k)
    put = "for (int i = 0; i < %d; i++) %s[i] = %s;" % (n, v, value)
    if a.direction == "in":
        return show, ""
    return (show if a.direction == "inout" else ""), put


def record_function(proc, prefix):
    """One C procedure."""
    name = prefix + proc.c["name"]
    params = proc.c["c_params"]
    if proc.c["return_kind"] in ("WALL_TIME", "TICK_RESOLUTION"):
        return 'double %s(void) { printf("%s\\n"); fflush(stdout); return 12.5; }\n' % (name, name)
    head = "%s %s(%s)" % (proc.c["return_type"], name, re.sub(r"(\w*weights)\[\]", r"*\1", params))
    parts = [record(proc, a) for a in proc.args if a.decl]
    body = "".join("    %s\n" % text for text, _ in parts if text)
    body += "".join("    %s\n" % text for _, text in parts if text)
    end = "return done();"
    if proc.c["return_type"] == "MPI_Aint":
        end = "done(); return 777;"
    return '%s\n{\n    printf("%s");\n%s    %s\n}\n' % (head, name, body, end)


def expected(proc, prefix):
    """The line that a call prints."""
    words = []
    for a in proc.args:
        if a.decl:
            words += printed(proc, a)
    return " ".join([prefix + proc.c["name"]] + words)


def printed(proc, a):
    n = proc.n(a)
    handles = a.base in ["MPI_" + h for h in HANDLES]
    if "function" in a.base:
        if FOREIGN:
            return ["fn"]
        return ["1" if a.base.endswith(("_copy_attr_function", "MPI_Copy_function")) else "fn"]
    if a.name == "extra_state":
        return ["state"]
    if a.kind == "LOGICAL_VOID":
        return ["p"]
    if a.kind in ("C_BUFFER", "C_BUFFER2") or a.direction == "out" and a.base != "void":
        return []
    if a.kind.startswith("ATTRIBUTE_VAL"):
        return [str(200 + a.number)] if a.direction == "in" else []
    if a.base == "void":
        return ["buf+%d" % (8 * a.number)]
    if a.base == "MPI_Status":
        return [str(31 + i) for i in range(STATUS)]
    if a.base == "char":
        return {
            "argv": ["'a1'", "'b2'"],
            "array_of_argv": ["'a1'", "'b1'", "'a2'"],
            "array_of_commands": ["'p1'", "'p2'"],
        }.get(a.name, ["'%st%d'" % ("" if a.name in ("key", "value", "command") else " ", a.number)])
    if handles:
        count = n if a.is_array else 1
        return ["h%d" % (HANDLE + (proc.element(a, i) if a.is_array else a.number))
                for i in range(count)]
    if a.kind == "LOGICAL":
        return ["1", "0"] if a.is_array else ["1"]
    if a.is_array:
        return [str(proc.element(a, i)) for i in range(n)]
    v = proc.scalar(a)
    return [str(v + 1 if a.name in ("buflen", "pset_len") else v)]


# ---- the Fortran programs ----

TOP_F = """! Generated by record_gen.py.
module record_checks
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: bad = 0
  interface
    subroutine record_area(p) bind(C, name="record_area")
      import :: c_ptr
      type(c_ptr), value :: p
    end subroutine
  end interface
contains
  subroutine want(what, got, expected)
    character(*), intent(in) :: what
    integer(8), intent(in) :: got, expected
    if (got == expected) return
    bad = bad + 1
    print '(3a,i0,a,i0)', 'BAD ', what, ': got ', got, ', expected ', expected
  end subroutine
  subroutine want_text(what, got, expected)
    character(*), intent(in) :: what, got, expected
    if (got == expected .and. len(got) == 20) return
    bad = bad + 1
    print '(5a)', 'BAD ', what, ': got "', got, '"'
  end subroutine
end module
"""


def use(form):
    return {
        "mpif": ("", "  include 'mpif.h'\n"),
        "mpi": ("  use mpi\n", ""),
        "mpi_f08": ("  use mpi_f08\n", ""),
    }[form]


CASTS = {"ADDRESS": "integer(MPI_ADDRESS_KIND)", "COUNT": "integer(MPI_COUNT_KIND)"}
CASTS["OFFSET"] = "integer(MPI_OFFSET_KIND)"


class Call:
    """A call of one procedure in one form: declarations, values, arguments, checks."""

    def __init__(self, proc, form):
        self.proc, self.form = proc, form
        self.decls, self.sets, self.args, self.checks = [], [], [], []
        for a in proc.args:
            self.add(a)

    def declare(self, text, a, shape=""):
        self.decls.append("    %s :: %s%s" % (text, a.name, shape))

    def set(self, name, value):
        self.sets.append("    %s = %s" % (name, value))

    def check(self, a, got, value):
        self.checks.append(
            "    call want('%s %s', int(%s, 8), %d_8)" % (self.proc.name, a.name, got, value)
        )

    def add(self, a):
        f08 = self.form == "mpi_f08"
        self.args.append(a.name)
        if a.name in ("ierror", "ierr") and not a.decl:
            self.declare("integer", a)
            self.set(a.name, -99)
            self.check(a, a.name, 0)
        elif a.type.startswith(("EXTERNAL", "PROCEDURE")):
            self.args[-1] = self.procedure(a)
        elif a.kind in ("C_BUFFER", "C_BUFFER2"):
            self.pointer(a, f08)
        elif a.is_choice:
            self.args[-1] = "buf(%d)" % (2 * a.number + 1)
        elif "STATUS_SIZE" in a.type + a.shape or "MPI_Status" in a.type or a.base == "MPI_Status":
            self.status(a, f08)
        elif a.type.startswith("CHARACTER"):
            self.text(a)
        elif a.type.startswith("LOGICAL"):
            self.logical(a)
        else:
            self.number(a, f08)

    def procedure(self, a):
        kind = a.decl.replace("const ", "").split(" ")[0].rstrip("*")
        if kind.endswith("_copy_attr_function"):
            return "MPI_%s_DUP_FN" % kind.split("_")[1].upper()
        if kind == "MPI_Copy_function":
            return "MPI_DUP_FN"
        return "cb_" + kind[4:].lower()

    def pointer(self, a, f08):
        if f08:
            self.declare("type(c_ptr)", a)
            self.check(a, "transfer(%s, 0_8)" % a.name, 28672 + a.number)
        elif a.is_choice:
            self.declare("integer(8)", a, "(1)")
            self.set(a.name, 5)
            self.check(a, a.name + "(1)", 5)
        else:
            self.declare("integer(MPI_ADDRESS_KIND)", a)
            self.check(a, a.name, 28672 + a.number)

    def status(self, a, f08):
        n = self.proc.n(a) if a.is_array else 1
        shape = "(%d)" % n if a.is_array else ""
        if f08:
            self.declare("type(MPI_Status)", a, shape)
        else:
            self.declare("integer", a, "(MPI_STATUS_SIZE%s)" % (",%d" % n if a.is_array else ""))
        kind = "[integer ::" + ",".join(str(31 + i % STATUS) for i in range(STATUS * n)) + "]"
        if f08:
            self.set(a.name, "transfer(%s, %s%s)" % (kind, a.name, ", %d" % n if shape else ""))
        else:
            self.set(a.name, "reshape(%s, shape(%s))" % (kind, a.name))
        if a.direction == "in":
            return
        self.decls.append("    integer :: %s_i(%d)" % (a.name, STATUS * n))
        self.checks.append("    %s_i = transfer(%s, %s_i)" % (a.name, a.name, a.name))
        for i in (0, 1, 2, STATUS - 1) + ((2 * STATUS - 1,) if n == 2 else ()):
            self.check(a, "%s_i(%d)" % (a.name, i + 1), 11 + i)
        if f08 and n == 1:
            self.check(a, a.name + "%MPI_TAG", 12)

    def text(self, a):
        if a.name in ("argv", "array_of_argv", "array_of_commands"):
            shape, values = {
                "argv": ("(3)", ["a1", " b2", ""]),
                "array_of_argv": ("(2,3)", ["a1", "a2", " b1", "", "", ""]),
                "array_of_commands": ("(2)", [" p1", "p2"]),
            }[a.name]
            self.declare("character(8)", a, shape)
            items = ",".join("'%-8s'" % v for v in values)
            self.set(a.name, "reshape([%s], shape(%s))" % (items, a.name))
            return
        size = re.search(r"LEN=(MPI_\w+)", a.type)
        self.declare("character(%s)" % (size.group(1) if size else "20"), a)
        if a.direction == "in":
            self.set(a.name, "' t%d'" % a.number)
        else:
            self.checks.append(
                "    call want_text('%s %s', %s(1:20), 'out-%d')"
                % (self.proc.name, a.name, a.name, a.number)
            )

    def logical(self, a):
        if a.is_array:
            self.declare("logical", a, "(2)")
            self.set(a.name, "[.true., .false.]" if a.direction == "in" else "[.false., .true.]")
        else:
            self.declare("logical", a)
            yes = a.direction == "in" and a.name != "logical_false"
            self.set(a.name, ".true." if yes else ".false.")
        if a.direction != "in" and a.kind == "LOGICAL":
            self.check(a, "merge(1, 0, %s%s)" % (a.name, "(1)" if a.is_array else ""), 1)
            if a.is_array:
                self.check(a, "merge(1, 0, %s(2))" % a.name, 0)

    def number(self, a, f08):
        m = re.search(r"KIND=MPI_(\w+)_KIND", a.type)
        handle = a.base[4:] if a.base[4:] in HANDLES and a.base.startswith("MPI_") else None
        kind = CASTS[m.group(1)] if m else "integer"
        if handle and f08:
            kind = "type(MPI_%s)" % handle
        val = "%MPI_VAL" if handle and f08 else ""
        n = self.proc.n(a)
        ranges = a.length == "nx3"
        self.declare(kind, a, "(3,2)" if ranges else "(%d)" % n if a.is_array else "")
        if ranges:
            items = ",".join(str(self.proc.element(a, i)) for i in range(6))
            self.set(a.name, "reshape([integer :: %s], [3,2])" % items)
        elif a.is_array and a.direction != "out":
            for i in range(n):
                v = self.proc.element(a, i) + (HANDLE if handle else 0)
                self.set("%s(%d)%s" % (a.name, i + 1, val), v)
        elif a.direction != "out":
            v = HANDLE + a.number if handle else self.proc.scalar(a)
            v = 200 + a.number if a.kind.startswith("ATTRIBUTE_VAL") else v
            self.set(a.name + val, v)
        if a.direction != "in" or a.decl and a.stars == 1 and handle and not a.is_array:
            self.outputs(a, n, handle, val)

    def outputs(self, a, n, handle, val):
        first = 20480 + a.number if handle else 1000 + a.number
        if a.kind == "INDEX" and (not a.is_array or a.length == "*"):
            first += 1  # Fortran counts from 1
        if a.is_array:
            for i in range(n):
                self.check(a, "%s(%d)%s" % (a.name, i + 1, val), first + i)
            return
        first = {"outcount": 2, "buflen": 5, "pset_len": 5}.get(a.name, first)
        self.check(a, a.name + val, first)


def subroutine(proc, form, number):
    """Calls of MPI_X and PMPI_X, in mpi_f08 also without IERROR."""
    call, lines = Call(proc, form), []
    name = proc.generic
    prefixes = ("",) if proc.name[4:] in ASKED else ("", "P")
    for prefix in prefixes:
        lines += call.sets
        if proc.returns != "subroutine":
            value = "int(%s%s(%s), 8)" % (prefix, name, ", ".join(call.args))
            good = 12 if "DOUBLE" in proc.returns else 777
            lines.append("    call want('%s', %s, %d_8)" % (name, value, good))
        else:
            lines.append("    call %s%s(%s)" % (prefix, name, ", &\n      ".join(call.args)))
        lines += call.checks
        if form == "mpi_f08" and call.args and call.args[-1] == "ierror":
            lines += call.sets
            by_name = ["%s=%s" % (a.name, v) for a, v in zip(proc.args, call.args)]
            lines.append("    call %s%s(%s)" % (prefix, name, ", &\n      ".join(by_name[:-1])))
            if prefix == "":
                lines += [c for c in call.checks if "ierror" not in c]
    text = "  subroutine t%d\n    integer(4) :: buf(64)\n    common /recordarea/ buf\n"
    return text % number + "\n".join(call.decls + lines) + "\n  end subroutine\n"


def callbacks(table, form):
    """Procedures to pass, with the interface that each needs."""
    out = ["module callbacks", use(form)[0].rstrip("\n"), "implicit none", "contains"]
    for r in table:
        if r["category"] != "callback" or "none" in r["modules"]:
            continue
        for suffix, column in (("", "f08_args"), ("_c", "f08_large_args")):
            text = r[column] if form == "mpi_f08" else r["f90_args"]
            if text == "-" or suffix and form != "mpi_f08":
                continue
            args = [Arg(t, 0) for t in text.split(" ; ")]
            out.append("subroutine cb_%s%s(%s)" % (
                r["name"][4:].lower(), suffix, ", ".join(a.name for a in args)))
            out += ["  use, intrinsic :: iso_c_binding"] if form == "mpi_f08" else []
            out += [use(form)[1].rstrip("\n")] if form == "mpif" else []
            for a in args:
                kind = "integer" if a.is_choice else a.type
                shape = "(*)" if a.is_choice else a.shape
                out.append("  %s :: %s%s" % (kind, a.name, shape))
            out.append("end subroutine")
    return "\n".join(line for line in out + ["end module"] if line) + "\n"


def large_is_distinct(row):
    """Whether the large-count form is another specific procedure: some INTEGER has another size.
    With 8-byte INTEGER there is no other."""
    plain = re.sub(r"MPI_(COUNT|ADDRESS|OFFSET)_KIND", "8", row["f08_args"])
    large = re.sub(r"MPI_(COUNT|ADDRESS|OFFSET)_KIND", "8", row["f08_large_args"])
    return plain != large


def procedures(table, functions, form, width):
    out = []
    twins = {r["large_count_of"]: r for r in functions.values()}
    for r in table:
        module = "mpif.h" if form == "mpif" else form
        if r["category"] != "procedure" or module not in r["modules"].split(","):
            continue
        if r["name"] in NO_C or FOREIGN and NOT_FOREIGN.fullmatch(r["name"]):
            continue
        args = r["f08_args"] if form == "mpi_f08" else r["f90_args"]
        p = Proc(r, args, functions[r["name"]])
        p.generic = p.name
        out.append(p)
        if form != "mpi_f08" or r["f08_large_form"] == "-":
            continue
        own = "separate" in r["f08_large_form"]
        if own or width == 4 and large_is_distinct(r):
            p = Proc(r, r["f08_large_args"], twins[r["name"]])
            p.generic = p.name + ("_c" if own else "")
            out.append(p)
    return out


def program(procs, form, table):
    text = TOP_F + callbacks(table, form)
    # One module: the compiler reads mpi_f08, or mpif.h, once.
    text += "module calls\n  use record_checks\n%s  use callbacks\n" % use(form)[0]
    text += "  implicit none\n%scontains\n" % use(form)[1]
    text += "".join(subroutine(p, form, i) for i, p in enumerate(procs))
    text += "end module\nprogram record_%s\n  use calls\n  implicit none\n" % form
    text += "  integer(4), target :: buf(64)\n  common /recordarea/ buf\n"
    text += "  call record_area(c_loc(buf))\n"
    text += "".join("  call t%d\n" % i for i in range(len(procs)))
    return text + "  if (bad > 0) stop 1\nend program\n"


def lines_of(procs, form):
    out = []
    for p in procs:
        for prefix in ("",) if p.name[4:] in ASKED else ("", "P"):
            line = expected(p, prefix)
            twice = form == "mpi_f08" and p.args and p.args[-1].name == "ierror"
            out += [line] * (2 if twice else 1)
    return "\n".join(out) + "\n"


def main():
    global STATUS, FOREIGN, HANDLE
    tables, to = sys.argv[1:3]
    width = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    if len(sys.argv) > 4:
        STATUS, FOREIGN, HANDLE = int(sys.argv[4]), True, 6000
    table = rows(tables, "fortran.tsv")
    functions = {r["name"]: r for r in rows(tables, "functions.tsv")}
    # All large-count twins, because with 8-byte INTEGER the plain Fortran calls them.
    twins = {r["large_count_of"]: r for r in functions.values()}
    large = [Proc(r, r["f08_large_args"], twins[r["name"]]) for r in table if r["name"] in twins]
    recorded = {p.c["name"]: p for p in large if p.args}
    os.makedirs(to, exist_ok=True)
    for form in FORMS[:1] if FOREIGN else FORMS:
        procs = procedures(table, functions, form, width)
        for p in procs:
            recorded[p.c["name"]] = p
        with open(os.path.join(to, "record_%s.f90" % form), "w", encoding="utf-8") as f:
            f.write(program(procs, form, table))
        with open(os.path.join(to, "record_%s.txt" % form), "w", encoding="utf-8") as f:
            f.write(lines_of(procs, form))
    with open(os.path.join(to, "record.c"), "w", encoding="utf-8") as f:
        f.write(TOP_C)
        for name in sorted(recorded):
            f.write(record_function(recorded[name], ""))
            if name[4:] not in ASKED:
                f.write(record_function(recorded[name], "P"))


if __name__ == "__main__":
    main()
