/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective calls of a file, counted in each rank.  An agreement of the ranks carries number
 * and procedure of the call for which it is made, so that ranks in different calls find that out
 * there.  Accesses that each rank carries out for itself are counted, too, but make no agreement:
 * the next call that makes one reports them. */
#ifndef WM_IO_CALLS_H
#define WM_IO_CALLS_H

#include "mpi/core/file.h"
#include "mpi/io/op.h"

enum wm_file_call {
    WM_FILE_OPEN,
    WM_FILE_CLOSE,
    WM_FILE_PREALLOCATE,
    WM_FILE_SEEK_SHARED,
    WM_FILE_SET_ATOMICITY,
    WM_FILE_SET_INFO,
    WM_FILE_SET_SIZE,
    WM_FILE_SET_VIEW,
    WM_FILE_SYNC,
    WM_FILE_CALLS
};
/* How an access begins: MPI_File_read_all, MPI_File_iread_all, MPI_File_read_all_begin. */
enum wm_file_form { WM_FILE_WHOLE, WM_FILE_LATER, WM_FILE_BEGIN };

/* This rank makes one more collective call. */
void wm_file_enter(struct wm_file *f, enum wm_file_call call);
void wm_file_enter_access(struct wm_file *f, bool write, enum wm_where where,
                          enum wm_file_form form);
/* Numbers of an agreement: the id of the call, its negative, and up to four more.  Always as many,
 * and the ids in the same place, because ranks in different calls combine their numbers.  All
 * together are a message of 48 bytes, which needs no memory but that of a connection. */
enum { WM_FILE_ID, WM_FILE_NOT_ID, WM_FILE_IDS, WM_FILE_NUMBERS = 6 };

/* Names the last call for the others; its negative goes with it.  The bits of the mask are free for
 * a number of one rank. */
int64_t wm_file_call_id(const struct wm_file *f);
#define WM_FILE_FREE_SHIFT 16
#define WM_FILE_FREE_MASK 0xffffffll
/* v: the largest of all ranks' ids and of the negatives, as in an agreement. */
bool wm_file_calls_differ(const int64_t v[2]);
/* Then the error of the call that has the id `mine`; logged once, because files have the error
 * handler MPI_ERRORS_RETURN.  Collective calls on the file fail from now on. */
int wm_file_calls_error(struct wm_file *f, int64_t mine, const int64_t v[2]);
/* MPI_SUCCESS, or the error of a call after that. */
int wm_file_together(const struct wm_file *f);

#endif
