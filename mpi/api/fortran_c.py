# SPDX-License-Identifier: BSD-3-Clause
"""Writes the C sources of libmpifort_abi: for each procedure f_x(), which translates Fortran's
arguments and calls the C procedure it is given, and the entry points MPI_X and PMPI_X under all names
that compilers give them.  An argument that has no translation is an error."""

import re

import fortran_ts
from fortran import HANDLES
from fortran_f import operator_name
from table import wrap

# Procedures whose f_x() is written by hand in mpi/fortran: callbacks, attributes, arrays of strings,
# handshakes about a string's length, and what has no C procedure.
BY_HAND = re.compile(
    r"MPI_(Init|Init_thread|Session_init|F_sync_reg|Status_f2f08|Status_f082f|"
    r"Abi_[gs]et_fortran_booleans|Info_create_env|Info_get|Info_get_string|Session_get_nth_pset|"
    r"Comm_spawn|Comm_spawn_multiple|Op_create|Register_datarep|Grequest_start|"
    r"(Comm|Type|Win)_(create_keyval|[gs]et_attr)|Attr_[gp][eu]t|Keyval_create|"
    r"(Comm|Win|File|Session)_create_errhandler)|MPIX_Comm_iagree"
)
# Lengths of arrays that functions.tsv gives as "*".
LENGTHS = (
    (r"MPI_Cart_(rank|sub)", r"coords|remain_dims", "wf_ndims(*comm)"),
    (r"MPI_Graph_(create|map)", "edges", "*nnodes > 0 ? wf_in(index[*nnodes - 1]) : 0"),
    (r"MPI_Dist_graph_create", "destinations|weights", "wf_sum(degrees, wf_in(*n))"),
    (r"MPI_Dist_graph_create_adjacent", "sourceweights", "wf_in(*indegree)"),
    (r"MPI_Dist_graph_create_adjacent", "destweights", "wf_in(*outdegree)"),
    (r"MPI_Dist_graph_neighbors", "sourceweights", "wf_in(*maxindegree)"),
    (r"MPI_Dist_graph_neighbors", "destweights", "wf_in(*maxoutdegree)"),
    (r"MPI_I?neighbor_alltoallw.*", "sendtypes", "wf_degree(*comm, true)"),
    (r"MPI_I?neighbor_alltoallw.*", "recvtypes", "wf_degree(*comm, false)"),
    (r"MPI_I?alltoallw.*", "sendtypes", "wf_is_cell(sendbuf, WF_INPLACE) ? 0 : wf_peers(*comm)"),
    (r"MPI_I?alltoallw.*", "recvtypes", "wf_peers(*comm)"),
    (r"MPI_\w+some", "array_of_(indices|statuses)", "wf_in(*incount)"),
    (r"MPI_\w+all", "array_of_statuses", "wf_in(*count)"),
)
STRING_MAX = {
    "datarep": "MPI_MAX_DATAREP_STRING",
    "key": "MPI_MAX_INFO_KEY",
}
BLANKS_AROUND = ("key", "value", "command")  # leading blanks do not count either
KINDS = {"ADDRESS": "MPI_Aint", "COUNT": "MPI_Count", "OFFSET": "MPI_Offset"}


