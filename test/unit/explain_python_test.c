/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of Python code: tables of locations as CPython 3.13 writes them (co_linetable). */
#include "launcher/explain/python.h"
#include "test/check.h"

#include <unistd.h>

/* One line forward, columns in the two bytes behind; without columns, five lines back; short forms,
 * which stay in the line; no line; long form, a line forward. */
static void lines(void)
{
    static const unsigned char table[] = { 0x80 | 11 << 3 | 1, 4,  9, /* 2 instructions */
                                           0x80 | 13 << 3 | 0, 11,    /* 1, by -5 */
                                           0x80 | 1 << 3 | 2,  7,     /* 3 */
                                           0x80 | 15 << 3 | 0,        /* 1 without a line */
                                           0x80 | 14 << 3 | 0, 2,  1, 3, 4 };
    static const int want[] = { 11, 11, 6, 6, 6, 6, 0, 7 };
    for (int i = 0; i < 8; i++)
        CHECK_EQ(explain_python_line(table, sizeof table, 10, 2 * i), want[i]);
    CHECK_EQ(explain_python_line(table, sizeof table, 10, 16), 0);
    CHECK_EQ(explain_python_line(table, 0, 10, 0), 0);
}

/* This process is no Python. */
static void no_python(void)
{
    struct explain_place p = { .line = 7 };
    CHECK(!explain_python_find(getpid(), getpid(), &p));
    CHECK_EQ(p.line, 7);
}

int main(void)
{
    RUN(lines);
    RUN(no_python);
    return check_end();
}
