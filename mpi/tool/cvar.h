/* SPDX-License-Identifier: BSD-3-Clause */
/* The control variables, for categories and for the end of the interface. */
#ifndef WM_TOOL_CVAR_H
#define WM_TOOL_CVAR_H

#include "mpi/tool/tool.h"

int tool_cvar_num(void);
enum tool_cat tool_cvar_cat(int index);
void tool_cvar_fini(void); /* at the last MPI_T_finalize */

#endif
