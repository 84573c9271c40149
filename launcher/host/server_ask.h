/* SPDX-License-Identifier: BSD-3-Clause */
/* What server.c and server_ask.c use of each other: PMIx's upcalls for LAUNCH_ASK. */
#ifndef LAUNCHER_HOST_SERVER_ASK_H
#define LAUNCHER_HOST_SERVER_ASK_H

#include "launcher/job.h"

#include <pmix_server.h>

pmix_status_t launch_on_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                              const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t cbfunc,
                              void *cbdata);
pmix_status_t launch_on_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                pmix_op_cbfunc_t cbfunc, void *cbdata);
pmix_status_t launch_on_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                               size_t ninfo, pmix_lookup_cbfunc_t cbfunc, void *cbdata);
pmix_status_t launch_on_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                  size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);
/* server.c: writes an event for the main loop. */
void launch_server_post(const struct launch_event *e);

#endif
