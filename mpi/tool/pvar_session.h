/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions of performance variables, for the end of the interface. */
#ifndef WM_TOOL_PVAR_SESSION_H
#define WM_TOOL_PVAR_SESSION_H

void tool_pvar_fini(void); /* at the last MPI_T_finalize */

#endif