class Code:
    """The translation of one argument: lines before the call, the expression in it, lines after.
    `mode` says how the INTEGERs of counts reach C: "plain": as int; "large": the procedure called is
    WF_LARGE(MPI_X); "wide": the argument has MPI_COUNT_KIND."""

    def __init__(self, proc, arg, mode):
        self.proc, self.arg, self.mode = proc, arg, mode
        self.name, self.c = arg.name, arg.c
        self.before, self.after = [], []
        by_hand = BY_HAND.fullmatch(proc.name)
        self.expr = None if by_hand else self.translate()

    # ---- declarations ----

    def c_type(self):
        t = self.arg.type
        if self.arg.is_choice or "C_PTR" in t:
            return "void"
        if self.arg.is_string:
            return "char"
        m = re.search(r"KIND=MPI_(\w+)_KIND", t)
        return KINDS[m.group(1)] if m else "wf_int"

    def declaration(self):
        if self.arg.type.startswith(("EXTERNAL", "PROCEDURE")):
            return "wf_procedure *%s" % self.name
        const = self.c is not None and self.c.direction == "in" and not self.is_cancel()
        return "%s%s *%s" % ("const " if const else "", self.c_type(), self.name)

    def is_cancel(self):
        """MPI_Cancel passes its request by address, but does not change it."""
        return self.c.stars == 1 and self.c.base in HANDLES and not self.c.is_array

    # ---- translation by class ----

    def translate(self):
        if self.arg.is_error or self.c is None:
            return None
        if "C_BUFFER2" == self.c.kind:
            return self.detached()
        if self.arg.is_choice:
            return "wf_buf(%s)" % self.name
        if "C_BUFFER" == self.c.kind:
            return self.name
        for bases, scalar, array in (
            (HANDLES, self.handle, self.handles),
            (("MPI_Status",), self.status, self.statuses),
            (("char",), self.string, None),
        ):
            if self.c.base in bases:
                return (array if self.c.is_array and array else scalar)()
        if self.c.kind == "LOGICAL":
            return self.logicals() if self.c.is_array else self.logical()
        if self.c.base in ("int", "MPI_Aint", "MPI_Count", "MPI_Offset"):
            return self.integers() if self.c.is_array else self.integer()
        raise SystemExit("fortran_c.py: no translation for %s of %s" % (self.name, self.proc.name))

    def length(self):
        n = self.c.length
        if n == "nx3":
            return "3 * wf_in(*n)"
        if n != "*":
            return "wf_in(*%s)" % n
        for procs, param, length in LENGTHS:
            if re.fullmatch(procs, self.proc.name, re.I) and re.fullmatch(param, self.name):
                return length
        raise SystemExit("fortran_c.py: no length for %s of %s" % (self.name, self.proc.name))

    def tmp(self, kind="struct wf_tmp"):
        self.before.append("%s %s_c;" % (kind, self.name))
        return "&%s_c" % self.name

    def n(self, wide_only=True):
        """Declares the array's length; where INTEGER is int it may not be needed, nor then read."""
        length = self.length()
        if wide_only:
            length = "WF_WIDE ? %s : 0" % (length if "?" not in length else "(%s)" % length)
        self.before.append("int %s_n = %s;" % (self.name, length))
        return self.name + "_n"

    def handle(self):
        name, null = self.name, "%s_NULL" % self.c.base.upper()
        if not self.c.stars:
            return "wf_h(%s, *%s)" % (self.c.base, name)
        given = "wf_h(%s, *%s)" % (self.c.base, name)
        start = null if self.c.direction == "out" else given
        self.before.append("%s %s_c = %s;" % (self.c.base, name, start))
        self.after.append("*%s = wf_i(%s_c);" % (name, name))
        return "&%s_c" % name

    def handles(self):
        name, n, tmp, kind = self.name, self.n(wide_only=False), self.tmp(), self.c.base
        if self.c.direction == "out":
            null = "%s_NULL" % self.c.base.upper()
            self.after.append("wf_handles_done(%s, %s, %s, ret ? 0 : %s);" % (kind, tmp, name, n))
            return "wf_handles_out(%s, %s, %s, %s)" % (kind, tmp, n, null)
        if self.c.direction == "in":
            self.after.append("wf_tmp_free(%s);" % tmp)
        else:
            self.after.append("wf_handles_done(%s, %s, %s, %s);" % (kind, tmp, name, n))
        return "wf_handles_in(%s, %s, %s, %s)" % (kind, tmp, name, n)

    def status(self):
        tmp = self.tmp("MPI_Status")
        if self.c.direction == "in":
            return "wf_status_in(%s, %s)" % (self.name, tmp)
        self.after.append("wf_status_done(%s, %s);" % (self.name, tmp))
        return "wf_status_out(%s, %s)" % (self.name, tmp)

    def some(self, n):
        """How many elements of an output array of n count after the call."""
        return "(int)*outcount" if self.proc.name.lower().endswith("some") else n

    def statuses(self):
        n, tmp = self.n(), self.tmp()
        self.after.append("wf_statuses_done(%s, %s, %s);" % (tmp, self.name, self.some(n)))
        return "wf_statuses_out(%s, %s, %s)" % (tmp, self.name, n)

    def string(self):
        name = self.name
        if self.c.direction == "in":
            tmp = self.tmp()
            self.after.append("wf_tmp_free(%s);" % tmp)
            both = "true" if name in BLANKS_AROUND else "false"
            return "wf_string_in(%s, %s, %s_len, %s)" % (tmp, name, name, both)
        size = self.c.length or STRING_MAX[name]
        self.before.append('char %s_c[%s] = "";' % (name, size))
        self.after += ["if (!ret)", "    wf_string_done(%s, %s_len, %s_c);" % (name, name, name)]
        return "%s_c" % name

    def logical(self):
        name = self.name
        if self.c.direction == "in":
            return "wf_logical_in(*%s)" % name
        self.before.append("int %s_c = 0;" % name)
        self.after.append("*%s = wf_logical(%s_c);" % (name, name))
        return "&%s_c" % name

    def logicals(self):
        name, n, tmp = self.name, self.n(wide_only=False), self.tmp()
        if self.c.direction == "in":
            self.after.append("wf_tmp_free(%s);" % tmp)
            return "wf_logicals_in(%s, %s, %s)" % (tmp, name, n)
        self.after.append("wf_logicals_done(%s, %s, %s, ret);" % (tmp, name, n))
        return "wf_logicals_out(%s, %s)" % (tmp, n)

    @property
    def keeps_width(self):
        """The value or array goes to C as it is."""
        if self.c_type() != "wf_int":
            return True
        return self.mode == "large" and self.c.kind.startswith("POLY")

    def integer(self):
        name = self.name
        if self.c.direction == "in" and not self.c.stars:
            return "*%s" % name if self.keeps_width else "wf_in(*%s)" % name
        if self.keeps_width:
            return "(void *)%s" % name
        tmp = self.tmp("int")
        if name == "outcount":
            self.before.append("*%s = 0;" % name)
        self.after.append("wf_put(%s, %s);" % (name, tmp))
        if self.c.kind == "INDEX" and self.c.direction == "out":
            self.after.append("*%s = wf_index((int)*%s);" % (name, name))
        return "wf_out(%s, %s)" % (name, tmp)

    def integers(self):
        name, out = self.name, self.c.direction == "out"
        if self.keeps_width:
            return "(void *)(uintptr_t)%s" % name
        n, tmp = self.n(), self.tmp()
        if self.c.kind == "WEIGHT":
            read, name = ("false", name) if out else ("true", "(wf_int *)(uintptr_t)%s" % name)
            done = "wf_weights_done(%s, %s, %s);" % (tmp, name, n)
            self.after.append(done if out else "wf_weights_free(%s);" % tmp)
            return "wf_weights(%s, %s, %s, %s)" % (tmp, name, n, read)
        if self.c.direction == "in":
            self.after.append("wf_ints_free(%s);" % tmp)
            cast = "(void *)(uintptr_t)" if self.c.array == "[][3]" else ""
            return "%swf_ints_in(%s, %s, %s)" % (cast, tmp, name, n)
        if self.c.kind == "INDEX" and self.c.length == "*":
            self.after.append("wf_indices_done(%s, %s, %s);" % (tmp, name, self.some(n)))
        else:
            self.after.append("wf_ints_done(%s, %s, %s);" % (tmp, name, n))
        get = "wf_ints_out" if out else "wf_ints_in"
        return "%s(%s, %s, %s)" % (get, tmp, name, n)

    def detached(self):
        """The address of the buffer that was attached.  Only mpi_f08 can return it; the argument of
        the other forms has the wrong type and is unused (MPI-5.0 section 3.6)."""
        self.before.append("void *%s_c = NULL;" % self.name)
        if not self.arg.is_choice:
            self.after.append("*(const void **)%s = wf_unbuf(%s_c);" % (self.name, self.name))
        return "&%s_c" % self.name


