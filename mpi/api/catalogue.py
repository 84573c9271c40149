#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes all calls and settings as JSON, for programs that read manuals: catalogue.py OUTPUT VERSION.  The sentences are those of
the manual pages (man.py) and of weft.conf(5)."""

import json
import os
import sys

sys.dont_write_bytecode = True  # the source folder may be read-only
import man  # noqa: E402
import sentences  # noqa: E402
from table import HERE, Table, read_tsv  # noqa: E402

BASE = os.path.join(HERE, "../../runtime/base")
sys.path.insert(0, BASE)
import conf_page  # noqa: E402


def plain(text, names=()):
    return man.sentence(text, names).replace("`", "")


class Record(man.Page):
    """A procedure as an object of JSON."""

    def parameters(self):
        for proc, p in self.params():
            text = [self.texts.arg(self.proc, p)] + sentences.of_parameter(self.table, proc, p)
            yield {"name": p.name, "direction": p.direction, "text": "  ".join(plain(t) for t in text)}

    def record(self):
        names = [p.name for p in self.proc.params]
        errors = {}
        for classes, text in self.errors():
            if plain(text, names) not in errors.setdefault(classes, []):
                errors[classes].append(plain(text, names))
        fortran = self.fortran
        return {
            "name": self.proc.name,
            "purpose": self.family.purposes[self.proc.name].replace("`", ""),
            "c": [p.prototype() for p in self.both],
            "fortran_modules": fortran["modules"].split(",") if fortran else [],
            "parameters": list(self.parameters()),
            "description": [t.replace("`", "") for t in self.family.text if t],
            "device_buffers": (self.family.device or "The call has no buffer of user data.").replace("`", ""),
            "errors": errors,
            "chapter": self.proc.chapter,
            "deprecated": "deprecated" in self.proc.notes + self.proc.status,
        }


def calls(table):
    texts = man.Texts(table)
    fortran = {r["name"]: r for r in read_tsv("fortran.tsv")}
    return [Record(texts, fortran, p).record() for p in table.procs + table.fortran_procs if not p.twin_of]


def settings():
    for name, kind, default, valid, words in conf_page.rows(os.path.join(BASE, "cfg.def")):
        yield {"name": name, "environment": "WEFT_" + name.upper(), "type": kind, "default": default,
               "valid": valid or "", "text": words}


def main(output, version):
    whole = {"library": "Weft MPI", "version": version, "standard": "MPI-5.0", "calls": calls(Table()), "settings": list(settings())}
    with open(output, "w", encoding="utf-8") as f:
        json.dump(whole, f, indent=1, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
