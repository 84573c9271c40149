/* SPDX-License-Identifier: BSD-3-Clause */
/* Python frames of another process: see python.h.  All that is read may change meanwhile, and may
 * be garbage: each length has a limit, each loop too, and a wrong pointer ends the search. */
#include "launcher/explain/python.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* CPython describes its structs in _Py_DebugOffsets: a cookie, the version, whether threads run
 * without the global lock, and then 64-bit numbers, most of them offsets.  Each version has them in
 * an order of its own. */
enum { COOKIE, PYTHON_VERSION, FREE_THREADED, NUMBERS = 81 };

/* The numbers that this file reads. */
enum field {
    RUNTIME_INTERPRETERS,
    INTERPRETER_NEXT,
    INTERPRETER_THREADS,
    THREAD_NEXT,
    THREAD_FRAME,
    THREAD_TID,
    FRAME_PREVIOUS,
    FRAME_CODE,
    FRAME_INSTRUCTION,
    CODE_FILENAME,
    CODE_NAME, /* with the names of classes */
    CODE_LINETABLE,
    CODE_FIRST_LINE,
    CODE_INSTRUCTIONS,
    OBJECT_TYPE,
    TYPE_NAME,
    BYTES_LENGTH,
    BYTES_DATA,
    STRING_LENGTH,
    STRING_DATA, /* of a string of ASCII characters */
    FIELDS
};

/* Their indices in the versions. */
static const uint64_t versions[] = { 0x030d, 0x030e };
static const uint8_t indices[FIELDS][sizeof versions / sizeof versions[0]] = {
    [RUNTIME_INTERPRETERS] = { 5, 5 }, [INTERPRETER_NEXT] = { 8, 8 },
    [INTERPRETER_THREADS] = { 9, 9 },  [THREAD_NEXT] = { 21, 24 },
    [THREAD_FRAME] = { 23, 26 },       [THREAD_TID] = { 25, 28 },
    [FRAME_PREVIOUS] = { 29, 32 },     [FRAME_CODE] = { 30, 33 },
    [FRAME_INSTRUCTION] = { 31, 34 },  [CODE_FILENAME] = { 35, 40 },
    [CODE_NAME] = { 37, 42 },          [CODE_LINETABLE] = { 38, 43 },
    [CODE_FIRST_LINE] = { 39, 44 },    [CODE_INSTRUCTIONS] = { 43, 48 },
    [OBJECT_TYPE] = { 45, 51 },        [TYPE_NAME] = { 47, 53 },
    [BYTES_LENGTH] = { 65, 75 },       [BYTES_DATA] = { 66, 76 },
    [STRING_LENGTH] = { 69, 79 },      [STRING_DATA] = { 70, 80 },
};
#define TAGS 3u /* bits of a frame's pointer to its code that are no part of the address: 3.14 */

#define MOST 1000 /* threads, interpreters, or frames without code */

struct python {
    pid_t pid;
    uint64_t runtime; /* address of _PyRuntime, which begins with the offsets */
    uint64_t offset[FIELDS];
};

static bool get(const struct python *p, uint64_t at, void *to, size_t len)
{
    struct iovec here = { to, len }, there = { (void *)(uintptr_t)at, len };
    return process_vm_readv(p->pid, &here, 1, &there, 1, 0) == (ssize_t)len;
}

/* The 8 bytes of a member of the struct at `at`; 0: not readable. */
static uint64_t member(const struct python *p, uint64_t at, enum field which)
{
    uint64_t v = 0;
    return at && get(p, at + p->offset[which], &v, sizeof v) ? v : 0;
}

/* ---- the interpreter ---- */

/* Address of section .PyRuntime in the file, relative to its first page in memory; 0: none. */
static uint64_t section_in(const char *image, size_t len)
{
    Elf64_Ehdr e;
    Elf64_Shdr s, names;
    memcpy(&e, image, sizeof e);
    size_t end = e.e_shoff + (uint64_t)e.e_shnum * sizeof s;
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
        e.e_shentsize != sizeof s || e.e_shoff > len || end > len || e.e_shstrndx >= e.e_shnum)
        return 0;
    memcpy(&names, image + e.e_shoff + e.e_shstrndx * sizeof s, sizeof names);
    for (int i = 0; i < e.e_shnum; i++) {
        memcpy(&s, image + e.e_shoff + (size_t)i * sizeof s, sizeof s);
        size_t name = names.sh_offset + s.sh_name;
        if (name + sizeof ".PyRuntime" <= len && !strcmp(image + name, ".PyRuntime"))
            return s.sh_addr;
    }
    return 0;
}

