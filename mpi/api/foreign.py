# SPDX-License-Identifier: BSD-3-Clause
"""Writes the C sources of the libraries that stand in for other MPI implementations (mpi/foreign):
calls_*.c, which defines each procedure over Weft's, with foreign arguments converted by the inline
functions of an ABI's abi.h; weft.h, the table of Weft's procedures; and values.h of each ABI, which
converts constants by the ABI's table.  A parameter whose kind has no translation is an error."""

import csv
import os
import re

from table import COMPLETE, DIRECT, HERE, KNOWN, MESSAGE, wrap

ABIS = ("mpich", "ompi")
# Conversions of which an ABI has no constants: it does not have the procedures either.
ABSENT = {"ompi": ("ordering", "safety")}

# Handle types and the word in the names of their conversions.
HANDLES = {
    "MPI_Comm": "comm",
    "MPI_Datatype": "type",
    "MPI_Errhandler": "errh",
    "MPI_File": "file",
    "MPI_Group": "group",
    "MPI_Info": "info",
    "MPI_Message": "message",
    "MPI_Op": "op",
    "MPI_Request": "request",
    "MPI_Session": "session",
    "MPI_Win": "win",
}
# Kinds whose integers differ between ABIs, and the word in the names of their conversions.
VALUES = {
    "ACCESS_MODE": "amode",
    "ASSERT": "assertion",
    "BIND_TYPE": "bind",
    "CALLBACK_SAFETY": "safety",
    "COMBINER": "combiner",
    "COMM_COMPARISON": "comparison",
    "DISTRIB_ENUM": "distrib",
    "DTYPE_DISTRIBUTION": "darg",
    "ERROR_CLASS": "error",
    "ERROR_CODE": "error",
    "GROUP_COMPARISON": "comparison",
    "KEYVAL": "keyval",
    "LOCK_TYPE": "lock",
    "ORDER": "order",
    "PVAR_CLASS": "pvar_class",
    "RANK": "rank",
    "RANK_NNI": "rank",
    "SOURCE_ORDERING": "ordering",
    "SPLIT_TYPE": "split",
    "TAG": "tag",
    "THREAD_LEVEL": "thread",
    "TOOL_VAR_VERBOSITY": "verbosity",
    "TOPOLOGY_TYPE": "topology",
    "TYPECLASS": "typeclass",
    "UPDATE_MODE": "whence",
    "VARIABLE_SCOPE": "scope",
}
# The constants of each conversion; "bits" combine by |.  What is not listed becomes WX_INVALID,
# or stays: "nonneg" (numbers from 0 on), "all"; "class": becomes MPI_ERR_UNKNOWN, or stays if it
# is no class of either side.
CONSTANTS = {
    "amode": ("bits", "MPI_MODE_(APPEND|CREATE|DELETE_.*|EXCL|RD.*|SEQ.*|UNIQUE.*|WRONLY)"),
    "assertion": ("bits", "MPI_MODE_NO.*"),
    "bind": ("", "MPI_T_BIND_.*"),
    "combiner": ("", "MPI_COMBINER_.*"),
    "comparison": ("", "MPI_(IDENT|CONGRUENT|SIMILAR|UNEQUAL)"),
    "darg": ("nonneg", "MPI_DISTRIBUTE_DFLT_DARG"),
    "disp": ("all", "MPI_DISPLACEMENT_CURRENT"),
    "distrib": ("", "MPI_DISTRIBUTE_(NONE|BLOCK|CYCLIC)"),
    "error_class": ("class", "MPI_SUCCESS|MPIX?_(T_)?ERR_(?!LASTCODE).*"),
    "flavor": ("", "MPI_WIN_FLAVOR_.*"),
    "keyval": ("all", "MPI_(KEYVAL_INVALID|TAG_UB|IO|HOST|WTIME_.*|APPNUM|LASTUSED.*|UNIV.*)"
               "|MPI_WIN_(BASE|DISP_UNIT|SIZE|CREATE_FLAVOR|MODEL)"),
    "lock": ("", "MPI_LOCK_.*"),
    "model": ("", "MPI_WIN_(UNIFIED|SEPARATE)"),
    "order": ("", "MPI_ORDER_.*"),
    "ordering": ("", "MPI_T_SOURCE_(UN)?ORDERED"),
    "pvar_class": ("", "MPI_T_PVAR_CLASS_.*"),
    "rank": ("nonneg", "MPI_(ANY_SOURCE|PROC_NULL|ROOT|UNDEFINED)"),
    "safety": ("", "MPI_T_CB_REQUIRE_.*"),
    "scope": ("", "MPI_T_SCOPE_.*"),
    "split": ("", "MPI_COMM_TYPE_.*|MPI_UNDEFINED"),
    "tag": ("nonneg", "MPI_ANY_TAG|MPI_UNDEFINED"),
    "thread": ("", "MPI_THREAD_.*"),
    "topology": ("", "MPI_(CART|GRAPH|DIST_GRAPH|UNDEFINED)"),
    "typeclass": ("", "MPI_TYPECLASS_.*"),
    "verbosity": ("", "MPI_T_VERBOSITY_.*"),
    "whence": ("", "MPI_SEEK_.*"),
}  # fmt: skip
# Classes of errors that an older ABI lacks, and those that it raises instead.
SUBSTITUTES = {"MPI_ERR_ERRHANDLER": "MPI_ERR_ARG", "MPI_ERR_SESSION": "MPI_ERR_ARG"}
# Kinds that mean the same in every ABI.
PLAIN = set(
    """ALLOC_MEM_NUM_BYTES ARGUMENT_COUNT ARGUMENT_LIST ARRAY_LENGTH ARRAY_LENGTH_NNI ARRAY_LENGTH_PI
    ATTRIBUTE_VAL ATTRIBUTE_VAL_10 CAT_INDEX COLOR COMM_SIZE COMM_SIZE_PI COORDINATE CVAR CVAR_INDEX
    CVAR_INDEX_SPECIAL C_BUFFER DEGREE DIMENSION DISPLACEMENT DISPLACEMENT_NNI EVENT_INDEX
    EVENT_INSTANCE EVENT_REGISTRATION FILE_DESCRIPTOR INDEX INFO_VALUE_LENGTH KEY KEY_INDEX
    LOCATION_SMALL LOGICAL LOGICAL_OPTIONAL LOGICAL_VOID MATH NUM_BYTES NUM_BYTES_SMALL NUM_DIMS
    OFFSET PARTITION POLYDISPLACEMENT POLYDISPLACEMENT_AINT_COUNT POLYDISPLACEMENT_COUNT
    POLYDISPOFFSET POLYDTYPE_NUM_ELEM POLYDTYPE_NUM_ELEM_NNI POLYDTYPE_NUM_ELEM_PI
    POLYDTYPE_PACK_SIZE POLYDTYPE_STRIDE_BYTES POLYLOCATION POLYNUM_BYTES POLYNUM_BYTES_NNI
    POLYNUM_PARAM_VALUES POLYRMA_DISPLACEMENT POLYXFER_NUM_ELEM POLYXFER_NUM_ELEM_NNI
    PROCESS_GRID_SIZE PVAR_INDEX PVAR_SESSION RMA_DISPLACEMENT_NNI SOURCE_INDEX STRING STRING_2DARRAY
    STRING_ARRAY STRING_LENGTH TICK_RESOLUTION TOOLENUM_INDEX TOOLENUM_SIZE TOOLS_ENUM
    TOOLS_NUM_ELEM_SMALL TOOLS_TICK_COUNT TOOL_VAR_VALUE TYPECLASS_SIZE UPDATE_NUMBER VERSION
    WALL_TIME WINDOW_SIZE WIN_ATTACH_SIZE XFER_NUM_ELEM XFER_NUM_ELEM_NNI""".split()
)
# Parameters that are not translated as their kind says, "": as they are.  Ranks of groups are
# numbers from 0 on, and the strides of ranges may be negative; the exit code of MPI_Abort is no
# error code; MPI_Get_address(MPI_IN_PLACE) is the constant; no control variable or event of Weft is bound to an object.
SPECIAL = (
    (r"MPI_Abort", "errorcode", ""),
    (r"MPI_File_set_view", "disp", "disp"),
    (r"MPI_Group_(range_)?(in|ex)cl", "ranks|ranges", ""),
    (r"MPI_Get_address", "location", ""),
    (r"MPI_Graph_.*", "edges|neighbors", ""),
    (r"MPI_T_(cvar|event)_handle_alloc", "obj_handle", ""),
    (r"MPI_Dist_graph_.*", "sources|destinations", ""),
)
# Procedures that are written by hand in mpi/foreign: callbacks, attributes, and values whose
# meaning depends on others.
BY_HAND = re.compile(
    r"MPI_(Op_create(_c)?|Register_datarep(_c)?|Grequest_start|Keyval_create|Pcontrol|"
    r"(Comm|Type|Win)_(create_keyval|get_attr)|Attr_get|Type_get_contents(_c)?|"
    r"(Comm|Win|File|Session)_create_errhandler|\w+_(to|from)int|Abi_get_version|"
    r"Status_[gs]et_error|Free_mem|"
    r"Comm_spawn(_multiple)?|Get_processor_name|Open_port|Lookup_name|T_pvar_handle_alloc|"
    r"T_event_(register_callback|set_dropped_handler|handle_free|get_info))"
)
# Calls in which Weft does not write MPI_ERROR of the status.
ENVELOPE = re.compile(r"MPI_(M?recv|Sendrecv(_replace)?|M?probe)(_c)?", re.I)
# Strings that Weft writes without a limit, and the constant that says how long they may be.
STRINGS = (
    (r"MPI_Error_string|MPI_T_error_string", "string", "ERROR_STRING"),
    (r"MPI_(Comm|Type|Win)_get_name", r"\w+_name", "OBJECT_NAME"),
    (r"MPI_Get_library_version", "version", "LIBRARY_VERSION_STRING"),
    (r"MPI_Info_get_nthkey", "key", "INFO_KEY"),
    (r"MPI_File_get_view", "datarep", "DATAREP_STRING"),
)
# Lengths of arrays that functions.tsv gives as "*".
LENGTHS = (
    (r"MPI_I?neighbor_alltoallw.*", "sendtypes", "wx_degree(comm, true)"),
    (r"MPI_I?neighbor_alltoallw.*", "recvtypes", "wx_degree(comm, false)"),
    (r"MPI_I?alltoallw.*", "sendtypes", "wx_is_in_place(sendbuf) ? 0 : wx_peers(comm)"),
    (r"MPI_I?alltoallw.*", "recvtypes", "wx_peers(comm)"),
)
# Handles that exist only after Weft was loaded.
INITIALIZED = ("MPI_Comm", "MPI_Request", "MPI_Win")
# What Weft adds and the stand-ins use.
EXTENSIONS = (
    "Comm_raise Op_set_x Errhandler_set_x Keyval_set_x Attr_language Caller_set Type_iov_len Type_iov "
    "GPU_query_support Query_cuda_support Query_ze_support Query_hip_support"
).split()
FILES = 4


