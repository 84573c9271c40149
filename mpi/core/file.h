/* SPDX-License-Identifier: BSD-3-Clause */
/* Files as objects, as far as chapter 9 needs them; mpi/io does all else.  The fields that change
 * after the opening are used under the domain's lock, except where said. */
#ifndef WM_CORE_FILE_H
#define WM_CORE_FILE_H

#include "mpi/base/mpi_int.h"
#include "runtime/io/io.h"
#include <pthread.h>

struct wm_cop; /* mpi/io/cop.h */
struct wm_errh;
struct wm_exchange; /* mpi/io/twophase.c */
struct wm_hints;    /* mpi/io/hints.h */
struct wm_numbers;  /* mpi/coll/alive.h */
struct wm_shared;   /* mpi/io/shared.c */
struct wm_view;     /* mpi/io/view.h */

/* A split collective access that has begun and not been ended. */
struct wm_split {
    MPI_Request request; /* 0: none */
    void *buf;
    int where; /* enum wm_where of mpi/io/op.h */
    bool write;
};

struct wm_file {
    struct rt_obj obj;    /* refs: the handle, and operations that have not completed */
    struct wm_comm *comm; /* private; its member `file` is this file.  Owned */
    struct wm_errh *errh; /* referenced; wm_errh_set() changes it */
    char *name;           /* as passed to open(2); owned */
    int fd;
    int amode;
    struct rt_io_fs fs;
    struct rt_io_gds gds;     /* for device memory */
    struct wm_hints *hints;   /* owned */
    struct wm_view *view;     /* referenced */
    int64_t pos;              /* individual file pointer, in etypes */
    struct wm_shared *shared; /* owned */
    struct wm_split split;    /* used by one thread at a time, as the calls are collective */
    struct wm_cop *cops;      /* collective operations, in the order of their starts; NULL: none */
    struct wm_cop *joint;     /* memory for a blocking one; owned, kept if `dead` */
    struct wm_onehost *onehost;   /* windows in the memory of the host; NULL: none; owned */
    struct wm_exchange *exchange; /* buffers of the first of them; NULL: none; owned */
    struct wm_numbers *numbers;   /* for agreements of the ranks; owned, kept if `dead` */
    bool helped;                  /* a client of helper.h, which guards this */
    uint32_t ncalls;              /* collective calls of this rank so far: mpi/io/calls.h */
    uint8_t call, call_before;    /* the last one, and the one before it */
    bool apart;                   /* ranks were in different ones: collective calls fail */
    bool dead;                    /* a process of the file has died: collective calls fail */
    bool atomic; /* MPI_File_set_atomicity; changes only while no access is in progress */
    pthread_mutex_t
        mutex;   /* accesses of this process in atomic mode; not under the domain's lock */
    void *spare; /* buffers of mpi/io/indep.c that no operation uses now; NULL: none.  Atomic */
};

extern struct rt_slab wm_file_slab;

static inline struct wm_file *wm_file_get(MPI_File h)
{
    return rt_slab_get(&wm_file_slab, (uintptr_t)h);
}
static inline MPI_File wm_file_handle(const struct wm_file *f)
{
    return f ? (MPI_File)(uintptr_t)f->obj.handle : MPI_FILE_NULL;
}

/* The file's handler with a reference.  NULL: the handler of MPI_FILE_NULL, which applies to files
 * that are not open yet and to errors that belong to no file, and which a file has when it is
 * opened (MPI-5.0 section 14.7). */
struct wm_errh *wm_file_errh_ref(struct wm_file *f);

#endif
