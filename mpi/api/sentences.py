# SPDX-License-Identifier: BSD-3-Clause
"""Sentences of the manual pages that follow from the tables: errors that the binding of a
procedure raises (read from the C text that check.py writes), which error handler is called, and
what the rules say of a parameter."""

import re

import check
from table import OBJECTS

TEST = re.compile(r"wm_(bad_\w+|check_counts)\(\"argument \d+ \((\w+)\)\"(?:, (.*))?")
KIND = {
    "comm": "communicator",
    "group": "group",
    "op": "operation",
    "errh": "error handler",
    "info": "info object",
    "win": "window",
    "file": "file",
    "session": "session",
}
CLASS = {v[1]: "MPI_ERR_" + v[3] for v in OBJECTS.values()}
NULL = {v[1]: v[2] for v in OBJECTS.values()}


# Tests that need only the name of the argument, by the function that reports them.  A text that
# ends in ~ gets ", at the root" where the test is made there only.
TEXTS = {
    "op_type": ("MPI_ERR_OP", "%s is a predefined operation, not defined for the datatype"),
    "rank": ("MPI_ERR_RANK", "%s is neither a rank of the group addressed nor MPI_PROC_NULL"),
    "source": (
        "MPI_ERR_RANK",
        "%s is neither a rank of the group addressed, MPI_ANY_SOURCE nor MPI_PROC_NULL",
    ),
    "member": ("MPI_ERR_RANK", "%s is not a rank of the communicator"),
    "root": (
        "MPI_ERR_ROOT",
        "%s is not a rank; an intercommunicator also allows MPI_ROOT and MPI_PROC_NULL",
    ),
    "tag": ("MPI_ERR_TAG", "%s is negative"),
    "recv_tag": ("MPI_ERR_TAG", "%s is negative and not MPI_ANY_TAG"),
    "count": ("MPI_ERR_COUNT", "%s is negative~"),
    "check_counts": ("MPI_ERR_COUNT", "an element of %s is negative~"),
    "buffer": (
        "MPI_ERR_BUFFER",
        "%s is a null pointer although there are data to move, or a special address that is not "
        "allowed here~",
    ),
}


def one_error(what, name, extra, cond):
    """(class, sentence) of one test of a binding: the function that reports it, the argument, the
    further arguments of that function, the condition in C."""
    at_root = "WM_AT_ROOT" in cond and "in_place" not in cond.split("&&")[-1]
    at = ", at the root" if at_root else ""
    arg = "`%s`" % name
    verb = what.replace("bad_", "", 1)
    if verb in KIND:
        null = " nor " + NULL[verb] if NULL[verb] in cond else ""
        text = "%s is %s live %s%s" % (arg, "neither a" if null else "not a", KIND[verb], null)
        return CLASS[verb], text + at
    if verb in ("null", "number"):
        errclass = re.search(r"MPI_ERR_\w+", extra)[0]
        return errclass, arg + (" is a null pointer" if verb == "null" else " is negative") + at
    if verb == "type":
        more = ", is not committed, or is not available on this machine" * ("usable" in cond)
        return "MPI_ERR_TYPE", arg + " is not a live datatype" + more
    if verb == "in_place":
        more = ", or at a process that is not the root" * ("WM_AT_ROOT" in cond)
        return "MPI_ERR_BUFFER", arg + " is MPI_IN_PLACE on an intercommunicator" + more
    errclass, text = TEXTS[verb]
    return errclass, (text % arg).replace("~", at)


def checked(proc):
    return not proc.is_tool and proc.returns_error


def of_binding(table, proc):
    """[(class, sentence)] of the tests in the binding; null pointers are one sentence."""
    if not checked(proc):
        return []
    phase = table.rule(proc.name, "-", "phase=")
    out, nulls = [], []
    if phase == "world":
        out.append(("MPI_ERR_OTHER", "the call is not between MPI_Init and MPI_Finalize"))
    elif phase != "any":
        out.append(("MPI_ERR_OTHER", "MPI is not initialised, and no session is open"))
    cond = ""
    for line in check.Writer(table, proc).write():
        cond = line if "if (" in line else cond
        m = TEST.search(line)
        if not m:
            continue
        found = one_error(m[1], m[2], m[3] or "", cond)
        if found[1].endswith("a null pointer") and found[0] == "MPI_ERR_ARG":
            nulls.append("`%s`%s" % (m[2], " (if its length is not 0)" * ("> 0" in cond)))
        else:
            out.append(found)
    if nulls:
        out.append(("MPI_ERR_ARG", "a pointer is null: " + ", ".join(nulls)))
    return out


def handler(table, proc):
    """Whose error handler is called."""
    if proc.is_tool:
        return "The call returns an error code of the tool interface and calls no error handler."
    if not checked(proc):
        return "The call reports no errors."
    subject = check.Writer(table, proc).subject
    base = subject.base if subject else None
    if base == "MPI_File" or (not base and proc.group == "io"):
        return (
            "The error handler of the file is called, or that of MPI_FILE_NULL if there is no "
            "file; initially it returns the error."
        )
    of = {
        "MPI_Comm": "of `%s`",
        "MPI_Win": "of the window `%s`",
        "MPI_Session": "of the session `%s`",
        "MPI_Errhandler": "`%s` itself",
        "MPI_Group": "of the session of `%s`, else of MPI_COMM_SELF,",
    }.get(base, "of MPI_COMM_SELF")
    text = "The error handler " + (of % subject.name if "%s" in of else of) + " is called."
    return text + "  The initial handler, MPI_ERRORS_ARE_FATAL, prints the error and ends the job."


def of_parameter(table, proc, p):
    """What the rules of the tables say of a parameter."""
    out = []
    if p.root_only:
        out.append("significant at the root only")
    where = table.rule(proc.name, p.name, "in_place=") if proc in table.procs else None
    if where == "all":
        out.append(
            "may be MPI_IN_PLACE, in all processes of an intracommunicator: the input is in the "
            "receive buffer"
        )
    elif where == "root":
        out.append("may be MPI_IN_PLACE at the root of an intracommunicator")
    return out