class Form:
    """One form of a procedure: its f_x() and its entry points."""

    def __init__(self, proc, args, suffix=""):
        self.proc, self.suffix = proc, suffix
        self.short = proc.short + suffix
        c = proc.large_c if suffix == "_c" else proc.c
        self.c_name = self.c_short_name = c.name if c else None
        if suffix == "_c":
            mode = "wide"
        else:
            mode = "large" if calls_large(proc) else "plain"
            if mode == "large":
                self.c_name = "WF_LARGE(%s)" % c.name
        self.codes = [Code(proc, a, mode) for a in args]
        self.by_hand = bool(BY_HAND.fullmatch(proc.name))
        self.result = "void"
        if proc.is_function:
            self.result = "double" if "DOUBLE" in proc.returns else "MPI_Aint"

    def params(self):
        params = [c.declaration() for c in self.codes]
        params += ["size_t %s_len" % c.name for c in self.codes if c.arg.is_string]
        if self.c_name:
            params = ["__typeof__(%s) *fn" % self.c_name] + params
        return params

    def args(self):
        return [p.rsplit("*", 1)[-1].split(" ")[-1] for p in self.params()]

    def function(self):
        head = "static inline %s f_%s(%s)" % (self.result, self.short, ", ".join(self.params()))
        if self.by_hand:
            return ""
        call = "fn(%s)" % ", ".join(c.expr for c in self.codes if c.expr)
        before = [line for c in self.codes for line in c.before]
        after = [line for c in self.codes for line in c.after]
        if self.proc.is_function:
            lines = ["return %s;" % call]
        elif not any(c.arg.is_error for c in self.codes):
            lines = [call + ";"]
        else:
            lines = before + ["int ret = %s;" % call] + after
            lines.append("wf_error(%s, ret);" % self.codes[-1].name)
        return "%s\n{\n%s\n}\n" % (wrap(head), "\n".join(wrap("    " + t) for t in lines))

    def entry(self, prefix, names):
        """MPI_X or PMPI_X: the two call the C procedure of their own name."""
        params, args = self.params(), self.args()
        if self.c_name:
            params, target = params[1:], self.c_name
            if prefix:
                target = re.sub(r"\bMPI(X?)_", r"PMPI\1_", target)
            args = [target] + args[1:]
        lower = prefix.lower() + self.proc.name.lower()
        lower += self.suffix if self.suffix != "_p" else ""
        if "F08" in names:
            lower += "_f08"
        call = "f_%s(%s);" % (self.short, ", ".join(args))
        return "%s\n{\n%s\n}\n%s(%s, %s, %s);\n" % (
            wrap("WF_EXPORT %s %s_(%s)" % (self.result, lower, ", ".join(params) or "void")),
            wrap("    " + ("return " if self.result != "void" else "") + call),
            names,
            lower,
            lower.upper(),
            self.mpich_name(prefix, "f08"),
        )

    def mpich_name(self, prefix, kind):
        """The symbol of MPICH's module mpi_f08."""
        end = {"_c": "_large_", "_p": "_" if prefix else "__"}.get(self.suffix, "_")
        mpi = self.proc.name.split("_")[0].lower()
        return "%s_%s_%s%s" % ("p%sr" % mpi if prefix else mpi, self.proc.short, kind, end)

    def text(self, names):
        """A form with another argument list in mpi_f08 has descriptors in its own text."""
        out = "\n" + self.function() + self.entry("", names) + self.entry("P", names)
        if self.proc.cptr and not self.suffix:
            for prefix in ("", "P"):
                lower = "%smpi_%s" % (prefix.lower(), self.short)
                out += "WF_NAMES_CPTR(%s, %s);\n" % (lower, lower.upper())
        sections = fortran_ts.texts(self) if self.proc.has_choice else ""
        return out + ("\n#ifdef WF_SECTIONS\n%s#endif\n" % sections if sections else "")


