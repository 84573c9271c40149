# SPDX-License-Identifier: BSD-3-Clause
"""Writes the entry points of mpi_f08 whose choice buffers arrive as C descriptors, X_f08ts: a
contiguous array is passed as its address, in one branch.  A section becomes a datatype, or is copied;
what is possible follows from the place of the buffer in the call."""

import re

from table import wrap

# Buffers of which the call takes the address only.
ADDRESS = re.compile(
    r"MPI_(Get_address|F_sync_reg|Free_mem|Win_detach|File_\w+_end|Fetch_and_op|Compare_and_swap)"
)
# Memory that is handed over: it must be contiguous.
WHOLE = re.compile(r"MPI_(\w*[Bb]uffer_attach|\w+_attach_buffer|Win_create|Win_attach)")
# Buffers that hold a block for each process or neighbour; how many.
BLOCKS = (
    (r"I?gather(_init)?", "recvbuf", "wf_root_blocks(*comm, *root)"),
    (r"I?scatter(_init)?", "sendbuf", "wf_root_blocks(*comm, *root)"),
    (r"I?allgather(_init)?", "recvbuf", "wf_peers(*comm)"),
    (r"I?alltoall(_init)?", "sendbuf|recvbuf", "wf_peers(*comm)"),
    (r"I?neighbor_(allgather|alltoall)(_init)?", "recvbuf", "wf_degree(*comm, false)"),
    (r"I?neighbor_alltoall(_init)?", "sendbuf", "wf_degree(*comm, true)"),
    (r"P(send|recv)_init", "buf", "wf_in(*partitions)"),
)
# Buffer -> its count and its datatype.
PAIRS = (
    (r"buf|buffer", "count", "datatype"),
    (r"(send|recv)buf", r"\1count", r"\1type"),
    (r"(\w+)_addr", r"\1_count", r"\1_datatype"),
    (r"(in|out)buf", r"\1count", "datatype"),
)


def pair(name, names):
    """Names of the count and of the datatype of a buffer, if the call has both for it alone."""
    for buf, count, datatype in PAIRS:
        m = re.fullmatch(buf, name)
        if m and m.expand(count) in names and m.expand(datatype) in names:
            return m.expand(count), m.expand(datatype)
    return None


def blocking(proc):
    return not re.match(r"MPI_(I[a-z]|R(put|get|accumulate))|.*_init$|.*_begin$", proc.name)


class Buffer:
    """A choice buffer of a form: how a section of it is passed on."""

    def __init__(self, form, code, number):
        self.form, self.name, self.number = form, code.name, number
        proc = form.proc
        codes = {c.name: c for c in form.codes}
        self.pair = pair(self.name, codes)
        self.blocks = None
        for names, buf, n in BLOCKS:
            if re.fullmatch("MPI_" + names, proc.name, re.I) and re.fullmatch(buf, self.name):
                self.blocks = n
        self.out = "false" if code.c is None or code.c.direction == "in" else "true"
        if ADDRESS.fullmatch(proc.name):
            self.role = "address"
        elif WHOLE.fullmatch(proc.name):
            self.role = "whole"
        elif self.pair:
            self.role = "blocks" if self.blocks else "one"
        else:
            self.role = "copy"
        # Type of the count in the call: s[i].count is an INTEGER, s[i].large has MPI_COUNT_KIND.
        self.field = "count"
        if self.pair and codes[self.pair[0]].c_type() == "MPI_Count":
            self.field = "large"

    def open(self):
        at, name = "&s[%d]" % self.number, self.name
        can_copy = "true" if blocking(self.form.proc) else "false"
        comm = "*comm" if any(c.name == "comm" for c in self.form.codes) else "0"
        if self.role == "one":
            flat = "flat%d" % self.number
            return "wf_section_one(%s, %s, %s, *%s, *%s)" % (at, flat, name, *self.pair)
        if self.role == "blocks":
            place = "(struct wf_place){ %s, %s, %s }" % (comm, can_copy, self.out)
            args = (at, name, self.blocks, *self.pair, place)
            return "wf_section_blocks(%s, %s, %s, *%s, *%s, %s)" % args
        if self.role == "copy":
            place = "(struct wf_place){ %s, %s, %s }" % (comm, can_copy, self.out)
            return "wf_section_copy(%s, %s, %s)" % (at, name, place)
        return "wf_section_whole(%s, %s)" % (at, name)

    def replaced(self):
        """What the call gets instead of its arguments."""
        out = {self.name: "s[%d].addr" % self.number}
        if self.role in ("one", "blocks"):
            out[self.pair[0]] = "&s[%d].%s" % (self.number, self.field)
            out[self.pair[1]] = "&s[%d].type" % self.number
        return out


