/* SPDX-License-Identifier: BSD-3-Clause */
/* The ABI that MPICH, Intel MPI and Cray MPICH share (libmpi.so.12).  Handles are ints: predefined
 * ones are constants, which tables convert; any other is Weft's handle of 31 bits with the highest
 * bit set.  The highest bit is also set in pair types, but these are in the table, and no handle of
 * a datatype of Weft has their bits.  MPI_File is a pointer. */
#ifndef WX_MPICH_ABI_H
#define WX_MPICH_ABI_H

#include <stdint.h>
#include "mpi.h"
#include "mpi/base/status.h"
#include "mpi/foreign/mpich/values.h"

typedef int wx_MPI_Comm, wx_MPI_Datatype, wx_MPI_Errhandler, wx_MPI_Group, wx_MPI_Info;
typedef int wx_MPI_Message, wx_MPI_Op, wx_MPI_Request, wx_MPI_Session, wx_MPI_Win;
typedef struct ADIOI_FileD *wx_MPI_File;

typedef struct {
    int count_lo;
    int count_hi_and_cancelled;
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
} wx_MPI_Status;

#define WX_SAME_STATUS false    /* not Weft's fields */
#define WX_FREE_AFTER_END false /* its MPI_Free_mem ends the job after MPI_Finalize */
#define WX_SAME_REQUESTS false  /* ints */
#define wx_request_null (uintptr_t)0x2c000000
#define WX_STATUS_IGNORE ((wx_MPI_Status *)1)
#define WX_IN_PLACE ((void *)-1)
#define WX_BUFFER_AUTOMATIC ((void *)-2)
/* Codes that users add begin with Weft's at MPI_ERR_LASTCODE + 1; here they follow MPICH's last. */
#define WX_USER_CODE 0x40000000
#define WX_LASTCODE 0x3fffffff /* MPI_ERR_LASTCODE */

/* MPI_LB and MPI_UB, which mark a bound of a struct. */
#define WX_IS_LB(type) ((type) == 0x4c000010)
#define WX_IS_UB(type) ((type) == 0x4c000011)

/* ---- handles ---- */

struct wx_pair {
    uint32_t theirs, ours;
};
#define WX_SLOTS 512
#define WX_PREDEFINED 0x300 /* Weft's predefined handles are below; other handles are far above */
#define WX_NO_HANDLE 0xfffu /* no object of any kind */

extern const uint32_t wx_theirs[WX_PREDEFINED] __attribute__((visibility("hidden")));

static inline uintptr_t wx_handle_in(const struct wx_pair *pairs, uint32_t h)
{
    const struct wx_pair *p = &pairs[(h & 0x7f) | (h >> 23 & 0x180)];
    if (p->theirs == h)
        return p->ours;
    return h >> 31 ? h & 0x7fffffff : WX_NO_HANDLE;
}

static inline int wx_handle_out(uintptr_t h)
{
    return (int)(h < WX_PREDEFINED ? wx_theirs[h] : (uint32_t)h | 0x80000000u);
}

#define WX_TABLE(word) \
    extern const struct wx_pair wx_##word##_pairs[WX_SLOTS] __attribute__((visibility("hidden")));
