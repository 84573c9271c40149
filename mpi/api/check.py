# SPDX-License-Identifier: BSD-3-Clause
"""Which check each argument gets, and its C text.  Defaults come from the parameter's kind,
exceptions from rules.tsv (rows `check=`); see README.md for the list of checks."""

from table import DIRECT, OBJECTS

# Kinds whose negative values are errors, and of which class.
NEGATIVE = {
    "POLYXFER_NUM_ELEM_NNI": "count",
    "POLYDTYPE_NUM_ELEM_NNI": "count",
    "XFER_NUM_ELEM_NNI": "count",
    "POLYNUM_BYTES_NNI": "number=MPI_ERR_ARG",
    "POLYDTYPE_PACK_SIZE": "number=MPI_ERR_ARG",
    "POLYNUM_PARAM_VALUES": "number=MPI_ERR_ARG",
    "ARRAY_LENGTH": "number=MPI_ERR_ARG",
    "ARRAY_LENGTH_NNI": "number=MPI_ERR_ARG",
    "ARRAY_LENGTH_PI": "number=MPI_ERR_ARG",
    "NUM_DIMS": "number=MPI_ERR_DIMS",
    "ALLOC_MEM_NUM_BYTES": "number=MPI_ERR_ARG",
    "PARTITION": "number=MPI_ERR_ARG",
    "DEGREE": "number=MPI_ERR_ARG",
    "WINDOW_SIZE": "number=MPI_ERR_SIZE",
    "INFO_VALUE_LENGTH": "number=MPI_ERR_ARG",
}
COUNT_KINDS = ("count", "number=MPI_ERR_ARG")
# Communication needs the layout of its datatypes, so they must be committed; other calls only look.
COMMUNICATING = ("p2p", "coll", "neighbor-coll", "partitioned", "io", "rma")
# Pointers that may be null, or that only a body can judge.
FREE_KINDS = (
    "STATUS",
    "EXTRA_STATE",
    "EXTRA_STATE2",
    "ARGUMENT_COUNT",
    "ARGUMENT_LIST",
    "WEIGHT",
    "FUNCTION",
    "POLYFUNCTION",
    "STRING_ARRAY",
    "STRING_2DARRAY",
    "ERROR_CODE_ARRAY",
)


def object_check(proc, p):
    if p.base == "MPI_Info":
        return "null"
    if p.base == "MPI_Datatype" and proc.group in COMMUNICATING:
        return "ctype"
    if p.base == "MPI_Op" and (proc.group == "coll" or proc.short == "reduce_local"):
        return "reduce"
    return "object"


def pointer_check(proc, p):
    if p.kind == "BUFFER":
        return "buffer"
    if p.kind == "STATUS":
        return "none" if p.direction == "out" else "nonnull"
    if (
        p.kind in FREE_KINDS
        or (p.kind == "ATTRIBUTE_VAL" or p.kind == "ATTRIBUTE_VAL_10")
        and p.direction == "in"
    ):
        return "none"
    if p.is_array and p.length and any(q.name == p.length for q in proc.params):
        return "array=" + p.length
    if p.is_array and p.kind in ("POLYXFER_NUM_ELEM_NNI", "XFER_NUM_ELEM_NNI"):
        return "counts"
    if p.is_array and p.kind == "POLYDISPLACEMENT":
        return "nonnull"
    if p.is_array and p.kind != "STRING":
        return "none"
    return "nonnull"


def default_check(proc, p):
    if any(p.is_object(d) for d in ("in", "inout")):
        return object_check(proc, p)
    if p.kind == "TAG" and p.direction == "in":
        return "tag"
    if p.pointer or p.kind in ("FUNCTION", "POLYFUNCTION"):
        return pointer_check(proc, p)
    if p.direction == "in" and proc.group == "request" and p.kind == "ARRAY_LENGTH_NNI":
        return "count"
    return NEGATIVE.get(p.kind, "none") if p.direction == "in" else "none"


def fits(check, p):
    """A rule may name parameters of several procedures; it holds for those it can mean."""
    if check in ("object", "null", "any", "ctype", "reduce"):
        return p.is_object("in") or p.is_object("inout")
    return check not in ("rank", "source", "member", "root", "tag", "recv_tag") or not p.pointer


def check_of(table, proc, p):
    if proc.is_tool:
        return "none"
    wild = table.rule(proc.name, "*", "check=") if p.kind in ("FILE", "FUNCTION") else None
    for rule in (table.rule(proc.name, p.name, "check="), wild):
        if rule and fits(rule, p):
            return rule
    return default_check(proc, p)


def arg(p):
    return '"argument %d (%s)"' % (p.number, p.name)


