/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI's ABI (libmpi.so.40, versions 4 and 5).  A handle is a pointer.
 *
 * A predefined handle is the address of an exported object (objects.tsv) whose first 32 bits are
 * Weft's handle.  An executable may copy these objects; all references then mean its copies.  Any
 * other handle is a pointer without an object: Weft's handle of 31 bits with bit 31 set.  No object
 * has such an address: executables without -fPIE lie below 2 GiB, all others and libraries far
 * above 4 GiB. */
#ifndef WX_OMPI_ABI_H
#define WX_OMPI_ABI_H

#include <stddef.h>
#include <stdint.h>
#include "mpi.h"
#include "mpi/base/status.h"
#include "mpi/foreign/ompi/handles.h"
#include "mpi/foreign/ompi/objects.h"
#include "mpi/foreign/ompi/values.h"

typedef struct ompi_communicator_t *wx_MPI_Comm;
typedef struct ompi_datatype_t *wx_MPI_Datatype;
typedef struct ompi_errhandler_t *wx_MPI_Errhandler;
typedef struct ompi_file_t *wx_MPI_File;
typedef struct ompi_group_t *wx_MPI_Group;
typedef struct ompi_info_t *wx_MPI_Info;
typedef struct ompi_message_t *wx_MPI_Message;
typedef struct ompi_op_t *wx_MPI_Op;
typedef struct ompi_request_t *wx_MPI_Request;
typedef struct ompi_instance_t *wx_MPI_Session;
typedef struct ompi_win_t *wx_MPI_Win;

/* A status of Fortran, an array of INTEGERs, may begin at any multiple of 4. */
typedef struct __attribute__((packed, aligned(4))) {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int cancelled;
    size_t len;
} wx_MPI_Status;

#define WX_SAME_STATUS true    /* the fields that Weft writes (mpi/base/status.h) */
#define WX_FREE_AFTER_END true /* its MPI_Free_mem works after MPI_Finalize */
#define WX_SAME_REQUESTS true  /* but for the null one, which Weft recognises */
#define WX_STATUS_IGNORE ((wx_MPI_Status *)0)
#define WX_IN_PLACE ((void *)1)
#define WX_BUFFER_AUTOMATIC ((void *)-2) /* the ABI has none; no buffer has this address */
#define WX_LASTCODE 92                   /* MPI_ERR_LASTCODE */

/* MPI_LB and MPI_UB, which mark a bound of a struct. */
#define WX_IS_LB(type) ((const void *)(type) == ompi_mpi_lb)
#define WX_IS_UB(type) ((const void *)(type) == ompi_mpi_ub)

/* ---- handles ---- */

#define WX_HANDLE(word, type) \
    static inline type wx_##word##_in(wx_##type h) { return (type)wx_handle_in(h); } \
    static inline wx_##type wx_##word##_out(type h) { return wx_handle_out((uintptr_t)h); }

WX_HANDLE(comm, MPI_Comm)
WX_HANDLE(errh, MPI_Errhandler)
WX_HANDLE(file, MPI_File)
WX_HANDLE(group, MPI_Group)
WX_HANDLE(info, MPI_Info)
WX_HANDLE(message, MPI_Message)
WX_HANDLE(op, MPI_Op)
WX_HANDLE(session, MPI_Session)
WX_HANDLE(type, MPI_Datatype)
WX_HANDLE(win, MPI_Win)

/* Whether messages with these are common: both predefined, in a program or library above 4 GiB. */
static inline bool wx_common(wx_MPI_Datatype type, wx_MPI_Comm comm)
{
    return ((uintptr_t)type & (uintptr_t)comm) >> 32;
}
static inline MPI_Datatype wx_common_type(wx_MPI_Datatype type)
{
    return (MPI_Datatype)(uintptr_t) * (const uint32_t *)type;
}
static inline MPI_Comm wx_common_comm(wx_MPI_Comm comm)
{
    return (MPI_Comm)(uintptr_t) * (const uint32_t *)comm;
}

/* All handles of requests but the null one are Weft's, which recognises it, too. */
#define wx_request_null wx_theirs[(uintptr_t)MPI_REQUEST_NULL]
static inline MPI_Request wx_request_in(wx_MPI_Request h) { return (MPI_Request)h; }
static inline wx_MPI_Request wx_request_out(MPI_Request h) { return (wx_MPI_Request)h; }

/* ---- error codes ---- */

/* Codes that users add begin at Weft's MPI_ERR_LASTCODE + 1, far above the ABI's last. */
static inline int wx_error_in(int code)
{
    if (__builtin_expect(code == 0, 1))
        return MPI_SUCCESS;
    return code > MPI_ERR_LASTCODE ? code : wx_error_class_in(code);
}

static inline int wx_error_out(int code)
{
    if (__builtin_expect(code == MPI_SUCCESS, 1))
        return 0;
    return code > MPI_ERR_LASTCODE ? code : wx_error_class_out(code);
}

/* ---- statuses ---- */

static inline void wx_status_write(const MPI_Status *s, wx_MPI_Status *f)
{
    f->MPI_SOURCE = wx_rank_out(s->MPI_SOURCE);
    f->MPI_TAG = wx_tag_out(s->MPI_TAG);
    f->cancelled = wm_status_cancelled(s);
    f->len = (size_t)wm_status_len(s);
}

/* `s` may be a caller's status, which ends after 24 bytes. */
static inline void wx_status_read(const wx_MPI_Status *f, MPI_Status *s)
{
    s->MPI_ERROR = wx_error_in(f->MPI_ERROR);
    wm_status_set(s, wx_rank_in(f->MPI_SOURCE), wx_tag_in(f->MPI_TAG), (int64_t)f->len,
                  f->cancelled != 0);
}

#endif
