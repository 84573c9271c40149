#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual pages of the procedures: man.py FOLDER.  Prototypes and directions come from
the tables, the errors of arguments from the checks that the bindings contain, the sentences from
man/*.txt (man/README.md has the format).  A procedure has its own page; that of MPI_X_c refers to
the page of MPI_X."""

import fnmatch
import glob
import os
import re
import sys

sys.dont_write_bytecode = True  # the source folder may be read-only
import sentences  # noqa: E402
from table import HERE, Table, read_tsv  # noqa: E402

DATE = "2026-11-30"
EXAMPLES = os.path.join(HERE, "../../docs/examples/calls")
OTHER_PAGES = {"weft_file_hints": 7, "weft_device_windows": 7, "mpirun": 1, "weft_info": 1}
FORM = {
    "WM_NONBLOCKING": "The call starts the operation of {} and returns.  Buffers and arrays must "
    "not be changed until MPI_Wait or another call of this kind has completed the request.",
    "WM_PERSISTENT": "The call prepares the operation of {} and starts nothing.  MPI_Start starts "
    "the operation, as often as needed; MPI_Wait completes each start; MPI_Request_free frees the "
    "request.  The arguments of the call remain in use until then.",
}


class Texts:
    """The sentences of man/*.txt, by family of procedures."""

    def __init__(self, table):
        self.table, self.families, self.of = table, [], {}
        self.common, self.blocks = [], {}
        self.names = {p.name for p in table.procs + table.fortran_procs}
        files = sorted(glob.glob(os.path.join(HERE, "man", "*.txt")))
        for path in sorted(files, key=lambda f: os.path.basename(f) != "common.txt"):
            self.read(path)

    def read(self, path):
        """One file; Rows as in man/README.md."""
        shared, family, block, blocks = [], None, None, dict(self.blocks)
        if os.path.basename(path) == "common.txt":
            blocks = self.blocks
        for number, line in enumerate(open(path, encoding="utf-8").read().splitlines(), 1):
            where = "%s:%d: " % (os.path.basename(path), number)
            word, _, rest = line.partition(" ")
            head, _, tail = rest.partition(": ")
            if line.startswith("#"):
                continue
            if word == "family":
                family, block = Family(rest, shared), None
                self.families.append(family)
            elif word == "block":
                block = blocks[rest] = []
            elif word == "arg":
                rows = family.args if family else shared
                (rows if os.path.basename(path) != "common.txt" else self.common).append(
                    self.argument(where, head, tail)
                )
            elif block is not None:
                block.append(line)
            elif family is None:
                if line:
                    raise SystemExit(where + "before the first family: " + line)
            elif word == "do":
                self.purpose(where, family, head, tail)
            elif not family.row(word, rest) and line.startswith("@"):
                if line[1:] not in blocks:
                    raise SystemExit(where + "there is no block " + line[1:])
                family.text += blocks[line[1:]]
            elif word not in Family.ROWS:
                family.text.append(line)

    @staticmethod
    def argument(where, head, text):
        pattern, _, name = head.rpartition(".")
        if not text or not name:
            raise SystemExit(where + "expected: arg [PROCEDURES.]NAME: TEXT")
        return pattern or "*", name, text, where, []

    def purpose(self, where, family, name, text):
        if name not in self.names or name in self.of or not text:
            raise SystemExit("%s%s: unknown, described before, or no purpose" % (where, name))
        family.purposes[name] = text
        self.of[name] = family

    def arg(self, proc, p):
        """The sentence of a parameter: of the family, of its file, of all; a row that names
        procedures, then the later row wins."""
        family = self.of[proc.name]
        for rows in (family.args, family.shared, self.common):
            rows = sorted(reversed(rows), key=lambda r: r[0] == "*")
            for pattern, name, text, _, used in rows:
                if name == p.name and matches(pattern, proc.name):
                    used.append(proc.name)
                    return text
        raise SystemExit("%s: no text for the parameter %s" % (proc.name, p.name))

    def unused(self):
        """Rows that no procedure uses."""
        rows = self.common + [r for f in self.families for r in f.args + f.shared]
        out = {r[3] + r[1] for r in rows if not r[4]}
        for f in self.families:
            patterns = [r[0] for r in f.only + f.rules] + [r[1] for r in f.errors + f.examples]
            for one in "|".join(patterns).split("|"):
                if not any(fnmatch.fnmatchcase(name, one) for name in f.purposes) and one:
                    out.add(f.title + ": " + one)
        return sorted(out)


class Family:
    """Procedures that share a description."""

    ROWS = ("error", "device", "rules", "see", "only", "handler", "example")

    def __init__(self, title, shared):
        self.title, self.shared = title, shared
        self.args, self.purposes, self.text, self.only = [], {}, [], []
        self.errors, self.rules, self.see = [], [], []
        self.device = self.handler = None
        self.examples = []

    def row(self, word, rest):
        head, _, tail = rest.partition(": ")
        if word == "error":
            classes, _, pattern = head.partition(" of ")
            self.errors.append((classes, pattern or "*", tail))
        elif word == "only":
            self.only.append((head, tail))
        elif word in ("device", "handler"):
            setattr(self, word, rest)
        elif word == "rules":
            self.rules.append((tail and head or "*", (tail or head).split()))
        elif word == "see":
            self.see += rest.split()
        elif word == "example":
            self.examples.append((head, tail or "*"))
        return word in self.ROWS


def matches(pattern, name):
    return any(fnmatch.fnmatchcase(name, p) for p in pattern.split("|"))


def roff(text):
    """Text with `parameters` in italics and names of MPI in bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fI\1\\fR", text)
    text = re.sub(r"\b((?:P?MPI_|MPIX_|WEFT_|RLIMIT_|weft_)[\w*]+)", r"\\fB\1\\fR", text)
    return "\\&" + text if text[:1] in (".", "'") else text


def sentence(text, names=()):
    """Begins with a capital letter, unless the first word is a name, or that of a parameter; ends
    with a full stop."""
    first = text.split()[0]
    if first in names:
        text = "`%s`%s" % (first, text[len(first) :])
    elif not re.search(r"[`_A-Z(]", first) and not first.startswith("weft"):
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "?")) else text + "."


def fold(line, width=76, indent="    "):
    out = []
    while len(line) > width:
        cut = line.rfind(", ", 0, width) + 1 or line.find("(") + 1
        if not cut:
            break
        out.append(line[:cut])
        line = indent + line[cut:].lstrip()
    return out + [line]


def parts(title, lines):
    return [".SH " + title] + lines if lines else []


def fortran_lines(name, text):
    """The interface of mpi_f08 from fortran.tsv: declarations, one line for each type."""
    args = [a.split(": ", 1) for a in text.split(" ; ")] if text not in ("", "-") else []
    types = {}
    for arg, kind in args:
        types.setdefault(kind, []).append(arg)
    lines = fold("%s(%s)" % (name, ", ".join(re.sub(r"\(.*", "", a) for a, _ in args)))
    for kind, names in types.items():
        lines += fold("    %s :: %s" % (kind, ", ".join(names)), indent="        ")
    return [line.replace("\\", "\\e").replace("-", "\\-") for line in lines]


class Page:
    def __init__(self, texts, fortran, proc):
        self.texts, self.table, self.proc = texts, texts.table, proc
        self.fortran = fortran.get(proc.name)
        self.family = texts.of[proc.name]
        self.twin = self.table.twins.get(proc.name)
        self.both = [proc] + ([self.twin] if self.twin else [])
        self.coll = self.table.collective(proc) if proc in self.table.procs else None

    def params(self):
        """The parameters of the procedure, and those that only its large-count twin has."""
        names = {p.name for p in self.proc.params}
        more = [p for p in self.twin.params if p.name not in names] if self.twin else []
        return [(self.proc, p) for p in self.proc.params] + [(self.twin, p) for p in more]

    def synopsis(self):
        out = [".nf", "#include <mpi.h>", ""]
        for p in self.both:
            out += fold(p.prototype() + ";")
        row = self.fortran
        if row and "mpi_f08" in row["modules"]:
            out += ["", "USE mpi_f08", ""]
            result = "" if row["returns"] == "subroutine" else row["returns"] + " "
            out += fortran_lines(result + self.proc.name, row["f08_args"])
            if row["f08_large_args"] not in ("", "-"):
                name = row["f08_large_form"].split(" ")[0]
                name = name if name.startswith("MPI_") else self.proc.name
                out += [""] + fortran_lines(name, row["f08_large_args"])
        return out + [".fi"]

    def parameter_lines(self):
        words = {"in": "input", "out": "output", "inout": "input and output"}
        out = []
        for proc, p in self.params():
            text = [self.texts.arg(self.proc, p)] + sentences.of_parameter(self.table, proc, p)
            note = "" if proc is self.proc else ", only of " + proc.name
            out += [".TP", "\\fI%s\\fR (%s%s)" % (p.name, words[p.direction], note)]
            out.append(roff("  ".join(sentence(t) for t in text)))
        return out

    def description(self):
        out = [roff(sentence(self.proc.name + " " + self.family.purposes[self.proc.name])), ".P"]
        if self.coll and self.coll.form in FORM:
            out += [roff(FORM[self.coll.form].format(self.coll.base.name)), ".P"]
        for pattern, text in self.family.only:
            if matches(pattern, self.proc.name):
                out += [roff(text), ".P"]
        for line in self.family.text:
            out.append(roff(line) if line else ".P")
        if self.proc.notes.startswith("deprecated") or self.proc.status.startswith("deprecated"):
            out += [".P", "The procedure is deprecated."]
        while out[-1] == ".P":
            out.pop()
        return [x for i, x in enumerate(out) if x != ".P" or out[i - 1] != ".P"]

    def device(self):
        if self.family.device:
            return [roff(self.family.device)]
        if any(p.kind == "BUFFER" for p in self.proc.params):
            raise SystemExit("%s: no row device" % self.proc.name)
        return ["The call has no buffer of user data."]

    def errors(self):
        """(classes, sentence): what the binding checks, then what the family names."""
        found = sentences.of_binding(self.table, self.proc) if self.proc in self.table.procs else []
        for classes, pattern, text in self.family.errors:
            if matches(pattern, self.proc.name):
                found.append((classes, text))
        return found

    def error_lines(self):
        handler = self.family.handler or sentences.handler(self.table, self.proc)
        out, by_class = [roff(handler)], {}
        for classes, text in self.errors():
            if text not in by_class.setdefault(classes, []):
                by_class[classes].append(text)
        names = [p.name for p in self.proc.params]
        for classes, lines in by_class.items():
            text = "  ".join(sentence(t, names) for t in lines)
            out += [".TP", ".B " + classes, roff(text)]
        return out

    def example(self):
        """The program of the last row that names the procedure, without its licence."""
        files = [f for f, pattern in self.family.examples if matches(pattern, self.proc.name)]
        if not files:
            return []
        with open(os.path.join(EXAMPLES, files[-1]), encoding="utf-8") as f:
            lines = f.read().replace("\\", "\\e").replace("-", "\\-").splitlines()[1:]
        lines = ["\\&" + x if x.startswith((".", "'")) else x for x in lines]
        path = ".I docs/examples/calls/" + files[-1]
        return ["The program is in the sources:", path, ".P", ".nf"] + lines + [".fi"]

    def standard(self):
        chapter = self.proc.chapter.split()[0]
        rules = sorted(self.family.rules, key=lambda r: r[0] != "*")
        rules = [r for pattern, r in rules if matches(pattern, self.proc.name)]
        if self.proc.status.startswith("non-standard"):
            return ["The procedure is not in MPI\\-5.0; the header of the ABI declares it."]
        where = "section " + ", ".join(rules[-1]) if rules else "chapter " + chapter
        since = ", since MPI\\-%s" % self.proc.since if self.proc.since[:1].isdigit() else ""
        return ["MPI\\-5.0, %s%s." % (where, since)]

    def see(self):
        forms = [n for n in self.family.purposes if n != self.proc.name][:12]
        names = list(dict.fromkeys(forms + [n for n in self.family.see if n != self.proc.name]))
        for name in names:
            if name not in self.texts.of and name not in OTHER_PAGES and name[:5] != "MPIX_":
                raise SystemExit("%s: see %s: there is no page" % (self.proc.name, name))
        items = [".BR %s (%d)" % (n, OTHER_PAGES.get(n, 3)) for n in names]
        return [i + " ," for i in items[:-1]] + items[-1:]

    def render(self):
        name = self.proc.name
        names = ", ".join(p.name for p in self.both)
        out = ['.\\" SPDX-License-Identifier: BSD-3-Clause']
        out.append('.TH %s 3 "%s" "Weft MPI" "Weft MPI"' % (name, DATE))
        out += [".SH NAME", names + " \\- " + roff_plain(self.family.purposes[name])]
        out += parts("SYNOPSIS", self.synopsis())
        out += parts("PARAMETERS", self.parameter_lines())
        out += parts("DESCRIPTION", self.description())
        out += parts('"DEVICE BUFFERS"', self.device())
        out += parts("ERRORS", self.error_lines())
        out += parts("EXAMPLE", self.example())
        out += parts("STANDARD", self.standard())
        out += parts('"SEE ALSO"', self.see())
        return "\n".join(out) + "\n"


def roff_plain(text):
    return text.replace("`", "").replace("\\", "\\e").replace("-", "\\-")


def pages(table):
    """Page name -> text."""
    texts = Texts(table)
    fortran = {r["name"]: r for r in read_tsv("fortran.tsv")}
    procs = table.procs + table.fortran_procs
    out = {}
    for proc in procs:
        if proc.twin_of:
            out[proc.name] = ".so man3/%s.3\n" % proc.twin_of
        elif proc.name in texts.of:
            out[proc.name] = Page(texts, fortran, proc).render()
        else:
            raise SystemExit("man/*.txt: no purpose of %s" % proc.name)
    if texts.unused():
        raise SystemExit("no procedure for: " + ", ".join(texts.unused()))
    return out


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name, text in pages(Table()).items():
        with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
