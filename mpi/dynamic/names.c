/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of ports (MPI-5.0 section 11.9.4).  mpirun keeps them for all jobs that it runs, until the
 * publishing job ends.  Any thread; waits for the launcher. */
#include "mpi/api/bodies.h"
#include "mpi/base/mpi_int.h"
#include "runtime/base/err.h"
#include "runtime/boot/boot.h"

#include <stdio.h>
#include <string.h>

/* Separates names of MPI from names of others that use the launcher. */
#define PREFIX "mpi:"
#define NAME_MAX_BYTES 400 /* less than PMIx's limit of a key, with the prefix */

static const char no_launcher[] =
    "names need a launcher that keeps them: start the program with mpirun";

static int make_key(const char *service, char key[NAME_MAX_BYTES + sizeof PREFIX])
{
    size_t n = strlen(service);
    if (n == 0 || n > NAME_MAX_BYTES)
        return wm_err(MPI_ERR_SERVICE, "the service name has %zu characters, allowed are 1..%d", n,
                      NAME_MAX_BYTES);
    snprintf(key, NAME_MAX_BYTES + sizeof PREFIX, PREFIX "%s", service);
    return MPI_SUCCESS;
}

int wm_api_publish_name(const char *service_name, struct wm_info *info, const char *port_name)
{
    char key[NAME_MAX_BYTES + sizeof PREFIX];
    int err = make_key(service_name, key);
    (void)info;
    if (err)
        return err;
    if (strlen(port_name) >= MPI_MAX_PORT_NAME)
        return wm_err(MPI_ERR_PORT, "the port name has %zu characters, allowed are at most %d",
                      strlen(port_name), MPI_MAX_PORT_NAME - 1);
    err = rt_boot_publish(key, port_name);
    if (err == -RT_EEXIST)
        return wm_err(MPI_ERR_SERVICE,
                      "'%s' is published already; MPI_Unpublish_name removes a name", service_name);
    if (err == -RT_ENOTSUP)
        return wm_err(MPI_ERR_SERVICE, "%s", no_launcher);
    return err ? wm_err_rt(err, "publishing '%s'", service_name) : MPI_SUCCESS;
}

int wm_api_unpublish_name(const char *service_name, struct wm_info *info, const char *port_name)
{
    char key[NAME_MAX_BYTES + sizeof PREFIX];
    int err = make_key(service_name, key);
    (void)info, (void)port_name;
    if (err)
        return err;
    err = rt_boot_unpublish(key);
    if (err == -RT_ENOENT)
        return wm_err(MPI_ERR_SERVICE, "no job of this mpirun has published '%s'", service_name);
    if (err == -RT_ENOTSUP)
        return wm_err(MPI_ERR_SERVICE, "%s", no_launcher);
    return err ? wm_err_rt(err, "unpublishing '%s'", service_name) : MPI_SUCCESS;
}

int wm_api_lookup_name(const char *service_name, struct wm_info *info, char *port_name)
{
    char key[NAME_MAX_BYTES + sizeof PREFIX], value[MPI_MAX_PORT_NAME];
    int err = make_key(service_name, key);
    (void)info;
    if (err)
        return wm_err(MPI_ERR_NAME, "the service name has %zu characters, which no name has",
                      strlen(service_name));
    err = rt_boot_lookup(key, value, sizeof value);
    if (err == -RT_ENOENT)
        return wm_err(MPI_ERR_NAME, "no job of this mpirun has published '%s'", service_name);
    if (err == -RT_ENOTSUP)
        return wm_err(MPI_ERR_NAME, "%s", no_launcher);
    if (err)
        return wm_err_rt(err, "looking up '%s'", service_name);
    strcpy(port_name, value);
    return MPI_SUCCESS;
}