#define WX_IN(word, type, quick) \
    static inline type wx_##word##_in(int handle) \
    { \
        uint32_t h = (uint32_t)handle; \
        return (type)(quick wx_handle_in(wx_##word##_pairs, h)); \
    }
#define WX_OUT(word, type) \
    static inline int wx_##word##_out(type h) { return wx_handle_out((uintptr_t)h); }
/* Most handles of these classes need no table. */
#define WX_HANDLE(word, type) \
    WX_TABLE(word) WX_IN(word, type, h >> 31 ? h & 0x7fffffff :) WX_OUT(word, type)

/* The predefined datatypes but pairs: 0x4c00SSNN, with size and number; those not here are in the
 * table of pairs. */
extern const struct wx_pair wx_types[256] __attribute__((visibility("hidden")));
WX_TABLE(type)
WX_IN(type, MPI_Datatype,
      __builtin_expect(wx_types[h & 0xff].theirs == h, 1) ? wx_types[h & 0xff].ours :)
WX_OUT(type, MPI_Datatype)

WX_TABLE(comm)
WX_IN(comm, MPI_Comm,
      __builtin_expect(h == 0x44000000, 1) ? (uintptr_t)MPI_COMM_WORLD
      : h >> 31                            ? h & 0x7fffffff
                                           :)
WX_OUT(comm, MPI_Comm)

/* Whether messages with these are common: a datatype of wx_types, and MPI_COMM_WORLD. */
static inline bool wx_common(int type, int comm)
{
    return wx_types[type & 0xff].theirs == (uint32_t)type && comm == 0x44000000;
}
static inline MPI_Datatype wx_common_type(int type)
{
    return (MPI_Datatype)(uintptr_t)wx_types[type & 0xff].ours;
}
static inline MPI_Comm wx_common_comm(int comm) { return (void)comm, MPI_COMM_WORLD; }

WX_HANDLE(errh, MPI_Errhandler)
WX_HANDLE(group, MPI_Group)
WX_HANDLE(info, MPI_Info)
WX_HANDLE(message, MPI_Message)
WX_HANDLE(op, MPI_Op)
WX_HANDLE(session, MPI_Session)
WX_HANDLE(win, MPI_Win)

/* Also the null one, which Weft recognises (mpi/base/caller.h). */
static inline MPI_Request wx_request_in(int h)
{
    return (MPI_Request)(uintptr_t)((uint32_t)h ^ 0x80000000u);
}
static inline int wx_request_out(MPI_Request h)
{
    return (int)((uint32_t)(uintptr_t)h ^ 0x80000000u);
}

static inline MPI_File wx_file_in(wx_MPI_File h)
{
    return h ? (MPI_File)((uintptr_t)h & 0x7fffffff) : MPI_FILE_NULL;
}
static inline wx_MPI_File wx_file_out(MPI_File h)
{
    return h == MPI_FILE_NULL ? NULL : (wx_MPI_File)((uintptr_t)h | 0x80000000u);
}

/* ---- error codes ---- */

static inline int wx_error_in(int code)
{
    if (code >= WX_USER_CODE)
        return code - WX_USER_CODE;
    return code ? wx_error_class_in(code & 0x7f) : MPI_SUCCESS;
}

static inline int wx_error_out(int code)
{
    if (__builtin_expect(code == MPI_SUCCESS, 1))
        return 0;
    return code > MPI_ERR_LASTCODE ? code + WX_USER_CODE : wx_error_class_out(code);
}

/* ---- statuses ---- */

static inline void wx_status_write(const MPI_Status *s, wx_MPI_Status *f)
{
    int64_t len = wm_status_len(s);
    f->count_lo = (int)(uint32_t)len;
    f->count_hi_and_cancelled = (int)((uint32_t)(len >> 32) << 1 | wm_status_cancelled(s));
    f->MPI_SOURCE = s->MPI_SOURCE;
    f->MPI_TAG = s->MPI_TAG;
    if ((s->MPI_SOURCE | s->MPI_TAG) >= 0)
        return;
    f->MPI_SOURCE = wx_rank_out(s->MPI_SOURCE);
    f->MPI_TAG = wx_tag_out(s->MPI_TAG);
}

static inline void wx_status_read(const wx_MPI_Status *f, MPI_Status *s)
{
    int64_t high = (uint32_t)f->count_hi_and_cancelled >> 1;
    *s = (MPI_Status){ .MPI_ERROR = wx_error_in(f->MPI_ERROR) };
    wm_status_set(s, wx_rank_in(f->MPI_SOURCE), wx_tag_in(f->MPI_TAG),
                  high << 32 | (uint32_t)f->count_lo, f->count_hi_and_cancelled & 1);
}

#endif
