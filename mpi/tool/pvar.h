/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to mpi/tool: the table of performance variables. */
#ifndef WM_TOOL_PVAR_H
#define WM_TOOL_PVAR_H

#include "mpi/base/comm.h"
#include "mpi/tool/tool.h"

enum pvar_value { PVAR_ULL, PVAR_INT, PVAR_SECONDS }; /* SECONDS: kept in ns, shown as a double */

/* FREE: the current value, which tools can only read.  RUNS: the increase since the allocation of
 * the handle, which tools can only read.  OPEN: each handle is started, stopped, reset and written
 * by its tool. */
enum pvar_access { PVAR_FREE, PVAR_RUNS, PVAR_OPEN };

struct pvar {
    const char *name, *desc;
    int class, verbosity, bind;
    enum pvar_value value;
    enum pvar_access access;
    int enum_id; /* enum tool_enum_id */
    int count;   /* elements */
    enum tool_cat cat;
    size_t off; /* of the counter in struct wm_stats, when `read` is NULL */
    uint64_t (*read)(const struct wm_comm *c); /* the current value; `c` only when bound */
};

int tool_pvar_num(void);
enum tool_cat tool_pvar_cat(int index);
const struct pvar *tool_pvar(int index); /* NULL: no such variable */
/* Element i as it is now; `c` when the variable is bound to a communicator. */
uint64_t tool_pvar_now(const struct pvar *v, int i, const struct wm_comm *c);

/* Whether MPI has been used, so that there is a domain with counters. */
bool tool_is_up(void);
/* The most messages that have waited for their receive at once, since the watermark was last reset.
 */
uint64_t tool_unexpected_peak(void);
void tool_unexpected_rebase(void); /* resets it to the current level */

#endif
