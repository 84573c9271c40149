/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that load the MPI library of another implementation. */
#ifndef LAUNCHER_HOST_FOREIGN_H
#define LAUNCHER_HOST_FOREIGN_H

#include "launcher/job.h"

/* Warns if a program will load the MPI library of another implementation; library_path is its
 * LD_LIBRARY_PATH or NULL. */
void launch_warn_foreign(const struct launch_job *job, const struct launch_app *app,
                         const char *library_path);

#endif
