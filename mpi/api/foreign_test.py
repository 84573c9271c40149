# SPDX-License-Identifier: BSD-3-Clause
"""Writes test/foreign/arguments_ABI.h: for each generated procedure of mpi/foreign a stub in the
place of Weft's, which compares the arguments that it gets and stores results, and a call with
foreign arguments, which compares the results.  Lengths and other plain integers are 2."""

import re

from foreign import BY_HAND, CONSTANTS, ENVELOPE, HANDLES, SPECIAL, STRINGS, VALUES, foreign_decl
from table import COMPLETE, DIRECT, KNOWN, MESSAGE, wrap


def samples(abi, handles):
    """#define OURS_word and THEIRS_word: a constant of each conversion whose values differ, if one
    does; OURS2_ and THEIRS2_: another handle."""
    pairs = dict(handles)
    for word, (mode, pattern) in CONSTANTS.items():
        found = [(a, b) for _, a, b in abi.pairs(pattern, word)] or [("WX_INVALID", "WX_INVALID")]
        pairs[word] = sorted(found, key=lambda p: p[0] == p[1])[:1]
    pairs["error"] = [p[1:] for p in abi.pairs("MPI_ERR_REQUEST")]
    text = ""
    for word, found in sorted(pairs.items()):
        for number, (theirs, ours) in zip(("", "2"), found):
            text += "#define THEIRS%s_%s %s\n" % (number, word, theirs)
            text += "#define OURS%s_%s %s\n" % (number, word, ours)
    return text


class Check:
    """One argument: what the caller passes, what the stub does, what the caller compares."""

    def __init__(self, proc, p):
        self.p, self.name = p, p.name
        self.before, self.stub, self.after = [], [], []
        self.arg = self.pick(proc)

    def want(self, expr, value):
        self.stub.append("WANT(%s, %s);" % (expr, value))

    def cell(self, kind, start):
        """A variable of the caller, two elements; start may be None."""
        init = " = { %s, %s }" % (start, start) if start else " = { 0 }"
        self.before.append("%s %s_v[8]%s;" % (kind, self.name, init))
        return "%s_v" % self.name

    def pick(self, proc):
        p, name = self.p, self.name
        how = next((h for a, b, h in SPECIAL
                    if re.fullmatch(a, proc.name) and re.fullmatch(b, name)), None)  # fmt: skip
        if p.base == "MPI_Request" and p.pointer and DIRECT.fullmatch(proc.name):
            return self.plain()
        if p.base in HANDLES:
            return self.handle(HANDLES[p.base])
        if p.base == "MPI_Status" and COMPLETE.fullmatch(proc.name):
            return self.plain()
        if p.base == "MPI_Status":
            return self.status(proc)
        plain = MESSAGE.fullmatch(proc.name) or any(q.name == "sendtypes" for q in proc.params)
        if p.kind == "BUFFER" and how is None and not plain:
            self.want(name, "MPI_IN_PLACE")
            return "WX_IN_PLACE"
        if p.kind == "C_BUFFER2":
            self.stub.append("*(void **)%s = MPI_BUFFER_AUTOMATIC;" % name)
            self.after.append("WANT(%s_v[0], WX_BUFFER_AUTOMATIC);" % name)
            return self.cell("void *", None)
        if p.kind == "WEIGHT":
            self.want(name, "MPI_UNWEIGHTED")
            return "theirs_unweighted"
        if p.kind == "PVAR" and p.direction == "in":
            self.want(name, "MPI_T_PVAR_ALL_HANDLES")
            return "theirs_all_handles"
        word = how if how is not None else VALUES.get(p.kind)
        if word:
            return self.value(word)
        for procs, string, limit in STRINGS:
            if re.fullmatch(procs, proc.name):
                if re.fullmatch(string, name):
                    return self.string(limit)
                if name in ("resultlen", "len"):
                    return self.string_length(limit)
        return self.plain()

    def handle(self, word):
        name, kind, null = self.name, self.p.base, self.p.direction == "out"
        ours = ["(%s)OURS%s_%s" % (kind, n, word) for n in ("", "2")]
        theirs = ["(wx_%s)(THEIRS%s_%s)" % (kind, n, word) for n in ("", "2")]
        if not self.p.pointer:
            self.want(name, ours[0])
            return theirs[0]
        cells = self.cell("wx_" + kind, None if null else theirs[0])
        for i in range(2 if self.p.is_array else 1):
            if self.p.direction == "inout":
                self.stub.append("if (!failure) /* the call that fails comes after */")
            if not null:
                self.want("%s[%d]" % (name, i), ours[0])
            if self.p.direction != "in":
                self.stub.append("%s[%d] = %s;" % (name, i, ours[1]))
                self.after.append("WANT(%s[%d], %s);" % (cells, i, theirs[1]))
        return cells

    def status(self, proc):
        name, n = self.name, 2 if self.p.is_array else 1
        cells = self.cell("wx_MPI_Status", None)
        for i in range(n):
            if self.p.direction == "out":
                what = "envelope" if ENVELOPE.fullmatch(proc.name) else "status"
                self.stub.append("store_%s(&%s[%d]);" % (what, name, i))
                self.after.append("want_%s(&%s[%d]);" % (what, cells, i))
            else:
                self.before.append("set_status(&%s[%d]);" % (cells, i))
                self.stub.append("want_our_status(&%s[%d]);" % (name, i))
        return cells

    def value(self, word):
        name, ours, theirs = self.name, "OURS_" + word, "THEIRS_" + word
        if not self.p.pointer:
            self.want("(int)%s" % name, ours)
            return theirs
        out = self.p.direction == "out"
        cells = self.cell("int", None if out else theirs)
        for i in range(2 if self.p.is_array else 1):
            if not out:
                self.want("%s[%d]" % (name, i), ours)
            if self.p.direction != "in":
                self.stub.append("%s[%d] = %s;" % (name, i, ours))
                self.after.append("WANT(%s[%d], %s);" % (cells, i, theirs))
        return cells

    def string(self, limit):
        """The longest that Weft has is cut to what the caller has room for."""
        self.stub.append("store_string(%s, MPI_MAX_%s);" % (self.name, limit))
        self.after.append("WANT((int)strlen(memory), LONGEST(%s));" % limit)
        return "memory"

    def string_length(self, limit):
        self.stub.append("*%s = MPI_MAX_%s - 1;" % (self.name, limit))
        self.after.append("WANT(%s_v[0], LONGEST(%s));" % (self.name, limit))
        return self.cell("int", None)

    def plain(self):
        """Passed on as it is; what is stored in it are twos."""
        name = self.name
        integer = self.p.base in ("int", "MPI_Aint", "MPI_Count", "MPI_Offset")
        if self.p.pointer or not integer:
            if self.p.base.startswith("MPI_T_") and not self.p.pointer:
                self.want("(void *)%s" % name, "(void *)memory")
                return "(%s)(void *)memory" % self.p.base
            if integer and self.p.direction == "out" and self.p.stars == 1:
                self.stub.append("*%s = 2;" % name)
                self.after.append("WANT(%s_v[0], 2);" % name)
                return self.cell(self.p.base, None)
            self.want("(const void *)%s" % name, "(void *)memory")
            return "(void *)memory"
        self.want(name, "2")
        return "2"


