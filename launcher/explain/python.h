/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in its Python code a thread of CPython is, read from outside by the offsets that CPython
 * publishes for that (_Py_DebugOffsets, section .PyRuntime).  The process runs nothing for it. */
#ifndef LAUNCHER_EXPLAIN_PYTHON_H
#define LAUNCHER_EXPLAIN_PYTHON_H

#include "launcher/explain/source.h"

/* The innermost Python frame of thread `tid` of process `pid`: function, file and line of *out;
 * nothing else changes.  False: no CPython, another version than 3.13, or the kernel forbids to
 * read the process. */
bool explain_python_find(pid_t pid, pid_t tid, struct explain_place *out);

/* The line of the instruction at byte `at` of a code object, from its table of locations
 * (co_linetable) and first line; 0: it has none. */
int explain_python_line(const unsigned char *table, size_t len, int first, int64_t at);

#endif
