/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of Python code: tables of locations as CPython writes them (co_linetable), and the frames
 * of interpreters that this process makes up in its own memory. */
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

/* ---- an interpreter ---- */

/* The structs in the order of the offsets.  The first number of each is its size. */
enum group {
    RUNTIME,
    INTERP,
    THREAD,
    FRAME,
    CODE,
    OBJECT,
    TYPE,
    TUPLE,
    LIST,
    SET,
    DICT,
    FLOAT,
    LONG,
    BYTES,
    STRING,
    GROUPS
};

/* How many numbers CPython has for each. */
static const struct version {
    uint64_t hex;
    int members[GROUPS];
    int tags; /* in a frame's pointer to its code */
} v13 = { 0x030d00f0, { 3, 13, 9, 6, 10, 2, 4, 3, 3, 0, 3, 2, 3, 3, 4 }, 0 },
  v14 = { 0x030e02f0, { 3, 16, 9, 8, 11, 2, 4, 3, 3, 4, 3, 2, 3, 3, 4 }, 1 };

#define TID 4711
#define POINTER(object) ((uint64_t)(uintptr_t)(object))

/* Members at places of our own, all different. */
static struct interpreter {
    uint64_t numbers[120], head; /* _PyRuntime: the offsets, and more */
    uint64_t interp[4], threads[2][8], frames[2][8], code[12], types[2][4], strings[2][12],
        table[8];
    char name[8], none[16];
} x;

static uint64_t *number(const struct version *v, enum group g, int member)
{
    int at = 3 + member;
    for (int i = 0; i < (int)g; i++)
        at += v->members[i];
    return &x.numbers[at];
}

static void string(uint64_t *object, const char *text)
{
    object[1] = strlen(text);
    memcpy(&object[3], text, strlen(text) + 1);
}

static void offsets(const struct version *v)
{
    memset(x.numbers, 0xee, sizeof x.numbers);
    memcpy(x.numbers, "xdebugpy", 8);
    x.numbers[1] = v->hex;
    x.numbers[2] = 0;
    *number(v, RUNTIME, 2) = POINTER(&x.head) - POINTER(&x);
    *number(v, INTERP, 2) = 8;  /* next */
    *number(v, INTERP, 3) = 16; /* threads_head */
    *number(v, THREAD, 2) = 24; /* next */
    *number(v, THREAD, 4) = 40; /* current_frame */
    *number(v, THREAD, 6) = 16; /* native_thread_id */
    *number(v, FRAME, 1) = 48;  /* previous */
    *number(v, FRAME, 2) = 0;   /* executable */
    *number(v, FRAME, 3) = 32;  /* instr_ptr */
    *number(v, CODE, 1) = 16;   /* filename */
    *number(v, CODE, 3) = 24;   /* qualname */
    *number(v, CODE, 4) = 32;   /* linetable */
    *number(v, CODE, 5) = 44;   /* firstlineno */
    *number(v, CODE, 9) = 56;   /* co_code_adaptive */
    *number(v, OBJECT, 1) = 8;  /* ob_type */
    *number(v, TYPE, 1) = 24;   /* tp_name */
    *number(v, BYTES, 1) = 16;  /* ob_size */
    *number(v, BYTES, 2) = 32;  /* ob_sval */
    *number(v, STRING, 2) = 8;  /* length */
    *number(v, STRING, 3) = 24; /* data behind the header */
}

/* Of the second thread: a frame of C code, called by solve() at its third instruction. */
static void make(const struct version *v)
{
    static const unsigned char table[] = { 0x80 | 11 << 3 | 1, 4, 9, 0x80 | 12 << 3 | 0, 4, 9 };
    int first = 40;
    memset(&x, 0, sizeof x);
    offsets(v);
    x.head = POINTER(x.interp);
    x.interp[2] = POINTER(x.threads[0]);
    x.threads[0][3] = POINTER(x.threads[1]);
    x.threads[1][2] = TID;
    x.threads[1][5] = POINTER(x.frames[0]);
    x.frames[0][0] = POINTER(x.none);
    x.frames[0][6] = POINTER(x.frames[1]);
    x.frames[1][0] = POINTER(x.code) | (uint64_t)v->tags;
    x.frames[1][4] = POINTER(x.code) + 56 + 4;
    x.code[1] = POINTER(x.types[0]);
    x.types[0][3] = POINTER(x.name);
    memcpy(x.name, "code", 5);
    x.code[2] = POINTER(x.strings[0]);
    x.code[3] = POINTER(x.strings[1]);
    x.code[4] = POINTER(x.table);
    memcpy((char *)x.code + 44, &first, sizeof first);
    string(x.strings[0], "/home/user/heat/solver.py");
    string(x.strings[1], "Solver.solve");
    x.table[2] = sizeof table;
    memcpy(&x.table[4], table, sizeof table);
}

static void found(const struct version *v)
{
    char why[200];
    struct explain_place p = { 0 };
    make(v);
    CHECK(explain_python_at(getpid(), TID, POINTER(&x), &p, why, sizeof why));
    CHECK_STR(why, "");
    CHECK_STR(p.file, "solver.py");
    CHECK_STR(p.function, "Solver.solve");
    CHECK_EQ(p.line, 43);
    CHECK(!explain_python_at(getpid(), TID + 1, POINTER(&x), &p, why, sizeof why));
    CHECK_STR(why, "");
}

static void version_3_13(void) { found(&v13); }

/* A frame's pointer to its code has bits that are no address. */
static void version_3_14(void) { found(&v14); }

static void refused(const char *want)
{
    char why[200];
    struct explain_place p = { .line = 7 };
    CHECK(!explain_python_at(getpid(), TID, POINTER(&x), &p, why, sizeof why));
    CHECK_STR(why, want);
    CHECK_EQ(p.line, 7);
}

static void other_versions(void)
{
#define KNOWN "no lines of Python code: they can be read of CPython 3.13 and 3.14; this is "
    make(&v14);
    x.numbers[1] = 0x030f00a1;
    refused(KNOWN "version 3.15");
    make(&v14);
    x.numbers[2] = 1;
    refused(KNOWN "version 3.14 without the global interpreter lock");
    make(&v13);
    x.numbers[0] = 0;
    refused(KNOWN "an older version");
}

/* This process is no Python. */
static void no_python(void)
{
    char why[200];
    struct explain_place p = { .line = 7 };
    CHECK(!explain_python_find(getpid(), getpid(), &p, why, sizeof why));
    CHECK_STR(why, "");
    CHECK_EQ(p.line, 7);
}

int main(void)
{
    RUN(lines);
    RUN(version_3_13);
    RUN(version_3_14);
    RUN(other_versions);
    RUN(no_python);
    return check_end();
}
