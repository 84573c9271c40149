/* SPDX-License-Identifier: BSD-3-Clause */
/* Error classes, codes and strings (MPI-5.0 sections 9.4 and 9.5). */
#ifndef WM_CORE_ERRCODE_H
#define WM_CORE_ERRCODE_H

/* Writes "MPI_ERR_RANK: invalid rank" for any code of the standard or the user; returns its length,
 * -1 if the code is unknown. */
int wm_err_text(int errcode, char *text, int len);
/* Class of a code, -1 if unknown. */
int wm_err_class_of(int errcode);
/* The address of MPI_LASTUSEDCODE's value. */
int *wm_err_lastusedcode(void);
/* Class name such as "MPI_ERR_RANK"; NULL if unknown. */
const char *wm_err_class_name(int errclass);

#endif