def texts(form):
    """The slow path and the entry points of one form, or "" where the compiler passes addresses."""
    codes = form.codes
    choice = [c for c in codes if c.arg.is_choice]
    if not choice or any(c.arg.is_string for c in codes):
        return ""
    buffers = [Buffer(form, c, i) for i, c in enumerate(choice)]
    params = [
        "const struct wf_desc *" + c.name if c.arg.is_choice else c.declaration() for c in codes
    ]
    out = "" if all(b.role == "address" for b in buffers) else body(form, buffers, params)
    for prefix in ("", "P"):
        out += entry(form, prefix, buffers, params)
    return out


def call(form, replace):
    args = [replace.get(c.name, c.name) for c in form.codes]
    return "f_%s(%s);" % (form.short, ", ".join((["fn"] if form.c_name else []) + args))


def body(form, buffers, params):
    """What both entry points do: pass on the address of a contiguous array; else open sections."""
    head = "static inline void ts_%s(__typeof__(%s) *fn, %s)" % (
        form.short,
        form.c_name,
        ", ".join(params),
    )
    replace = {b.name: b.name + "->base" for b in buffers}
    direct = call(form, replace)
    sections = [b for b in buffers if b.role != "address"]
    for b in sections:
        replace.update(b.replaced())
    comm = "*comm" if any(c.name == "comm" for c in form.codes) else "0"
    n = len(buffers)
    lines = ["bool flat%d = wf_flat(%s);" % (b.number, b.name) for b in sections]
    lines += [
        "if (wf_likely(%s)) {" % " & ".join("flat%d" % b.number for b in sections),
        "    " + direct,
        "    return;",
        "}",
        "struct wf_section s[%d];" % n,
        "wf_section_begin(s, %d);" % n,
    ]
    for i, b in enumerate(sections):
        first = "int ret = %s;" if i == 0 else "ret = ret ? ret : %s;"
        lines.append(first % b.open())
    lines += [
        "if (wf_likely(ret == MPI_SUCCESS))",
        "    " + call(form, replace),
        "else",
        '    wf_section_refused(s, %d, "%s", %s, ret, ierror);' % (n, form.c_short_name, comm),
        "wf_section_end(s, %d);" % n,
    ]
    return "%s\n{\n%s\n}\n" % (wrap(head), "\n".join(wrap("    " + t) for t in lines))


def entry(form, prefix, buffers, params):
    names = prefix + form.proc.name + form.suffix, form.mpich_name(prefix, "f08ts")
    head = wrap("WF_EXPORT void WF_F08TS(%s, %s)(%s)" % (*names, ", ".join(params)))
    lines = ["WF_DESC(%s);" % b.name for b in buffers]
    target = form.c_name and (re.sub(r"\bMPI_", "PMPI_", form.c_name) if prefix else form.c_name)
    if all(b.role == "address" for b in buffers):
        text = call(form, {b.name: b.name + "->base" for b in buffers})
        text = text.replace("(fn,", "(%s," % target)
    else:
        text = "ts_%s(%s);" % (form.short, ", ".join([target] + [c.name for c in form.codes]))
    return "%s\n{\n%s\n}\n" % (head, "\n".join(wrap("    " + t) for t in lines + [text]))
