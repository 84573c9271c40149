/* SPDX-License-Identifier: BSD-3-Clause */
/* Array sections as choice buffers of mpi_f08.  The compiler passes a C descriptor.  The elements
 * of the array, in their order, are a buffer that is contiguous in the standard's eyes (MPI-5.0
 * section 19.1.13); a section is passed on as a datatype that picks these elements, and where a
 * call allows no such datatype it is copied.  Any thread. */
#ifndef WF_SECTION_H
#define WF_SECTION_H

#include "mpi/fortran/fort.h"

/* The members of CFI_cdesc_t that gfortran and LLVM's flang have at the same place; the compiler of
 * the modules was tested for it (launcher/weft-mod).  A distance (stride) is in bytes. */
struct wf_desc {
    void *base;
    size_t elem_len;
    int version;
    int8_t rank;
    int8_t other[3];
    struct {
        intptr_t lower, extent, stride;
    } dim[15]; /* CFI_MAX_RANK */
};

/* Whether the elements are contiguous.  An assumed-size array (extent -1 in its last dimension) is.
 */
static inline bool wf_flat(const struct wf_desc *d)
{
    intptr_t next = (intptr_t)d->elem_len;
    bool flat = true;
    for (int i = 0; i < d->rank; i++) {
        intptr_t n = d->dim[i].extent;
        if (n == 0)
            return true;
        flat &= d->dim[i].stride == next || n == 1;
        next *= n;
    }
    return flat;
}

/* What a call gets instead of a buffer, its count and its datatype. */
struct wf_section {
    void *addr;
    wf_int count;
    MPI_Count large; /* the same count */
    wf_int type;
    MPI_Datatype made;       /* to be freed; 0: none */
    const struct wf_desc *d; /* copied: where from, and back to if `back` */
    MPI_Datatype all;        /* all elements of *d */
    MPI_Count nbytes;
    MPI_Comm comm; /* for MPI_Pack; 0: none */
    bool back;
    const char *why; /* an error that is not raised yet */
};
/* About the call: its communicator (0: none), whether it blocks, so that the buffer may be copied,
 * and whether it writes the buffer. */
struct wf_place {
    wf_int comm;
    bool blocks, writes;
};

/* Clears the fields that _refused and _end read even if no function below has set them. */
static inline void wf_section_begin(struct wf_section s[], int n)
{
    for (int i = 0; i < n; i++) {
        s[i].made = 0;
        s[i].d = NULL;
        s[i].why = NULL;
    }
}

/* These return MPI_SUCCESS or an error.  The caller calls _begin first, _refused after an error,
 * and always _end. */

/* A buffer that is passed on as it is. */
static inline int wf_section_as_is(struct wf_section *s, const struct wf_desc *d, MPI_Count count,
                                   wf_int datatype)
{
    s->addr = d->base;
    s->count = (wf_int)count;
    s->large = count;
    s->type = datatype;
    return MPI_SUCCESS;
}
/* A buffer of count elements of a datatype. */
int wf_section_strided(struct wf_section *s, const struct wf_desc *d, MPI_Count count,
                       wf_int datatype);
static inline int wf_section_one(struct wf_section *s, bool flat, const struct wf_desc *d,
                                 MPI_Count count, wf_int datatype)
{
    return flat ? wf_section_as_is(s, d, count, datatype)
                : wf_section_strided(s, d, count, datatype);
}
/* The same n times, for n processes or neighbours. */
int wf_section_blocks(struct wf_section *s, const struct wf_desc *d, int n, MPI_Count count,
                      wf_int datatype, struct wf_place place);
/* Anything else: all elements are copied. */
int wf_section_copy(struct wf_section *s, const struct wf_desc *d, struct wf_place place);
/* Memory that is handed over: only contiguous arrays. */
int wf_section_whole(struct wf_section *s, const struct wf_desc *d);

void wf_section_refused(const struct wf_section s[], int n, const char *call, wf_int comm, int err,
                        wf_int *ierror);
void wf_section_release(struct wf_section *s);
static inline void wf_section_end(struct wf_section s[], int n)
{
    for (int i = 0; i < n; i++)
        if (s[i].made || s[i].d)
            wf_section_release(&s[i]);
}

/* Blocks in the root's buffer: 0 elsewhere. */
int wf_root_blocks(wf_int comm, wf_int root);

#endif