/* *fixed: the file's addresses are those in memory. */
static uint64_t section_of(const char *path, bool *fixed)
{
    struct stat st;
    uint64_t at = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof(Elf64_Ehdr)) {
        char *image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (image != MAP_FAILED) {
            at = section_in(image, (size_t)st.st_size);
            *fixed = ((const Elf64_Ehdr *)(const void *)image)->e_type == ET_EXEC;
            munmap(image, (size_t)st.st_size);
        }
    }
    close(fd);
    return at;
}

/* Where the interpreter's state is, if the file that is mapped from its beginning at `start` has
 * it; 0: it has none. */
static uint64_t runtime_in(pid_t pid, uint64_t start, const char *file)
{
    char path[4200];
    bool fixed = false;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, file);
    uint64_t at = section_of(path, &fixed);
    return at && !fixed ? at + start : at;
}

/* *is_python: a file of CPython is mapped. */
static uint64_t find_runtime(pid_t pid, bool *is_python)
{
    char maps[64], line[4200], file[4096];
    uint64_t runtime = 0;
    snprintf(maps, sizeof maps, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(maps, "re");
    while (f && !runtime && fgets(line, sizeof line, f)) {
        unsigned long start, offset;
        if (sscanf(line, "%lx-%*x %*s %lx %*s %*s %4095[^\n]", &start, &offset, file) != 3 ||
            offset)
            continue;
        const char *name = strrchr(file, '/');
        if (!name || (strncmp(name, "/python3", 8) && strncmp(name, "/libpython3", 11)))
            continue;
        *is_python = true;
        runtime = runtime_in(pid, start, file);
    }
    if (f)
        fclose(f);
    return runtime;
}

static bool unreadable(char *why, size_t len, const char *what)
{
    snprintf(why, len, "no lines of Python code: they can be read of CPython 3.13 and 3.14; %s",
             what);
    return false;
}

/* Reads the offsets. */
static bool attach(struct python *p, char *why, size_t len)
{
    uint64_t numbers[NUMBERS];
    char text[64];
    size_t v = 0;
    if (!get(p, p->runtime, numbers, sizeof numbers)) {
        snprintf(why, len, "no lines of Python code: the kernel forbids to read process %d",
                 (int)p->pid);
        return false;
    }
    if (memcmp(&numbers[COOKIE], "xdebugpy", 8))
        return unreadable(why, len, "this is an older version");
    uint64_t version = numbers[PYTHON_VERSION] >> 16;
    while (v < sizeof versions / sizeof versions[0] && versions[v] != version)
        v++;
    bool known = v < sizeof versions / sizeof versions[0];
    snprintf(text, sizeof text, "this is version %u.%u%s", (unsigned)(version >> 8 & 255),
             (unsigned)(version & 255), known ? " without the global interpreter lock" : "");
    if (!known || numbers[FREE_THREADED])
        return unreadable(why, len, text);
    for (int i = 0; i < FIELDS; i++)
        p->offset[i] = numbers[indices[i][v]];
    return true;
}

static uint64_t thread_of(const struct python *p, pid_t tid)
{
    uint64_t i = member(p, p->runtime, RUNTIME_INTERPRETERS);
    for (int n = 0; i && n < MOST; n++, i = member(p, i, INTERPRETER_NEXT)) {
        uint64_t t = member(p, i, INTERPRETER_THREADS);
        for (int k = 0; t && k < MOST; k++, t = member(p, t, THREAD_NEXT))
            if (member(p, t, THREAD_TID) == (uint64_t)tid)
                return t;
    }
    return 0;
}

/* ---- a frame ---- */

static bool is_code(const struct python *p, uint64_t object)
{
    char name[8] = "";
    uint64_t at = member(p, member(p, object, OBJECT_TYPE), TYPE_NAME);
    return at && get(p, at, name, 5) && !strcmp(name, "code");
}

/* Only ASCII; of a path the last part.  False: another string. */
static bool string(const struct python *p, uint64_t object, char *out, size_t room)
{
    char text[1024];
    uint64_t len = member(p, object, STRING_LENGTH);
    if (!len || len >= sizeof text || !get(p, object + p->offset[STRING_DATA], text, len + 1) ||
        text[len])
        return false;
    for (uint64_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    const char *name = strrchr(text, '/');
    snprintf(out, room, "%.*s", (int)room - 1, name ? name + 1 : text);
    return true;
}

static uint32_t varint(const unsigned char **at, const unsigned char *end)
{
    uint32_t v = 0;
    for (unsigned shift = 0; *at < end && shift < 30; shift += 6) {
        unsigned char b = *(*at)++;
        v |= (b & 63u) << shift;
        if (!(b & 64))
            break;
    }
    return v;
}

/* An entry begins with a byte that has the highest bit set: its form, and how many instructions of
 * two bytes it is for. */
int explain_python_line(const unsigned char *table, size_t len, int first, int64_t at)
{
    enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    const unsigned char *p = table, *end = table + len;
    int line = first;
    while (p < end) {
        unsigned form = *p >> 3 & 15u;
        int64_t nbytes = ((*p & 7) + 1) * 2;
        p++;
        if (form == NO_COLUMNS || form == LONG) {
            uint32_t v = varint(&p, end);
            line += v & 1 ? -(int)(v >> 1) : (int)(v >> 1);
        } else if (form >= ONE_LINE && form != NONE) {
            line += (int)form - ONE_LINE;
        }
        if (at < nbytes)
            return form == NONE ? 0 : line;
        at -= nbytes;
        while (p < end && !(*p & 128))
            p++;
    }
    return 0;
}

static int line_of(const struct python *p, uint64_t frame, uint64_t code)
{
    unsigned char table[65536];
    int first = 0;
    uint64_t object = member(p, code, CODE_LINETABLE), len = member(p, object, BYTES_LENGTH);
    int64_t at = (int64_t)(member(p, frame, FRAME_INSTRUCTION) - code -
                           p->offset[CODE_INSTRUCTIONS]);
    if (!object || len > sizeof table || !get(p, object + p->offset[BYTES_DATA], table, len) ||
        !get(p, code + p->offset[CODE_FIRST_LINE], &first, sizeof first))
        return 0;
    return explain_python_line(table, len, first, at);
}

bool explain_python_at(pid_t pid, pid_t tid, uint64_t runtime, struct explain_place *out, char *why,
                       size_t len)
{
    struct python p = { .pid = pid, .runtime = runtime };
    *why = '\0';
    if (!attach(&p, why, len))
        return false;
    uint64_t frame = member(&p, thread_of(&p, tid), THREAD_FRAME), code = 0;
    for (int n = 0; frame && n < MOST; n++, frame = member(&p, frame, FRAME_PREVIOUS)) {
        code = member(&p, frame, FRAME_CODE) & ~(uint64_t)TAGS;
        if (is_code(&p, code)) /* else a frame of C code */
            break;
    }
    char function[sizeof out->function], file[sizeof out->file];
    int line = frame ? line_of(&p, frame, code) : 0;
    if (line <= 0 || !string(&p, member(&p, code, CODE_FILENAME), file, sizeof file) ||
        !string(&p, member(&p, code, CODE_NAME), function, sizeof function))
        return false;
    memcpy(out->file, file, sizeof file);
    memcpy(out->function, function, sizeof function);
    out->line = line;
    return true;
}

bool explain_python_find(pid_t pid, pid_t tid, struct explain_place *out, char *why, size_t len)
{
    bool is_python = false;
    uint64_t runtime = find_runtime(pid, &is_python);
    if (runtime)
        return explain_python_at(pid, tid, runtime, out, why, len);
    *why = '\0';
    return is_python && unreadable(why, len, "this is an older version");
}
