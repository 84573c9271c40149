/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints of a file: info keys of MPI-5.0 section 14.2.8 and those of ROMIO and OMPIO that mean
 * something here.  Other keys are ignored, as the standard wants. */
#ifndef WM_IO_HINTS_H
#define WM_IO_HINTS_H

#include "mpi/core/info.h"
#include "runtime/io/io.h"

enum wm_choice3 { WM_AUTOMATIC, WM_ENABLE, WM_DISABLE };

struct wm_hints {
    enum wm_choice3 cb_read, cb_write; /* collective buffering */
    int64_t cb_buffer_size;            /* of an aggregator's window; 0: plan.c decides */
    int cb_nodes;                      /* most ranks that aggregate; 0: plan.c decides */
    struct rt_io_stripes stripes;      /* of a new file; 0: those of its folder */
    int file_perm;                     /* mode of a new file; -1: 0666 without the umask */
    int naggs, *agg; /* ranks that aggregate, until a hint changes: plan.c.  NULL: not known yet */
    int64_t window;  /* bytes of their windows; known with `agg` */
    struct wm_info *given; /* all that the user has set, for MPI_File_get_info; NULL */
};

/* Reads the hints of `info` (NULL: none) over those that are there.  Values that cannot be parsed
 * are ignored.  MPI_SUCCESS or MPI_ERR_NO_MEM. */
int wm_hints_read(struct wm_hints *h, const struct wm_info *info);
/* A checksum of the hints of collective buffering as `info` will leave them.  All ranks must have
 * the same, because they decide together. */
int64_t wm_hints_check(const struct wm_hints *h, const struct wm_info *info);
struct wm_hints *wm_hints_create(void); /* the defaults; NULL: no memory */
void wm_hints_free(struct wm_hints *h);
/* Key number i of those that wm_hints_read() knows, and what its value changes; NULL: no more. */
const char *wm_hints_effect(int i, const char **effect);

#endif