def calls_large(proc):
    """Whether WF_LARGE(MPI_X) has the arguments of MPI_X.  Constructors of datatypes do not count:
    MPI_TYPE_GET_CONTENTS would refuse types whose contents are large counts."""
    large = proc.large_c
    if not large or len(large.params) != len(proc.c.params):
        return False
    if any(p.name == "newtype" for p in large.params):
        return False
    return not any("function" in p.base for p in large.params)


def forms(proc):
    """(form, macro that makes its names) of a procedure."""
    if proc.name == "MPI_Sizeof":
        return []  # needs a descriptor: mpi/fortran/section.c
    detach = any(a.c and a.c.kind == "C_BUFFER2" for a in proc.args)
    out = [(Form(proc, proc.args), "WF_NAMES_F90" if detach or proc.f08 is None else "WF_NAMES")]
    if detach:
        out.append((Form(proc, proc.f08, "_p"), "WF_NAMES_F08"))
    if proc.large:
        out.append((Form(proc, proc.large, "_c"), "WF_NAMES_F08"))
    return out


FILES = {
    "p2p": ("p2p", "request"),
    "buffer": ("p2p-buffer", "partitioned", "grequest", "status"),
    "coll": ("coll",),
    "neighbor": ("neighbor-coll",),
    "type": ("datatype", "fortran-interop", "op"),
    "comm": ("comm", "group", "topo", "ft"),
    "object": ("attr", "naming", "info", "err"),
    "env": ("init", "env", "session", "dynamic", "abi", "tool"),
    "io": ("io",),
    "rma": ("rma",),
}
TOP = """/* SPDX-License-Identifier: BSD-3-Clause */
/* Fortran entry points of the procedures of the groups %s.
 * Generated by mpi/api/gen.py from the API table; do not edit.  Any thread may call them, as the
 * thread level allows; they own nothing after the call. */
#include "mpi/fortran/fort.h"
#include "mpi/fortran/hand.h"
#include "mpi/fortran/section.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-parameter"
"""


