# SPDX-License-Identifier: BSD-3-Clause
"""The API table in memory: procedures, parameters, constants and types of the MPI-5.0 ABI, read
from the .tsv files of this folder, and the parameters of each procedure's body (the conversions are
in README.md)."""

import csv
import fnmatch
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))

# Procedures that use the error codes, requests and statuses of the caller's ABI (MPIX_Caller_set), so
# that those of mpi/foreign can jump to them: COMPLETE; and MESSAGE, but for their statuses.
MESSAGE = re.compile(r"MPI_I?[bsr]?send(_c)?|MPI_I?recv(_c)?", re.I)
COMPLETE = re.compile(r"MPI_(Wait|Test)(all|any|some)?|MPI_Request_get_status(_\w+)?|MPI_Start(all)?")
# Procedures that also exist for handles that are known to be predefined: PMPIX_X_known, which the most
# frequent messages of mpi/foreign jump to.
KNOWN = re.compile(r"MPI_(I?send|Irecv)", re.I)
DIRECT = re.compile("(?i:%s)|%s" % (MESSAGE.pattern, COMPLETE.pattern))

# Handle types that a body sees decoded: C type -> (struct, word in the names of its accessors, null
# handle, class of the error).

OBJECTS = {
    "MPI_Comm": ("wm_comm", "comm", "MPI_COMM_NULL", "COMM"),
    "MPI_Group": ("wm_group", "group", "MPI_GROUP_NULL", "GROUP"),
    "MPI_Datatype": ("wm_type", "type", "MPI_DATATYPE_NULL", "TYPE"),
    "MPI_Op": ("wm_op", "op", "MPI_OP_NULL", "OP"),
    "MPI_Errhandler": ("wm_errh", "errh", "MPI_ERRHANDLER_NULL", "ERRHANDLER"),
    "MPI_Info": ("wm_info", "info", "MPI_INFO_NULL", "INFO"),
    "MPI_Win": ("wm_win", "win", "MPI_WIN_NULL", "WIN"),
    "MPI_File": ("wm_file", "file", "MPI_FILE_NULL", "FILE"),
    "MPI_Session": ("wm_session", "session", "MPI_SESSION_NULL", "SESSION"),
}


