/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in its Python code a thread of CPython is, read from outside by the offsets that CPython
 * publishes for that (_Py_DebugOffsets, section .PyRuntime).  The process runs nothing for it. */
#ifndef LAUNCHER_EXPLAIN_PYTHON_H
#define LAUNCHER_EXPLAIN_PYTHON_H

#include "launcher/explain/source.h"

/* The innermost Python frame of thread `tid` of process `pid`: function, file and line of *out;
 * nothing else changes.  False: no CPython, one that cannot be read (*why: a line for the user), or
 * no frame of Python code (*why: ""). */
bool explain_python_find(pid_t pid, pid_t tid, struct explain_place *out, char *why, size_t len);
/* The same of an interpreter whose _PyRuntime is at `runtime`. */
bool explain_python_at(pid_t pid, pid_t tid, uint64_t runtime, struct explain_place *out, char *why,
                       size_t len);

/* The line of the instruction at byte `at` of a code object, from its table of locations
 * (co_linetable) and first line; 0: it has none. */
int explain_python_line(const unsigned char *table, size_t len, int first, int64_t at);

#endif