def foreign_decl(p):
    """The declaration of a parameter in the foreign ABI."""
    decl = re.sub(r"(\w*weights)\[\]", r"*\1", p.decl)
    decl = re.sub(r"\bMPI_T_(cb_safety|source_order)\b", "int", decl)
    return re.sub(r"\b(%s|MPI_Status)\b" % "|".join(HANDLES), r"wx_\1", decl)


class Argument:
    """The translation of one argument: lines before the call, the expression in it, lines after."""

    def __init__(self, proc, param):
        self.proc, self.p, self.name = proc, param, param.name
        self.before, self.after = [], []
        self.expr = self.translate()

    def translate(self):
        p, how = self.p, self.special()
        if p.base == "MPI_Request" and p.pointer and DIRECT.fullmatch(self.proc.name):
            return "(MPI_Request *)(uintptr_t)%s" % self.name
        if p.base in HANDLES:
            return self.handles() if p.is_array else self.handle()
        if p.base == "MPI_Status":
            return self.status()
        if MESSAGE.fullmatch(self.proc.name) and p.kind in ("BUFFER", "RANK", "TAG"):
            return self.name  # no constants among addresses; negative() has the others
        if p.kind == "BUFFER" and how is None:
            return "wx_buf_in(%s)" % self.name
        if p.kind == "C_BUFFER2":
            self.after.append("if (!ret)")
            self.after.append("    wx_detached(%s);" % self.name)
            return self.name
        if p.kind == "STRING" and p.direction == "out":
            return self.string()
        if p.kind == "WEIGHT":
            return "wx_weights_in(%s)" % self.name
        if p.kind == "PVAR":
            return "wx_pvar_in(%s)" % self.name if p.direction == "in" else self.name
        if how == "" or (how is None and p.kind in PLAIN):
            return self.name
        word = how or VALUES.get(p.kind)
        if word:
            return self.values(word) if p.is_array else self.value(word)
        raise SystemExit(
            "foreign.py: no translation for %s (%s) of %s" % (self.name, p.kind, self.proc.name)
        )

    def special(self):
        for procs, params, how in SPECIAL:
            if re.fullmatch(procs, self.proc.name) and re.fullmatch(params, self.name):
                return how
        return None

    def string(self):
        name = self.name
        for procs, param, limit in STRINGS:
            if re.fullmatch(procs, self.proc.name) and re.fullmatch(param, name):
                break
        else:
            return name  # another argument limits it
        lens = [p.name for p in self.proc.params if p.name in ("resultlen", "len")]
        self.before.append("char %s_w[MPI_MAX_%s];" % (name, limit))
        self.after.append("if (!ret && WX_SHORTER(%s))" % limit)
        self.after.append(
            "    wx_string_out(%s, %s, %s_w, WX_MAX_%s);"
            % (name, lens[0] if lens else "NULL", name, limit)
        )
        return "%s && WX_SHORTER(%s) ? %s_w : %s" % (name, limit, name, name)

    def length(self):
        if self.p.length not in ("*", None):
            return self.p.length
        for procs, param, length in LENGTHS:
            if re.fullmatch(procs, self.proc.name, re.I) and re.fullmatch(param, self.name):
                return length
        raise SystemExit("foreign.py: no length for %s of %s" % (self.name, self.proc.name))

    def tmp(self):
        self.before.append("struct wx_tmp %s_w;" % self.name)
        return "&%s_w" % self.name

    def handle(self):
        name, word = self.name, HANDLES[self.p.base]
        if not self.p.stars:
            return "wx_%s_in(%s)" % (word, name)
        null = "%s_NULL" % self.p.base.upper()
        if null == "MPI_TYPE_NULL":
            null = "MPI_DATATYPE_NULL"
        start = null
        if self.p.direction != "out":
            start = "%s ? wx_%s_in(*%s) : %s" % (name, word, name, null)
        self.before.append("%s %s_w = %s;" % (self.p.base, name, start))
        if not (self.p.direction == "in" or self.proc.name == "MPI_Cancel"):
            checks = [name]
            if self.p.direction == "out":
                checks.insert(0, "!ret")
            if word == "request":
                checks.insert(0, "!WX_SAME_REQUESTS")
            self.after.append("if (%s)" % " && ".join(checks))
            self.after.append("    *%s = wx_%s_out(%s_w);" % (name, word, name))
        if word == "request":
            return "WX_SAME_REQUESTS ? (MPI_Request *)%s : %s ? &%s_w : NULL" % (name, name, name)
        return "%s ? &%s_w : NULL" % (name, name)

    def handles(self):
        name, word, tmp, n = self.name, HANDLES[self.p.base], self.tmp(), self.length()
        if self.p.direction != "in":
            raise SystemExit("foreign.py: output array %s of %s" % (name, self.proc.name))
        self.after.append("wx_tmp_free(%s);" % tmp)
        return "wx_%ss_in(%s, %s, %s)" % (word, tmp, name, n)

    def status(self):
        name = self.name
        if COMPLETE.fullmatch(self.proc.name):
            return "wx_status_at(%s)" % name
        self.before.append("MPI_Status %s_w;" % name)
        if self.p.direction == "out":
            what = "envelope" if ENVELOPE.fullmatch(self.proc.name) else "status"
            ret = ", ret" if what == "envelope" else ""
            self.after.append("wx_%s_done(&%s_w, %s%s);" % (what, name, name, ret))
            return "wx_%s_new(&%s_w, %s)" % (what, name, name)
        if self.p.direction == "inout":
            self.after.append("wx_status_back(&%s_w, %s);" % (name, name))
        return "wx_status_in(&%s_w, %s)" % (name, name)

    def value(self, word):
        name = self.name
        if self.p.base in ("MPI_T_cb_safety", "MPI_T_source_order"):
            return self.enum_value(word)
        if not self.p.stars:
            return "wx_%s_in(%s)" % (word, name)
        if self.p.direction == "out":
            self.after.append("if (!ret && %s)" % name)
            self.after.append("    *%s = wx_%s_out(*%s);" % (name, word, name))
            return name
        self.before.append("int %s_w = %s ? wx_%s_in(*%s) : 0;" % (name, name, word, name))
        self.after.append("if (%s)" % name)
        self.after.append("    *%s = wx_%s_out(%s_w);" % (name, word, name))
        return "%s ? &%s_w : NULL" % (name, name)

    def enum_value(self, word):
        name, base = self.name, self.p.base
        if not self.p.stars:
            return "(%s)wx_%s_in(%s)" % (base, word, name)
        self.before.append("%s %s_w = (%s)0;" % (base, name, base))
        self.after.append("if (!ret && %s)" % name)
        self.after.append("    *%s = wx_%s_out((int)%s_w);" % (name, word, name))
        return "%s ? &%s_w : NULL" % (name, name)

    def values(self, word):
        name, n = self.name, self.length()
        if self.p.direction == "out":
            self.after.append("if (!ret)")
            self.after.append("    wx_ints_out(%s, %s, wx_%s_out);" % (name, n, word))
            return name
        tmp = self.tmp()
        self.after.append("wx_tmp_free(%s);" % tmp)
        return "wx_ints_in(%s, %s, %s, wx_%s_in)" % (tmp, name, n, word)


