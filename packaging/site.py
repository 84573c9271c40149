#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the web pages of Weft with mkdocs: site.py BUILD OUTPUT.

The documents of the tree and the manual pages, in the places where they are in the tree, so that their links hold; mkdocs checks
the links (--strict).  A link to a source file leads to a copy of it."""

import os
import re
import shutil
import subprocess
import sys

SRC = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIG = """site_name: Weft MPI
docs_dir: pages
site_dir: {output}
theme: {{name: readthedocs, highlightjs: false}}
plugins: [search]
validation: {{links: {{anchors: warn, not_found: warn, unrecognized_links: warn}}, nav: {{omitted_files: ignore}}}}
nav:
  - Start: README.md
  - Manual pages: man/README.md
{docs}
  - Changes: CHANGELOG.md
"""
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")


def documents():
    for where, dirs, names in os.walk(SRC):
        dirs[:] = [d for d in dirs if not d.startswith((".", "build", "install", "autom4te")) or d == "build-aux"]
        yield from (os.path.relpath(os.path.join(where, n), SRC) for n in names if n.endswith(".md"))


def copy(path, pages):
    target = os.path.join(pages, path)
    if not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.join(SRC, path), target)


def copy_documents(pages):
    for path in documents():
        copy(path, pages)
        with open(os.path.join(SRC, path), encoding="utf-8") as f:
            targets = {m[1] for m in LINK.finditer(f.read())}
        for target in targets:
            full = os.path.normpath(os.path.join(os.path.dirname(path), target))
            if os.path.isfile(os.path.join(SRC, full)):
                copy(full, pages)


def manual_pages(build):
    found = {}
    for top in (SRC, build):
        for where, dirs, names in os.walk(top):
            dirs[:] = [d for d in dirs if not d.startswith((".", "deb", "fresh", "wheel", "site", "weft-mpi-"))
                       and (top == build or not d.startswith("build"))]
            found.update((n, os.path.join(where, n)) for n in names if re.fullmatch(r"[A-Za-z][\w.+-]*\.[1-8]", n))
    return found


def add_manual(pages, build):
    os.makedirs(os.path.join(pages, "man"))
    found = manual_pages(build)
    listed = {}
    for name, path in sorted(found.items()):
        with open(path, encoding="utf-8") as f:
            head = f.read(100)
        if head.startswith(".so "):
            continue
        text = subprocess.run(["groff", "-man", "-Tutf8", "-P-cbou", "-rLL=100n", path], capture_output=True, text=True, check=True).stdout
        title = re.sub(r"\.(\d)$", r"(\1)", name)
        listed.setdefault(name[-1], []).append(f"[{title}]({name}.md)")
        with open(os.path.join(pages, "man", name + ".md"), "w", encoding="utf-8") as f:
            f.write(f"# {title}\n\n" + "".join("    " + line + "\n" for line in text.splitlines()))
    with open(os.path.join(pages, "man", "README.md"), "w", encoding="utf-8") as f:
        f.write("# Manual pages\n\n" + "".join(f"**Section {s}**: {', '.join(p)}\n\n" for s, p in sorted(listed.items())))


def main(build, output):
    work = os.path.join(build, "site.tmp")
    pages = os.path.join(work, "pages")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(pages)
    copy_documents(pages)
    add_manual(pages, build)
    docs = "\n".join(f"  - {os.path.splitext(n)[0].capitalize()}: docs/{n}" for n in sorted(os.listdir(os.path.join(pages, "docs")))
                     if n.endswith(".md"))
    with open(os.path.join(work, "mkdocs.yml"), "w", encoding="utf-8") as f:
        f.write(CONFIG.format(output=os.path.abspath(output), docs=docs))
    code = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-f", os.path.join(work, "mkdocs.yml")],
                          check=False).returncode
    shutil.rmtree(work)
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