def check(proc):
    short = proc.title
    checks = [Check(proc, p) for p in proc.params]
    theirs = ", ".join(foreign_decl(p) for p in proc.params) or "void"
    ours = ", ".join(re.sub(r"(\w*weights)\[\]", r"*\1", p.decl) for p in proc.params) or "void"
    result = "0" if not proc.returns_error else "failure"
    if DIRECT.fullmatch(proc.name):
        result = "failure ? THEIRS_error : 0"
    stub = [line for c in checks for line in c.stub] + ["calls++;", "return %s;" % result]
    call = "theirs_%s(%s)" % (short, ", ".join(c.arg for c in checks))
    body = [line for c in checks for line in c.before] + ['begin("%s");' % proc.name]
    if proc.returns_error:
        body.append("WANT(%s, 0);" % call)
        body += [line for c in checks for line in c.after]
        body += ["begin_failure();", "WANT(%s, THEIRS_error);" % call]
    else:
        body += [call + ";"]
    body += ["end();"]
    out = wrap("%s theirs_%s(%s)" % (proc.returns, short, theirs))
    out += ' __asm__("P%s");\n' % proc.name
    for head, lines in (
        ("static %s stub_%s(%s)" % (proc.returns, short, ours), stub),
        ("static void check_%s(void)" % short, body),
    ):
        out += "%s\n{\n%s\n}\n" % (wrap(head), "\n".join(wrap("    " + t) for t in lines))
    return out


def arguments_h(abi, table, handles):
    procs = [p for p in table.procs + table.extensions if not BY_HAND.fullmatch(p.name)]
    text = "/* SPDX-License-Identifier: BSD-3-Clause */\n/* Generated by foreign_test.py. */\n"
    text += samples(abi, handles) + "\n#include HELPERS\n\n"
    text += "\n".join(check(p) for p in procs)
    text += "\nstatic void check_all(void)\n{\n"
    text += "".join("    wx_weft.%s = stub_%s;\n" % (p.title, p.title) for p in procs)
    text += "".join(
        "    wx_weft.known_%s = stub_%s;\n" % (p.title, p.title)
        for p in procs
        if KNOWN.fullmatch(p.name)
    )
    text += "".join("    check_%s();\n" % p.title for p in procs)
    return text + "}\n"