def negative(proc):
    """Conversion of constants among rank and tag, in one branch that messages do not take."""
    rank, tag = (p.name for p in proc.params if p.kind in ("RANK", "TAG"))
    return [
        "if (__builtin_expect((%s | %s) < 0, 0)) {" % (rank, tag),
        "    %s = wx_rank_in(%s);" % (rank, rank),
        "    %s = wx_tag_in(%s);" % (tag, tag),
        "}",
    ]


def function(head, lines):
    return "%s\n{\n%s\n}\n" % (wrap(head), "\n".join(wrap("    " + t) for t in lines))


def message(proc):
    """Most messages jump to PMPIX_X_known: the path without constants and other handles, in one
    function; and all others, in another."""
    short, params = proc.title, ", ".join(foreign_decl(p) for p in proc.params)
    rank, tag = (p.name for p in proc.params if p.kind in ("RANK", "TAG"))

    def call(name, form):
        args = []
        for p in proc.params:
            word = HANDLES.get(p.base)
            form_of = {"request": "(MPI_Request *)%s", None: "%s"}.get(word, form)
            args.append(form_of.replace("WORD", word or "") % p.name)
        return "return WX(%s%s)(%s);" % (name, short, ", ".join(args))

    rest = negative(proc)
    rest += ["MPI_Datatype datatype_w = wx_type_in(datatype);", "MPI_Comm comm_w = wx_comm_in(comm);"]
    rest += ["if (wx_is_known(datatype_w, comm_w))", "    " + call("known_", "%s_w"), call("", "%s_w")]
    lines = [
        "if (__builtin_expect((%s | %s) >= 0 && wx_common(datatype, comm), 1))" % (rank, tag),
        "    " + call("known_", "wx_common_WORD(%s)"),
        "return other_%s(%s);" % (short, ", ".join(p.name for p in proc.params)),
    ]
    head = "static __attribute__((noinline)) int other_%s(%s)" % (short, params)
    return function(head, rest) + "\n" + function("WX_PROC(int, %s, (%s))" % (short, params), lines)


