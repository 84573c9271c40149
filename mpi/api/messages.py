#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual page weft_errors(7) from messages.txt: messages.py OUTPUT.

An entry of messages.txt is lines "= MESSAGE", the beginning of a message as the sources have it (* stands for any text), then
lines of the cause, then lines "> REMEDY".  "= MPI_ERR_..." describes the errors of calls with this class.  messages.py --check
finds messages and classes of the sources without an entry, and entries without a message."""

import fnmatch
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.dirname(os.path.dirname(HERE))
DATE = "2026-12-01"
FOLDERS = ("runtime", "btl", "coll", "mpi", "launcher")
# What prints, and what makes a text that is printed.
CALL = re.compile(r"\b(log_error|log_warn|launch_usage|launch_report|launch_say|verbs_peer_fail|wm_malformed|check_fail|agent_refuse|fprintf|"
                  r"dprintf)\s*\(")
STRING = re.compile(r'((?:"(?:[^"\\]|\\.)*"\s*)+)')
CLASS = re.compile(r"\b(?:wm_err\s*\(|RT_ERR\(\s*\w+,)\s*(MPIX?_ERR_\w+)")
DIRECTIVE = re.compile(r"%[-+ #0-9.*]*(?:ll|l|z|j|h)*[a-zA-Z]")
HEAD = r'''.\" SPDX-License-Identifier: BSD-3-Clause
.\" Written by mpi/api/messages.py from mpi/api/messages.txt.
.TH weft_errors 7 "%s" "Weft MPI" "Weft MPI"
.SH NAME
weft_errors \- messages of Weft MPI, with cause and remedy
.SH DESCRIPTION
The library prints one line on standard error for each fault that it finds:
.P
.nf
[host:pid rank 3 btl] text
.fi
.P
The word behind the rank is the component, whose level
.B WEFT_LOG
sets (WEFT_LOG=btl:debug).
.B mpirun
begins its lines with
.BR mpirun: .
Below, ... stands for a name or a number.  What a call returns is described by its error class, in the last section and in the
page of the call.
'''
TAIL = r'''.SH SEE ALSO
.BR weft (7),
.BR weft.conf (5),
.BR mpirun (1),
.BR weft_info (1)
'''


def arguments(text, at):
    """The text between the parenthesis at `at` and the one that ends it."""
    depth, quoted, i = 0, False, at
    while True:
        c = text[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c in "()":
            depth += 1 if c == "(" else -1
            if not depth:
                return text[at + 1:i]
        i += 1


def sources():
    for folder in FOLDERS:
        for where, dirs, names in os.walk(os.path.join(SRC, folder)):
            dirs[:] = [d for d in dirs if d not in ("info", "ping")]  # programs whose messages are their results
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def")):
                    yield os.path.join(where, name)


def messages():
    """(file, text) of each message of the sources."""
    for path in sources():
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for call in CALL.finditer(text):
            words = arguments(text, call.end() - 1).strip()
            if call[1] == "fprintf" and not words.startswith("stderr") or call[1] == "dprintf" and not words.startswith("2,"):
                continue
            found = STRING.search(words)
            if found:
                whole = re.sub(r'"\s*"', "", found[1].strip())[1:-1].replace("\\n", " ").replace('\\"', '"').strip()
                if re.search(r"[A-Za-z]{3}", DIRECTIVE.sub("", whole)):
                    yield os.path.relpath(path, SRC), whole


def classes():
    for path in sources():
        with open(path, encoding="utf-8") as f:
            yield from CLASS.findall(f.read())


def entries(path):
    """Sections: (title, [(messages, cause, remedy)])."""
    sections = []
    with open(path, encoding="utf-8") as f:
        blocks = re.split(r"\n\s*\n", re.sub(r"(?m)^# .*\n", "", f.read()).strip())
    for block in blocks:
        if block.startswith("## "):
            sections.append((block[3:].strip(), []))
            continue
        lines = block.splitlines()
        keys = [line[2:] for line in lines if line.startswith("= ")]
        cause = " ".join(line for line in lines if line[:2] not in ("= ", "> "))
        remedy = " ".join(line[2:] for line in lines if line.startswith("> "))
        if not (keys and cause and remedy):
            raise SystemExit(f"{path}: an entry needs = MESSAGE, a cause and > REMEDY:\n{block}")
        sections[-1][1].append((keys, cause, remedy))
    return sections


def faults(sections, found):
    """What has no entry, and entries of nothing."""
    keys = [k for _, rows in sections for row in rows for k in row[0]]
    form = {k: re.compile(fnmatch.translate(k.replace("[", "[[]").replace("?", "[?]") + "*")) for k in keys}
    used = set()
    for path, text in found:
        fit = [k for k in keys if form[k].match(text)]
        used.update(fit)
        if not fit:
            yield f"{path}: no entry for: {text}"
    yield from (f"no message of the sources begins with: {k}" for k in keys if k not in used)


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def shown(key):
    return roff(re.sub(r"(\.\.\. ?){2,}", "... ", DIRECTIVE.sub("...", key.replace("%%", "%")).replace("*", "...")).strip())


def page(sections):
    out = []
    for title, rows in sections:
        out.append(".SH " + title.upper())
        for keys, cause, remedy in rows:
            for i, key in enumerate(keys):
                out += [".TP" if i == 0 else ".TQ", "\\fB" + shown(key) + "\\fR"]
            out += [roff(cause), ".br", "\\(->\\~" + roff(remedy)]
    return HEAD % DATE + "\n".join(out) + "\n" + TAIL


def main(output):
    sections = entries(os.environ.get("WEFT_MESSAGES", os.path.join(HERE, "messages.txt")))
    if output != "--check":
        with open(output, "w", encoding="utf-8") as f:
            f.write(page(sections))
    elif wrong := list(faults(sections, [*messages(), *(("a class", c) for c in set(classes()))])):
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main(sys.argv[1])
