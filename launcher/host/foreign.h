/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that were built for another MPI. */
#ifndef LAUNCHER_HOST_FOREIGN_H
#define LAUNCHER_HOST_FOREIGN_H

#include "launcher/abi/abi.h"
#include "launcher/job.h"

/* Chooses the libraries that a program gets instead of another MPI's: sets app->foreign and
 * app->foreign_env.  Warns if there are none.  `env` is that of the program.  0, or an exit code
 * after a message if the program cannot run on Weft. */
int launch_choose_foreign(const struct launch_job *job, struct launch_app *app,
                          const struct abi_env *env);
/* Prints the MPI library that each program needs, for --dry-run; nothing for programs without MPI.
 */
void launch_show_foreign(const struct launch_job *job, const struct launch_app *app,
                         const struct abi_env *env, FILE *out);
/* Variables that programs and scripts of that MPI read; 0 or -RT_ENOMEM. */
int launch_foreign_vars(const struct launch_job *job, const struct launch_rank *r,
                        struct launch_list *env);

#endif
