/* SPDX-License-Identifier: BSD-3-Clause */
/* What the exported pointers of the ABI point to. */
#ifndef WX_MPICH_DATA_H
#define WX_MPICH_DATA_H

extern int wx_unweighted_cell, wx_weights_empty_cell, wx_all_handles_cell;
extern int wx_status_ignore_cell[5], wx_statuses_ignore_cell[5];

#endif
