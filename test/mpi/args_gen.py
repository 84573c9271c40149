#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes args_cases.c: every procedure of the table is called with one wrong argument at a time,
all others right, and must return the standard's error class with a text that names the argument.
What is wrong for a kind of argument is written down here again, apart from mpi/api/check.py and
rules.tsv.

    args_gen.py TABLES OUTPUT"""

import csv
import fnmatch
import os
import re
import sys

# Not called: they end the library or the program, have no error code, or obey the tool interface.
SKIPPED = (
    "MPI_Abort",
    "MPI_Finalize",
    "MPI_Init*",
    "MPI_T_*",
    "*_toint",
    "*_fromint",
    "MPI_Aint_*",
    "MPI_W*ti*",
    "MPI_Comm_*call_errhandler",
    "MPI_Pcontrol",
)
HANDLES = {
    "MPI_Comm": "COMM",
    "MPI_Group": "GROUP",
    "MPI_Datatype": "TYPE",
    "MPI_Op": "OP",
    "MPI_Info": "INFO",
    "MPI_Errhandler": "ERRHANDLER",
    "MPI_Win": "WIN",
    "MPI_File": "FILE",
    "MPI_Session": "SESSION",
}
STALE = {
    "MPI_Comm": "stale_comm",
    "MPI_Group": "stale_group",
    "MPI_Datatype": "stale_type",
    "MPI_Info": "stale_info",
}
VALID = {
    "MPI_Comm": "comm",
    "MPI_Group": "group",
    "MPI_Datatype": "MPI_INT",
    "MPI_Op": "MPI_SUM",
    "MPI_Info": "info",
    "MPI_Errhandler": "MPI_ERRORS_RETURN",
    "MPI_Win": "win",
    "MPI_File": "file",
    "MPI_Session": "session",
    "MPI_Request": "MPI_REQUEST_NULL",
    "MPI_Message": "MPI_MESSAGE_NO_PROC",
}
COUNTS = ("POLYXFER_NUM_ELEM_NNI", "POLYDTYPE_NUM_ELEM_NNI", "XFER_NUM_ELEM_NNI")
LENGTHS = ("ARRAY_LENGTH", "ARRAY_LENGTH_NNI", "ARRAY_LENGTH_PI", "POLYNUM_PARAM_VALUES")
SIZES = ("NUM_DIMS", "COMM_SIZE", "DEGREE")
TRANSFERS = ("p2p", "coll", "partitioned", "rma")
# (procedures, parameter): wrong values that are right there.
ALLOWED = {
    ("MPI_*_get_name", "comm"): ("MPI_COMM_NULL",),
    ("MPI_*_get_name", "datatype"): ("MPI_DATATYPE_NULL",),
    ("MPI_File_*errhandler", "*"): ("MPI_FILE_NULL",),
    ("MPI_Win_get_name", "win"): ("MPI_WIN_NULL",),
    ("MPI_Intercomm_create", "peer_comm"): "all",
    ("MPI_Intercomm_create_from_groups", "remote_group"): "all",
    # On MPI_COMM_SELF the group is still that of the world.
    ("MPI_Intercomm_create_from_groups", "local_leader"): ("size",),
    ("MPI_Info_get_string", "value"): "all",
    ("MPI_Session_get_nth_pset", "pset_name"): "all",
    ("MPI_Free_mem", "base"): "all",
    ("MPI_Get_address", "location"): "all",
    ("MPI_*create_keyval", "*_fn"): ("NULL",),
    ("MPI_Keyval_create", "*_fn"): ("NULL",),
    ("MPI_*attach_buffer", "buffer"): "all",
    ("MPI_Buffer_attach", "buffer"): "all",
    ("MPI_Win_*", "base"): "all",
}


def plain_name(proc):
    """The name without the _c of a large-count twin."""
    return re.sub("_c$", "", proc["name"])


class Param:
    def __init__(self, number, decl, semantics):
        self.number = number
        self.before, self.name, self.array = re.fullmatch(
            r"(.*?)(\w+)((?:\[\w*\])*)", decl
        ).groups()
        self.base = self.before.replace("const ", "").replace("*", "").strip()
        self.pointer = "*" in self.before or bool(self.array)
        _, self.direction, kind = semantics.split(":")
        self.kind, flags = re.fullmatch(r"(\w+)(?:\[(.*)\])?", kind).groups()
        flags = (flags or "").split(",")
        self.root_only = "root_only" in flags
        self.length = next((f[4:] for f in flags if f.startswith("len=")), "")
        self.vector = bool(self.array or self.length)

    def arg(self):
        return '"argument %d (%s)"' % (self.number, self.name)


# Calls whose errors go to the handler that they name.
HANDLERS = {
    "MPI_Session_init": "session_handler",
    "MPI_Comm_create_from_group": "comm_handler",
    "MPI_Intercomm_create_from_groups": "comm_handler",
}


def valid(p, proc):
    """An argument of the right kind."""
    if p.base == "MPI_Errhandler" and proc["name"] in HANDLERS:
        return HANDLERS[proc["name"]]
    if p.kind in ("FUNCTION", "POLYFUNCTION"):
        return "(%s *)any_function" % p.base
    if p.kind == "BUFFER" or p.base == "void":
        return "buffer"
    if p.pointer and p.base == "char":
        return (
            "NULL" if p.before.count("*") + bool(p.array) > 1 else ("text" if p.direction != "in" else '"key"')
        )
    if p.base in VALID and not p.pointer:
        return VALID[p.base]
    if p.pointer:
        return "(void *)room"
    return {"ROOT": "0", "TAG": "5"}.get(
        p.kind,
        "1" if p.kind in COUNTS + LENGTHS + SIZES else "64" if p.kind == "POLYNUM_BYTES_NNI" else "0",
    )


def wrong_handles(proc, p):
    error, null = "MPI_ERR_" + HANDLES[p.base], VALID_NULL[p.base]
    values = [
        "(%s)0" % p.base,
        "(%s)garbage" % p.base,
        "(%s)%s" % (p.base, "MPI_COMM_WORLD" if p.base != "MPI_Comm" else "MPI_INT"),
    ]
    if p.base in STALE:
        values.append(STALE[p.base])
    optional = p.base == "MPI_Info" and not (
        proc["group"] == "info" or proc["name"].endswith(("set_info", "fortran_info"))
    )
    if not optional:
        values.append(null)
    if p.base == "MPI_Datatype" and proc["group"] in TRANSFERS:
        values += ["uncommitted", "absent"]
    if p.base == "MPI_Op" and proc["group"] == "coll":
        values.append("MPI_MAXLOC")  # not defined for MPI_INT
    return [(error, v) for v in values]


VALID_NULL = {
    "MPI_Comm": "MPI_COMM_NULL",
    "MPI_Group": "MPI_GROUP_NULL",
    "MPI_Datatype": "MPI_DATATYPE_NULL",
    "MPI_Op": "MPI_OP_NULL",
    "MPI_Info": "MPI_INFO_NULL",
    "MPI_Errhandler": "MPI_ERRHANDLER_NULL",
    "MPI_Win": "MPI_WIN_NULL",
    "MPI_File": "MPI_FILE_NULL",
    "MPI_Session": "MPI_SESSION_NULL",
}


def wrong_scalars(proc, p):
    plain = plain_name(proc)
    receive = (
        plain in ("MPI_Recv", "MPI_Irecv", "MPI_Recv_init")
        or "robe" in plain
        or p.name == "recvtag"
    )
    if p.kind in COUNTS:
        return [("MPI_ERR_COUNT", "-1")]
    if p.kind in LENGTHS:
        return [("MPI_ERR_COUNT" if proc["group"] == "request" else "MPI_ERR_ARG", "-1")]
    if p.kind == "NUM_DIMS":
        return [("MPI_ERR_DIMS", "-1")]
    if p.kind == "POLYNUM_BYTES_NNI" or p.kind == "ALLOC_MEM_NUM_BYTES":
        return [("MPI_ERR_ARG", "-1")]
    if p.kind == "TAG" and proc["group"] != "status":
        return [("MPI_ERR_TAG", "-5"), ("MPI_ERR_TAG", "INT_MIN")] + (
            [] if receive else [("MPI_ERR_TAG", "MPI_ANY_TAG")]
        )
    if p.kind == "RANK" and p.name == "root":
        return [
            ("MPI_ERR_ROOT", v)
            for v in ("size", "-1", "MPI_PROC_NULL", "MPI_ROOT", "INT_MAX", "INT_MIN")
        ]
    if p.kind == "RANK_NNI" and proc["group"] == "rma":
        values = ["64 + size", "-7", "INT_MAX", "INT_MIN", "MPI_ANY_SOURCE"]
        return [("MPI_ERR_RANK", v) for v in values]
    if p.kind in ("WINDOW_SIZE", "WIN_ATTACH_SIZE"):
        return []  # looked at by the body, before the processes agree
    if (
        p.kind == "RANK"
        and p.name in ("dest", "source", "local_leader")
        and proc["group"] != "status"
    ):
        values = ["size", "-7", "INT_MAX", "INT_MIN"]
        values += ["MPI_ANY_SOURCE"] if p.name == "dest" or proc["group"] == "partitioned" else []
        return [("MPI_ERR_RANK", v) for v in values]
    return []


def wrong_buffers(proc, p, after):
    """A null buffer with a count that is a vector, or none, is the business of the body."""
    count = next(
        (q for q in after if q.kind.startswith(("POLY", "XFER")) and q.kind != "POLYDISPLACEMENT"),
        None,
    )
    if proc["group"] not in TRANSFERS or count is None or count.vector:
        return []
    out = [("MPI_ERR_BUFFER", "NULL")]
    collective_in_place = proc["group"] == "coll" and (
        p.name == "sendbuf" or "catter" in proc["name"]
    )
    return out + ([] if collective_in_place else [("MPI_ERR_BUFFER", "MPI_IN_PLACE")])


def wrong_pointers(proc, p, params):
    null = [("MPI_ERR_ARG", "NULL")]
    if p.kind in ("STATUS",):
        return null if p.direction != "out" else []
    if (
        p.base == "char"
        and proc["group"] == "info"
        and p.name in ("key", "value")
        and p.direction == "in"
    ):
        return [("MPI_ERR_INFO_" + p.name.upper(), "NULL")]
    if (
        p.kind.startswith(("ARGUMENT", "EXTRA", "STRING_", "WEIGHT"))
        or p.base.startswith("MPI_Datarep_conversion_function")  # MPI_CONVERSION_FN_NULL
        or p.kind.startswith("ATTRIBUTE")
        and p.direction == "in"
    ):
        return []
    if p.vector and p.base != "char":
        if any(q.name == p.length for q in params):
            return null
        if p.kind in COUNTS and proc["group"] == "coll" and "lltoallw" not in proc["name"]:
            return null + [
                ("MPI_ERR_COUNT", "negative_large" if p.base == "MPI_Count" else "negative")
            ]
        return []
    return null


def wrong(proc, p, params):
    """(error class, argument, whether the text must name it) of one parameter."""
    if p.base in HANDLES and not p.pointer:
        found = wrong_handles(proc, p)
    elif p.base == "MPI_Request" and not p.vector and p.direction != "out":
        bad = "request_at((MPI_Request)%s)" if p.pointer else "(MPI_Request)%s"
        found = [("MPI_ERR_REQUEST", bad % v) for v in ("garbage", "MPI_COMM_WORLD", "0")]
        return [(e, v, False) for e, v in found] + (
            [("MPI_ERR_ARG", "NULL", True)] if p.pointer else []
        )
    elif p.kind == "KEYVAL" and not p.pointer:
        return [("MPI_ERR_KEYVAL", v, False) for v in ("987654", "-3", "MPI_KEYVAL_INVALID")]
    elif p.base in HANDLES and p.direction == "inout" and not p.vector:
        found = [
            (e, "&(%s){ %s }" % (p.base, v))
            for e, v in wrong_handles(dict(proc, group=""), p)
            if v not in ("uncommitted", "absent")
        ] + [("MPI_ERR_ARG", "NULL")]
    elif p.kind == "BUFFER":
        found = wrong_buffers(proc, p, params[p.number :])
    elif p.pointer:
        found = wrong_pointers(proc, p, params)
    else:
        found = wrong_scalars(proc, p)
    for (procs, name), values in ALLOWED.items():
        if fnmatch.fnmatchcase(plain_name(proc), procs) and fnmatch.fnmatchcase(
            p.name, name
        ):
            found = [] if values == "all" else [f for f in found if f[1] not in values]
    return [(e, v, True) for e, v in found]


def cases(proc):
    decls = [] if proc["c_params"] == "void" else proc["c_params"].split(", ")
    sems = proc["param_semantics"].split("|")
    params = [Param(i + 1, d, s) for i, (d, s) in enumerate(zip(decls, sems))]
    out = []
    for p in params:
        for error, value, named in wrong(proc, p, params):
            args = ", ".join(value if q is p else valid(q, proc) for q in params)
            # The command is not looked at before the processes of a spawn have met.
            macro = "BY_ROOT" if p.name == "command" else "AT_ROOT" if p.root_only else "EXPECT"
            out.append(
                "%s(%s, %s, %s(%s));"
                % (macro, error, p.arg() if named else '""', proc["name"], args)
            )
    return out


TOP = """/* SPDX-License-Identifier: BSD-3-Clause */
/* Generated by test/mpi/args_gen.py: one wrong argument at a time.  See args_test.h. */
#include "test/mpi/args_test.h"

"""


def main():
    tables, output = sys.argv[1:]
    with open(os.path.join(tables, "functions.tsv"), encoding="utf-8", newline="") as f:
        procs = [
            r
            for r in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
            if r["c_presence"] == "abi"
        ]
    text, names = [TOP], []
    for proc in procs:
        if any(fnmatch.fnmatchcase(proc["name"], s) for s in SKIPPED):
            continue
        lines = cases(proc)
        if lines:
            names.append(proc["name"])
            text.append(
                "static void args_of_%s(void)\n{\n%s}\n\n"
                % (proc["name"], "".join("    %s\n" % x for x in lines))
            )
    rows = "".join('    { "%s", args_of_%s },\n' % (n, n) for n in names)
    text.append("const struct args_case args_cases[] = {\n%s    { NULL, NULL },\n};\n" % rows)
    with open(output + ".new", "w", encoding="utf-8") as f:
        f.write("".join(text))
    os.replace(output + ".new", output)


main()
