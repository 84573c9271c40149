/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective calls of a file: see calls.h. */
#include "mpi/io/calls.h"
#include <stdio.h>
#include "mpi/base/comm.h"
#include "runtime/base/log.h"

/* An id: the number of the call, its class, free bits, the procedure before it, its procedure.
 * Procedures of one class match: if some ranks call MPI_File_read_at_all and the others
 * MPI_File_read_all, the file is read alike. */
#define CODE_BITS 8
#define CODE(id, n) ((unsigned)((id) >> (n)*CODE_BITS) & 0xffu)
#define CLASS_SHIFT 40
#define NUMBER_SHIFT 48
#define NUMBER(id) ((id) >> NUMBER_SHIFT)
#define NUMBERS 0x7fff
_Static_assert(WM_FILE_FREE_SHIFT == 2 * CODE_BITS &&
                   WM_FILE_FREE_MASK << WM_FILE_FREE_SHIFT < 1ll << CLASS_SHIFT,
               "free bits are between the class and the procedures");

/* The code of an access; those of other calls are below. */
#define ACCESS 0x80u
#define WRITE 0x40u
#define FORM_SHIFT 2

void wm_file_enter(struct wm_file *f, enum wm_file_call call)
{
    f->ncalls++;
    f->call_before = f->call;
    f->call = (uint8_t)call;
}

void wm_file_enter_access(struct wm_file *f, bool write, enum wm_where where,
                          enum wm_file_form form)
{
    wm_file_enter(f, (enum wm_file_call)(ACCESS | (write ? WRITE : 0) |
                                         (unsigned)form << FORM_SHIFT | (unsigned)where));
}

static unsigned class_of(unsigned code) { return code & ACCESS ? code & (ACCESS | WRITE) : code; }

int64_t wm_file_call_id(const struct wm_file *f)
{
    return (int64_t)(f->ncalls & NUMBERS) << NUMBER_SHIFT |
           (int64_t)class_of(f->call) << CLASS_SHIFT | f->call_before << CODE_BITS | f->call;
}

bool wm_file_calls_differ(const int64_t v[2])
{
    return v[0] >> CLASS_SHIFT != -v[1] >> CLASS_SHIFT;
}

static const char *name_of(unsigned code, char out[48])
{
    static const char *const calls[WM_FILE_CALLS] = {
        [WM_FILE_OPEN] = "open",
        [WM_FILE_CLOSE] = "close",
        [WM_FILE_PREALLOCATE] = "preallocate",
        [WM_FILE_SEEK_SHARED] = "seek_shared",
        [WM_FILE_SET_ATOMICITY] = "set_atomicity",
        [WM_FILE_SET_INFO] = "set_info",
        [WM_FILE_SET_SIZE] = "set_size",
        [WM_FILE_SET_VIEW] = "set_view",
        [WM_FILE_SYNC] = "sync",
    };
    static const char *const where[] = {
        [WM_AT] = "_at_all", [WM_OWN] = "_all", [WM_SHARED] = "_shared", [WM_ORDERED] = "_ordered"
    };
    unsigned form = code >> FORM_SHIFT & 3u;
    if (code & ACCESS)
        snprintf(out, 48, "MPI_File_%s%s%s%s", form == WM_FILE_LATER ? "i" : "",
                 code & WRITE ? "write" : "read", where[code & 3u],
                 form == WM_FILE_BEGIN ? "_begin" : "");
    else
        snprintf(out, 48, "MPI_File_%s", code < WM_FILE_CALLS ? calls[code] : "?");
    return out;
}

/* "call 2, MPI_File_close after MPI_File_write_at_all" */
static const char *text_of(int64_t id, char out[128])
{
    char name[48], before[48];
    snprintf(out, 128, "call %lld, %s after %s", (long long)NUMBER(id), name_of(CODE(id, 0), name),
             name_of(CODE(id, 1), before));
    return out;
}

int wm_file_calls_error(struct wm_file *f, int64_t mine, const int64_t v[2])
{
    char here[128], there[128];
    bool last = mine >> CLASS_SHIFT == v[0] >> CLASS_SHIFT;
    int64_t other = last ? -v[1] : v[0];
    bool fewer = NUMBER(mine) < NUMBER(other);
    text_of(mine, here);
    text_of(other, there);
    if (!f->apart && !last)
        log_error(
            MPI,
            "rank %d of file %s is in its collective %s; another rank is in %s: %s; collective "
            "calls on the file fail from now on",
            f->comm->rank, f->name, here, there,
            fewer ? "this rank has left out a collective call"
                  : "the ranks call different procedures");
    f->apart = true;
    return wm_err(MPI_ERR_NOT_SAME,
                  "the ranks of file %s are in different collective calls: this one in %s, another "
                  "one in %s",
                  f->name, here, there);
}

int wm_file_together(const struct wm_file *f)
{
    return f->apart
               ? wm_err(MPI_ERR_NOT_SAME,
                        "the ranks of file %s were in different collective calls before", f->name)
               : MPI_SUCCESS;
}