OPERATORS = """/* SPDX-License-Identifier: BSD-3-Clause */
/* The operators == and /= of handles in mpi and mpi_f08: two functions under all the names of
 * specific procedures.  Generated by mpi/api/gen.py; do not edit. */
#include "mpi/fortran/fort.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

WF_EXPORT wf_int weft_eq_(const wf_int *a, const wf_int *b)
{
    return wf_logical(*a == *b);
}
WF_EXPORT wf_int weft_ne_(const wf_int *a, const wf_int *b)
{
    return wf_logical(*a != *b);
}
"""


def operators():
    out = OPERATORS
    for word in ("eq", "ne"):
        for handle in HANDLES:
            for form in ("hh", "hi", "ih"):
                name = operator_name(handle, word, form)
                out += "WF_OPERATOR(weft_%s, %s, %s);\n" % (word, name, name.upper())
    return out


def files(fortran):
    out = {"mpi/fortran/f_operators.c": operators()}
    known = {g for groups in FILES.values() for g in groups}
    for p in fortran.procs:
        if p.group not in known:
            raise SystemExit("fortran_c.py: FILES does not name the group %s" % p.group)
    for name, groups in FILES.items():
        text = TOP % ", ".join(groups)
        for p in fortran.procs:
            if p.group in groups:
                text += "".join(form.text(names) for form, names in forms(p))
        out["mpi/fortran/f_%s.c" % name] = text
    return out