def read_tsv(name):
    with open(os.path.join(HERE, name), encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


class Param:
    """One parameter as the standard declares it: C text `decl`, `before` + `name` + `array`."""

    def __init__(self, decl, semantics, number):
        m = re.fullmatch(r"(.*?)(\w+)((?:\[\w*\])*)", decl)
        self.decl, self.number = decl, number
        self.before, self.name, self.array = m.group(1), m.group(2), m.group(3)
        self.const = "const " in self.before
        self.base = self.before.replace("const ", "").replace("*", "").strip()
        self.stars = self.before.count("*")
        self.pointer = bool(self.stars or self.array)
        name, self.direction, kind = (semantics.split(":") + ["", ""])[:3]
        m = re.fullmatch(r"(\w+)(?:\[(.*)\])?", kind)
        self.kind = m.group(1)
        flags = m.group(2).split(",") if m.group(2) else []
        self.root_only = "root_only" in flags
        self.length = next((f[4:] for f in flags if f.startswith("len=")), None)
        self.is_array = bool(self.array) or self.length is not None

    def is_object(self, direction):
        """A single handle of a class that bodies see decoded."""
        stars = 0 if direction == "in" else 1
        return (
            self.base in OBJECTS
            and self.direction == direction
            and self.stars == stars
            and not self.array
            and self.length is None
        )


class Proc:
    def __init__(self, row):
        self.name, self.group, self.chapter = row["name"], row["group"], row["chapter"]
        self.returns, self.return_kind = row["return_type"], row["return_kind"]
        self.twin_of = None if row["large_count_of"] == "-" else row["large_count_of"]
        self.status, self.notes = row["status"], row["notes"]
        self.c_params, self.since = row["c_params"], row["since"]
        decls = [] if row["c_params"] in ("void", "-", "") else row["c_params"].split(", ")
        sems = row["param_semantics"].split("|") if row["param_semantics"] != "-" else []
        if self.status.startswith("removed"):
            sems = ["%s:in:REMOVED" % d for d in decls]
        self.variadic = bool(decls) and decls[-1] == "..."
        if self.variadic:
            decls, sems = decls[:-1], sems[:-1]
        if len(decls) != len(sems):
            raise SystemExit(
                "%s: %d C parameters but %d semantics" % (self.name, len(decls), len(sems))
            )
        self.params = [Param(d, s, i + 1) for i, (d, s) in enumerate(zip(decls, sems))]
        self.title = self.name.split("_", 1)[1]  # without MPI_ or MPIX_
        self.short = self.title.lower()

    def prototype(self, prefix=""):
        # Weights may be MPI_UNWEIGHTED, an address without an array, of which gcc warns for [].
        args = re.sub(r"(\w*weights)\[\]", r"*\1", self.c_params)
        return "%s %s%s(%s)" % (self.returns, prefix, self.name, args)

    @property
    def is_tool(self):
        return self.name.startswith("MPI_T_")

    @property
    def returns_error(self):
        return self.returns == "int" and self.return_kind == "ERROR_CODE"


class Rule:
    """A row of rules.tsv: `what` holds for the parameter `param` of procedures that match a
    pattern."""

    def __init__(self, row):
        self.patterns, self.param, self.what = (
            row["procedures"].split("|"),
            row["param"],
            row["rule"],
        )

    def matches(self, name, param):
        return self.param == param and any(fnmatch.fnmatchcase(name, p) for p in self.patterns)


class Table:
    def __init__(self):
        rows = read_tsv("functions.tsv")
        self.procs = [Proc(r) for r in rows if r["c_presence"] == "abi"]
        # Procedures of C that mpi.h defines over those of the ABI.
        self.fortran_procs = [Proc(r) for r in rows if r["c_presence"] == "not-in-abi(MPI_Fint)"]
        # Those that the standard does not have, written by hand in this folder.
        self.extensions = [Proc(r) for r in rows if r["c_presence"] == "extension"]
        self.by_name = {p.name: p for p in self.procs + self.extensions}
        self.removed_procs = [Proc(r) for r in rows if r["status"].startswith("removed")]
        rows = read_tsv("constants.tsv")
        self.constants = [r for r in rows if r["header_expr"] != "-"]
        self.removed_constants = [r for r in rows if r["status"].startswith("removed")]
        self.types = [r for r in read_tsv("types.tsv") if r["presence"] == "abi"]
        self.rules = [Rule(r) for r in read_tsv("rules.tsv")]
        self.twins = {p.twin_of: p for p in self.procs if p.twin_of}
        for r in self.rules:
            self.check_rule(r)

    def check_rule(self, rule):
        """Every pattern must name a procedure with the parameter: a typing error must not pass."""
        for pattern in rule.patterns:
            procs = [p for p in self.procs if fnmatch.fnmatchcase(p.name, pattern)]
            if rule.param not in ("-", "*"):
                procs = [p for p in procs if any(q.name == rule.param for q in p.params)]
            if not procs:
                raise SystemExit(
                    "rules.tsv: no procedure %s with a parameter %s" % (pattern, rule.param)
                )

    def rule(self, name, param, prefix):
        """The last rule of rules.tsv for this parameter that starts with `prefix`, without it; None
        when there is none.  A twin MPI_X_c obeys the rules of MPI_X."""
        if name.endswith("_c") and self.by_name[name].twin_of:
            name = self.by_name[name].twin_of
        found = [
            r.what[len(prefix) :]
            for r in self.rules
            if r.what.startswith(prefix) and r.matches(name, param)
        ]
        return found[-1] if found else None

    def collective(self, proc):
        """The blocking, nonblocking or persistent form of a collective; None for others.  One body
        serves all forms: the binding makes the struct wm_call, with communicator, form, request,
        kind and root, and the body adds the buffers.  Any procedure whose name says a form and
        whose checks are those of the blocking one can be added here."""
        plain = self.by_name[proc.twin_of] if proc.twin_of else proc
        if plain.group not in ("coll", "neighbor-coll"):
            return None
        for base in self.procs:
            if base.group != plain.group or nonblocking(base) not in self.by_name:
                continue
            forms = {
                base.name: "WM_BLOCKING",
                nonblocking(base): "WM_NONBLOCKING",
                base.name + "_init": "WM_PERSISTENT",
            }
            if plain.name in forms:
                return Collective(base, forms[plain.name])
        return None

    def body_of(self, proc):
        """Whose body serves `proc`: its own, that of its plain twin, of the blocking form of a
        collective, or what rules.tsv names."""
        coll = self.collective(proc)
        if coll and coll.base is not proc:
            return self.body_of(coll.base)
        alias = self.rule(proc.name, "-", "body=")
        if alias:
            return self.by_name[alias]
        if proc.twin_of and self.shares_body(self.by_name[proc.twin_of], proc):
            return self.by_name[proc.twin_of]
        return proc

    @staticmethod
    def shares_body(plain, large):
        if len(plain.params) != len(large.params):
            return False
        return all(
            "function" not in a.base or a.base == b.base for a, b in zip(plain.params, large.params)
        )


class Collective:
    """How a procedure makes a collective: `base`, the blocking procedure; its form as C names it;
    its kind."""

    def __init__(self, base, form):
        self.base, self.form = base, form
        self.kind = "COLL_" + base.short.upper()


class BodyParam:
    """How a parameter appears in the body: C declaration and the conversion that the binding does.
    conv: raw, object, object_out, object_free, scalar, scalar_out, scalar_inout, counts, displs"""

    def __init__(self, decl, conv):
        self.decl, self.conv = decl, conv


def nonblocking(proc):
    return "MPI_I" + proc.short


FREED = ("free", "disconnect", "finalize", "close")


def body_param(table, proc, p, twin):
    """`twin`: the parameter of the large-count twin in the same place, or None."""
    name = p.name
    if not proc.is_tool:
        if p.is_object("in"):
            return BodyParam("struct %s *%s" % (OBJECTS[p.base][0], name), "object")
        if p.is_object("out"):
            return BodyParam("struct %s **%s" % (OBJECTS[p.base][0], name), "object_out")
        if p.is_object("inout"):
            freed = proc.short.rsplit("_", 1)[-1] in FREED
            return BodyParam(
                "struct %s *%s" % (OBJECTS[p.base][0], name),
                "object_free" if freed else "object_inout",
            )
    if twin is None or twin.before == p.before:
        return BodyParam(p.decl, "raw")
    displ = "DISP" in p.kind or p.kind == "POLYLOCATION"
    if p.is_array:
        return BodyParam(
            "struct %s %s" % ("wm_displs" if displ else "wm_counts", name),
            "displs" if displ else "counts",
        )
    if p.direction == "in":
        return BodyParam("%s %s" % (twin.base, name), "scalar")
    return BodyParam("%s *%s" % (twin.base, name), "scalar_" + p.direction)


def passed_params(table, proc):
    """The parameters that a body is given; those in a collective's struct wm_call are not."""
    if not table.collective(proc):
        return proc.params
    return [p for p in proc.params if p.name not in ("root", "comm", "info", "request")]


def body_params(table, proc):
    """Parameters of the body of `proc`, which must own one (table.body_of(proc) is proc)."""
    twin = table.twins.get(proc.name)
    if twin and not table.shares_body(proc, twin):
        twin = None
    large = passed_params(table, twin) if twin else []
    return [
        body_param(table, proc, p, large[i] if twin else None)
        for i, p in enumerate(passed_params(table, proc))
    ]


def has_no_body(proc):
    """Procedures that the generator writes completely."""
    return proc.name in ("MPI_Aint_add", "MPI_Aint_diff") or proc.name.endswith(
        ("_toint", "_fromint")
    )


def body_prototype(table, proc):
    params = ["struct wm_call *call"] if table.collective(proc) else []
    params = ", ".join(params + [b.decl for b in body_params(table, proc)]) or "void"
    return "%s wm_api_%s(%s)" % (proc.returns, proc.short, params)


def pieces(text):
    """Text cut where a line may break: after a comma or && outside braces and strings."""
    out, piece, depth, quoted = [], "", 0, False
    for i, c in enumerate(text):
        piece += c
        if c == '"':
            quoted = not quoted
        depth += (c == "{") - (c == "}")
        if c == " " and not quoted and depth <= 0 and piece.endswith((", ", "&& ")):
            out.append(piece)
            piece = ""
    return out + [piece]


def wrap(text, width=100):
    """Breaks a line of C that is too long; what follows is indented by four more columns."""
    if len(text) <= width:
        return text
    indent = " " * (len(text) - len(text.lstrip()) + 4)
    lines, line = [], ""
    for piece in pieces(text):
        if line.strip() and len((line + piece).rstrip()) > width:
            lines.append(line.rstrip())
            line = indent
        line += piece
    return "\n".join(lines + [line.rstrip()])