def procedure(proc):
    if KNOWN.fullmatch(proc.name):
        return message(proc)
    args = [Argument(proc, p) for p in proc.params]
    params = ", ".join(foreign_decl(p) for p in proc.params) or "void"
    short = proc.title
    call = "WX(%s)(%s)" % (short, ", ".join(a.expr for a in args))
    if not proc.returns_error:
        lines = ["return %s;" % call]
    else:
        lines = [line for a in args for line in a.before] + ["int ret = %s;" % call]
        lines += [line for a in args for line in a.after]
        lines.append("return ret;" if DIRECT.fullmatch(proc.name) else "return wx_error_out(ret);")
    if MESSAGE.fullmatch(proc.name):
        lines = negative(proc) + lines
    known = any(p.base in INITIALIZED and p.direction != "out" for p in proc.params)
    if not known or proc.name == "MPI_Abort":
        lines.insert(0, "wx_ready();")
    macro = "WX_PROCX" if proc.name.startswith("MPIX_") else "WX_PROC"
    out = function("%s(%s, %s, (%s))" % (macro, proc.returns, short, params), lines)
    before = proc.group in ("coll", "neighbor-coll") and short.endswith("_init")
    return out + ("WX_BEFORE(%s)\n" % short if before else "")


def calls(table):
    """The generated procedures, over FILES files of about the same size."""
    procs = [p for p in table.procs + table.extensions if not BY_HAND.fullmatch(p.name)]
    out = {}
    for i in range(FILES):
        text = "/* SPDX-License-Identifier: BSD-3-Clause */\n/* Generated by foreign.py. */\n"
        text += '#include "mpi/foreign/convert.h"\n\n'
        text += "\n".join(procedure(p) for p in procs[i::FILES])
        out["mpi/foreign/calls_%d.c" % (i + 1)] = text
    return out


