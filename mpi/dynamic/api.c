/* SPDX-License-Identifier: BSD-3-Clause */
/* The bodies of the procedures for ports, accept and connect (MPI-5.0 section 11.9), and the parent
 * of started processes (section 11.8). */
#include "mpi/api/bodies.h"
#include "mpi/base/err.h"
#include "mpi/core/comm.h"
#include "mpi/core/errh.h"
#include "mpi/core/init.h"
#include "mpi/dynamic/link.h"
#include "mpi/dynamic/port.h"
#include "mpi/p2p/domain.h"

#include <stdlib.h>
#include <string.h>

/* ---- ports ---- */

int wm_api_open_port(struct wm_info *info, char *port_name)
{
    (void)info; /* no key is known */
    return wm_port_open(port_name);
}

int wm_api_close_port(const char *port_name) { return wm_port_close(port_name); }

/* ---- accept and connect ---- */

static int dial_accept(const struct wm_dial *how, int *fd)
{
    return wm_port_accept(wm_main_domain, how, fd);
}

static int dial_connect(const struct wm_dial *how, int *fd)
{
    return wm_port_connect(wm_main_domain, how, fd);
}

int wm_dyn_accept(const char *name, int root, struct wm_comm *comm, int (*stop)(void *arg),
                  void *arg, struct wm_comm **out)
{
    struct wm_dial how = {
        .dial = dial_accept, .accepts = true, .name = name, .stop = stop, .arg = arg
    };
    return wm_link(comm, root, &how, out);
}

/* The other side.  Waits for the accept at most cfg.connect_s. */
static int connect_to(const char *name, int root, struct wm_comm *comm, struct wm_comm **out)
{
    struct wm_dial how = { .dial = dial_connect, .name = name };
    return wm_link(comm, root, &how, out);
}

static int check_comm(const struct wm_comm *comm)
{
    if (comm->inter)
        return wm_err(MPI_ERR_COMM,
                      "argument comm: an intercommunicator, expected an intracommunicator");
    return MPI_SUCCESS;
}

int wm_api_comm_accept(const char *port_name, struct wm_info *info, int root, struct wm_comm *comm,
                       struct wm_comm **newcomm)
{
    (void)info; /* no key is known */
    int err = check_comm(comm);
    return err ? err : wm_dyn_accept(port_name, root, comm, NULL, NULL, newcomm);
}

int wm_api_comm_connect(const char *port_name, struct wm_info *info, int root, struct wm_comm *comm,
                        struct wm_comm **newcomm)
{
    (void)info; /* no key is known */
    int err = check_comm(comm);
    return err ? err : connect_to(port_name, root, comm, newcomm);
}

/* ---- the parent ---- */

static MPI_Comm parent; /* stale once the user has freed or disconnected it */

int wm_api_comm_get_parent(struct wm_comm **out)
{
    *out = wm_comm_get(parent);
    return MPI_SUCCESS;
}

/* In MPI_Init of a started process. */
static int meet_parent(void)
{
    struct wm_comm *c;
    char *port = rt_boot_take_parent();
    if (!port)
        return MPI_SUCCESS;
    int err = connect_to(port, 0, wm_comm_world, &c);
    free(port);
    if (err)
        return err;
    strcpy(c->name, "MPI_COMM_PARENT");
    parent = wm_comm_handle(c);
    return MPI_SUCCESS;
}

__attribute__((constructor)) static void hook(void) { wm_init_parent = meet_parent; }