class Writer:
    """The checks of one procedure as C lines, gathered in `lines` by write()."""

    def __init__(self, table, proc):
        self.table, self.proc = table, proc
        self.checks = {p.name: check_of(table, proc, p) for p in proc.params}
        self.root = next((p for p in proc.params if self.checks[p.name] == "root"), None)
        self.comm = next(
            (p for p in proc.params if p.is_object("in") and p.base == "MPI_Comm"), None
        )
        self.subject = self.find_subject()
        self.in_place = self.find_in_place()
        self.lines = []

    def find_subject(self):
        """The object whose error handler is called; without one it is MPI_COMM_SELF's (MPI-5.0
        section 9.3), for calls about files that of MPI_FILE_NULL (section 14.7).  A group stands
        for its session; calls that make an object of nothing but a group name the handler
        themselves."""
        for p in self.proc.params:
            if p.base == "MPI_Comm" and self.proc.group == "io":
                continue
            if p.base in ("MPI_Comm", "MPI_Win", "MPI_File", "MPI_Session") and (
                p.is_object("in") or p.is_object("inout")
            ):
                return p
        for base in ("MPI_Errhandler", "MPI_Group"):
            for p in self.proc.params:
                if p.base == base and p.is_object("in"):
                    return p
        return None

    def find_in_place(self):
        for p in self.proc.params:
            where = self.table.rule(self.proc.name, p.name, "in_place=")
            if where and self.comm:
                return p, where
        return None, None

    def raise_(self, expr):
        raised = self.raised(expr)
        return "wm_caller_code(%s)" % raised if DIRECT.fullmatch(self.proc.name) else raised

    def raised(self, expr):
        if not self.subject:
            kind = "file" if self.proc.group == "io" else "comm"
            return "wm_raise_%s(NULL, %s, call)" % (kind, expr)
        return "wm_raise_%s(%s_obj, %s, call)" % (
            OBJECTS[self.subject.base][1],
            self.subject.name,
            expr,
        )

    def test(self, cond, expr):
        refuse = self.table.rule(self.proc.name, "-", "refuse=")
        if refuse:
            expr = "wm_io_refuse(%s_obj, %s, %s)" % (self.subject.name, refuse, expr)
        self.lines += ["if (rt_unlikely(%s))" % cond, "    return %s;" % self.raise_(expr)]

    def declare_objects(self):
        for p in self.proc.params:
            if self.proc.is_tool:
                continue
            struct, verb = OBJECTS.get(p.base, (None, None))[:2]
            if p.is_object("inout"):
                self.lines += [
                    "if (rt_unlikely(!%s))" % p.name,
                    "    return wm_raise_comm(NULL, wm_bad_null(%s, MPI_ERR_ARG), call);" % arg(p),
                ]
            if p.is_object("in") or p.is_object("inout"):
                star = "*" if p.is_object("inout") else ""
                self.lines.append(
                    "struct %s *%s_obj = wm_%s_get(%s%s);" % (struct, p.name, verb, star, p.name)
                )

    def object_tests(self, p, cond):
        check, verb, null = self.checks[p.name], OBJECTS[p.base][1], OBJECTS[p.base][2]
        value = "*" + p.name if p.is_object("inout") else p.name
        bad = "wm_bad_%s(%s, %s)" % (verb, arg(p), value)
        if check == "ctype":
            self.test(cond + "!wm_usable_type(%s_obj)" % p.name, bad)
        elif check == "null":
            self.test(cond + "!%s_obj && %s != %s" % (p.name, value, null), bad)
        elif check != "any":
            self.test(cond + "!%s_obj" % p.name, bad)
        if check == "reduce":
            t = next(q for q in self.proc.params if q.base == "MPI_Datatype")
            self.test(
                cond + "!wm_op_allows(%s_obj, %s_obj)" % (p.name, t.name),
                "wm_bad_op_type(%s, %s, %s)" % (arg(p), p.name, t.name),
            )

    def significance(self, p):
        """C condition, ending in &&, under which the argument means something in this process;
        "" for always."""
        cond = ""
        if self.root and p is not self.root and p is not self.comm:
            if p.root_only:
                cond = "(side & WM_AT_ROOT) && "
            elif p.name[:4] in ("send", "recv", "disp") or p.name in (
                "buffer",
                "count",
                "datatype",
                "op",
            ):
                cond = "(side & WM_AT_ALL) && "
        if self.in_place and self.in_place[0]:
            b = self.in_place[0].name[:4]
            if p is not self.in_place[0] and (
                p.name.startswith(b) or (b == "send" and p.name == "sdispls")
            ):
                cond += "!in_place && "
        return cond

    def sides(self):
        """The variables `side` and `in_place`."""
        if self.root:
            self.test(
                "!wm_valid_root(%s_obj, %s)" % (self.comm.name, self.root.name),
                "wm_bad_root(%s, %s_obj, %s)" % (arg(self.root), self.comm.name, self.root.name),
            )
            both = not any(
                p.root_only and self.checks[p.name] in ("count", "counts") for p in self.proc.params
            )
            if any(self.significance(p) for p in self.proc.params):
                self.lines.append(
                    "const unsigned side = wm_root_side(%s_obj, %s, %s);"
                    % (self.comm.name, self.root.name, "true" if both else "false")
                )
        p, where = self.in_place
        if p:
            self.lines.append("const bool in_place = %s == MPI_IN_PLACE;" % p.name)
            cond = "in_place && %s_obj->inter" % self.comm.name
            if where == "root":
                cond = "in_place && (%s_obj->inter || !(side & WM_AT_ROOT))" % self.comm.name
            self.test(cond, "wm_bad_in_place(%s, %s_obj)" % (arg(p), self.comm.name))

    def buffer_test(self, p, cond):
        params = self.proc.params
        after = params[params.index(p) + 1 :]
        count = next(
            (
                q
                for q in after
                if (self.checks[q.name] in COUNT_KINDS and q.kind != "PARTITION")
                or self.checks[q.name] == "counts"
                or q.kind.startswith("POLYXFER")
            ),
            None,
        )
        stop = next((i for i, q in enumerate(after) if q.kind == "BUFFER" and i > 0), len(after))
        dtype = next((q for q in after[:stop] if q.base == "MPI_Datatype" and not q.is_array), None)
        if self.in_place and self.in_place[0] is p:
            cond += "!in_place && "
        if self.root and not p.root_only and p.name == "sendbuf":
            cond += "%s != MPI_ROOT && " % self.root.name
        if count is None or count.pointer:
            return  # vectors of counts: all may be 0, the body knows
        t = dtype.name + "_obj" if dtype else "NULL"
        self.test(
            cond + "wm_bad_address(%s, %s, %s)" % (p.name, count.name, t),
            "wm_bad_buffer(%s, %s, %s)" % (arg(p), p.name, t),
        )

    def value_tests(self, p, cond):
        check, _, extra = self.checks[p.name].partition("=")
        c = self.comm.name + "_obj" if self.comm else ""
        if not c and self.subject and self.subject.base == "MPI_Win":
            c = self.subject.name + "_obj->comm"
        if check == "nonnull":
            self.test(
                cond + "!%s" % p.name, "wm_bad_null(%s, %s)" % (arg(p), extra or "MPI_ERR_ARG")
            )
        elif check == "array":
            self.test(
                cond + "!%s && %s > 0" % (p.name, extra), "wm_bad_null(%s, MPI_ERR_ARG)" % arg(p)
            )
        elif check == "count":
            self.test(cond + "%s < 0" % p.name, "wm_bad_count(%s, %s)" % (arg(p), p.name))
        elif check == "number":
            self.test(
                cond + "%s < 0" % p.name, "wm_bad_number(%s, %s, %s)" % (arg(p), p.name, extra)
            )
        elif check == "tag":
            self.test(cond + "%s < 0" % p.name, "wm_bad_tag(%s, %s)" % (arg(p), p.name))
        elif check == "recv_tag":
            self.test(
                cond + "%s < 0 && %s != MPI_ANY_TAG" % (p.name, p.name),
                "wm_bad_recv_tag(%s, %s)" % (arg(p), p.name),
            )
        elif check in ("rank", "source", "member"):
            n = c + "->size" if check == "member" else "wm_comm_npeers(%s)" % c
            more = {
                "rank": " && %s != MPI_PROC_NULL",
                "source": " && %s != MPI_ANY_SOURCE && %s != MPI_PROC_NULL",
                "member": "",
            }[check].replace("%s", p.name)
            self.test(
                cond + "(unsigned)%s >= (unsigned)%s%s" % (p.name, n, more),
                "wm_bad_%s(%s, %s, %s)" % (check, arg(p), c, p.name),
            )
        elif check in ("counts", "own_counts"):
            self.counts_test(
                p, cond, c + "->size" if check == "own_counts" else "wm_comm_npeers(%s)" % c
            )

    def counts_test(self, p, cond, n):
        wide = "true" if p.base == "MPI_Count" else "false"
        inner = [
            "int err = wm_check_counts(%s, (struct wm_counts){ %s, %s }, %s);"
            % (arg(p), p.name, wide, n),
            "if (rt_unlikely(err))",
            "    return %s;" % self.raise_("err"),
        ]
        head = "if (%s) {" % cond[:-4].strip("()") if cond else "{"
        self.lines += [head] + ["    " + line for line in inner] + ["}"]

    def count_call(self):
        """WEFT_CHECK counts a call on a window or file.  Before its arguments are checked: also a
        call that is refused takes part in the agreement of the ranks."""
        p = self.table.rule(self.proc.name, "-", "collective=")
        if p not in ("win", "fh"):
            return
        kind = "window" if p == "win" else "file"
        self.lines += [
            "if (rt_unlikely(cfg.check))",
            '    wm_check_object(%s_obj->comm, "%s", %s_obj->name, call);' % (p, kind, p),
        ]

    def write(self):
        self.declare_objects()
        if self.subject and self.checks[self.subject.name] not in ("any",):
            self.object_tests(self.subject, "")
        self.count_call()
        self.sides()
        for p in self.proc.params:
            if p is self.subject or p is self.root:
                continue
            if p.is_object("in") or p.is_object("inout"):
                if not self.proc.is_tool:
                    self.object_tests(p, self.significance(p))
            else:
                self.value_tests(p, self.significance(p))
        for p in self.proc.params:  # last: they look at the checked datatype
            if self.checks[p.name] == "buffer":
                self.buffer_test(p, self.significance(p))
        return self.lines