def weft_h(table):
    """The table of Weft's procedures."""
    lines = ["X(PMPI_, %s)" % p.name[4:] for p in table.procs]
    lines += ["X(PMPIX_, %s)" % name for name in EXTENSIONS + [p.title for p in table.extensions]]
    return (
        "/* SPDX-License-Identifier: BSD-3-Clause */\n/* Generated by foreign.py. */\n"
        "#define WX_WEFT(X) \\\n    " + " \\\n    ".join(lines) + "\n"
        "#define WX_KNOWN(X) " + " ".join("X(%s)" % p.name[4:] for p in table.procs if KNOWN.fullmatch(p.name)) + "\n"
    )


# Datatypes that the standard does not have.
TYPES = {"MPIX_C_FLOAT16": 0x28A, "MPIX_BFLOAT16": 0x28B}


class Abi:
    """The constants of a foreign ABI beside those of Weft's."""

    def __init__(self, table, name):
        self.name = name
        path = os.path.join(os.path.dirname(HERE), "foreign", name, "constants.tsv")
        with open(path, encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
        self.theirs = {r["name"]: int(r["value"], 0) for r in rows}
        self.ours = {
            c["name"]: int(c["value"]) for c in table.constants if re.fullmatch(r"-?\d+", c["value"])
        }
        self.ours.update(TYPES)
        self.kinds = {c["name"]: c["c_type"] for c in table.constants}
        self.kinds.update(dict.fromkeys(TYPES, "MPI_Datatype"))
        for name in self.theirs:
            if name not in self.ours:
                raise SystemExit("foreign.py: %s is no constant of Weft" % name)

    def pairs(self, pattern, conversion=None):
        if conversion in ABSENT.get(self.name, ()):
            return []
        names = [n for n in self.ours if re.fullmatch(pattern, n) and n in self.theirs]
        pairs = [(n, self.theirs[n], self.ours[n]) for n in names]
        for name, other in SUBSTITUTES.items():
            if name not in self.theirs and re.fullmatch(pattern, name):
                pairs.append((name, self.theirs[other], self.ours[name]))
        if not names:
            raise SystemExit("foreign.py: %s has no constants %s" % (self.name, pattern))
        return pairs


def conversion(name, kind, pairs, mode):
    """wx_NAME_KIND(), which maps the first of each pair to the second."""
    c_type = "MPI_Offset" if name == "disp" else "int"
    top = unknown = 0
    lines = ["static inline %s wx_%s_%s(%s v)" % (c_type, name, kind, c_type), "{"]
    if mode == "bits":
        known = 0
        lines.append("    int w = 0;")
        for text, a, b in pairs:
            known |= a
            lines.append("    w |= v & %d ? %d : 0; /* %s */" % (a, b, text))
        lines.append("    return v & ~%d ? WX_INVALID : w;" % known)
        return "\n".join(lines + ["}", ""])
    if mode == "nonneg" and any(a >= 0 for _, a, _ in pairs):
        mode = "all"
    if mode == "nonneg":
        lines += ["    if (__builtin_expect(v >= 0, 1))", "        return v;"]
    if mode == "class":
        top = max(max(a, b) for _, a, b in pairs if max(a, b) < 0x3000)
        unknown = next(b for n, a, b in pairs if n == "MPI_ERR_UNKNOWN")
    lines.append("    switch (v) {")
    seen = set()
    for text, a, b in pairs:
        if a not in seen:
            lines += ["    case %d:" % a, "        return %d; /* %s */" % (b, text)]
        seen.add(a)
    rest = {"all": "v", "class": "v > %d ? v : %d" % (top, unknown)}.get(mode, "WX_INVALID")
    lines += ["    default:", "        return %s;" % rest]
    return "\n".join(lines + ["    }", "}", ""])


def values_h(abi):
    text = "/* SPDX-License-Identifier: BSD-3-Clause */\n/* Generated by foreign.py. */\n"
    text += "/* Stands for a value without a meaning; Weft refuses it. */\n#define WX_INVALID (-32000)\n"
    text += "/* The most that the ABI's strings hold, with the zero at their end. */\n"
    text += "".join(
        "#define WX_%s %d\n" % (n[4:], v) for n, v in abi.theirs.items() if n.startswith("MPI_MAX_")
    )
    for name, (mode, pattern) in sorted(CONSTANTS.items()):
        pairs = abi.pairs(pattern, name)
        text += "\n" + conversion(name, "in", pairs, mode)
        text += "\n" + conversion(name, "out", [(n, b, a) for n, a, b in pairs], mode)
    return text


def files(table):
    import foreign_test  # which imports this file

    out = calls(table)
    out["mpi/foreign/weft.h"] = weft_h(table)
    for name in ABIS:
        abi = Abi(table, name)
        out["mpi/foreign/%s/values.h" % name] = values_h(abi)
        module = __import__("foreign_" + name)
        out["test/foreign/arguments_%s.h" % name] = foreign_test.arguments_h(
            abi, table, module.samples(abi)
        )
        out.update(module.files(abi, table))
    return out
