/* SPDX-License-Identifier: BSD-3-Clause */
/* The event types, for categories, enumerations and the end of the interface. */
#ifndef WM_TOOL_EVENT_H
#define WM_TOOL_EVENT_H

#include "mpi/tool/tool.h"

enum tool_cat tool_event_cat(int index);
const char *tool_event_elements(int index); /* names, separated by commas */
void tool_event_fini(void);                 /* at the last MPI_T_finalize */

#endif
