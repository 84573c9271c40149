/* SPDX-License-Identifier: BSD-3-Clause */
/* Published names (MPI-5.0 section 11.9.4). */
#include <string.h>
#include "test/mpi/mpitest.h"

static void one_name(void)
{
    char port[MPI_MAX_PORT_NAME];
    OK(MPI_Barrier(mt_comm));
    if (mt_rank == 0) {
        OK(MPI_Publish_name("ocean", MPI_INFO_NULL, "a port"));
        FAILS(MPI_Publish_name("ocean", MPI_INFO_NULL, "another port"), MPI_ERR_SERVICE);
    }
    OK(MPI_Barrier(mt_comm));
    OK(MPI_Lookup_name("ocean", MPI_INFO_NULL, port));
    CHECK(!strcmp(port, "a port"));
    OK(MPI_Barrier(mt_comm));
    if (mt_rank == mt_size - 1) {
        OK(MPI_Unpublish_name("ocean", MPI_INFO_NULL, "a port"));
        FAILS(MPI_Unpublish_name("ocean", MPI_INFO_NULL, "a port"), MPI_ERR_SERVICE);
    }
    OK(MPI_Barrier(mt_comm));
    FAILS(MPI_Lookup_name("ocean", MPI_INFO_NULL, port), MPI_ERR_NAME);
}

static void a_name_for_each_rank(void)
{
    char name[64], port[MPI_MAX_PORT_NAME], expected[64];
    for (int round = 0; round < 20; round++) {
        snprintf(name, sizeof name, "rank %d of round %d", mt_rank, round);
        snprintf(expected, sizeof expected, "port of rank %d", mt_rank);
        OK(MPI_Publish_name(name, MPI_INFO_NULL, expected));
    }
    OK(MPI_Barrier(mt_comm));
    for (int r = 0; r < mt_size; r++) {
        snprintf(name, sizeof name, "rank %d of round 7", r);
        snprintf(expected, sizeof expected, "port of rank %d", r);
        OK(MPI_Lookup_name(name, MPI_INFO_NULL, port));
        CHECK(!strcmp(port, expected));
    }
    OK(MPI_Barrier(mt_comm));
    for (int round = 0; round < 20; round++) {
        snprintf(name, sizeof name, "rank %d of round %d", mt_rank, round);
        OK(MPI_Unpublish_name(name, MPI_INFO_NULL, "x"));
    }
}

static void long_names(void)
{
    static char longest[MPI_MAX_PORT_NAME], longer[MPI_MAX_PORT_NAME + 1], port[MPI_MAX_PORT_NAME];
    char name[500];
    memset(longest, 'p', sizeof longest - 1);
    memset(longer, 'p', sizeof longer - 1);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    FAILS(MPI_Publish_name(name, MPI_INFO_NULL, "a"), MPI_ERR_SERVICE);
    FAILS(MPI_Lookup_name(name, MPI_INFO_NULL, port), MPI_ERR_NAME);
    FAILS(MPI_Publish_name("", MPI_INFO_NULL, "a"), MPI_ERR_SERVICE);
    name[400] = '\0';
    name[0] = (char)('A' + mt_rank);
    FAILS(MPI_Publish_name(name, MPI_INFO_NULL, longer), MPI_ERR_PORT);
    OK(MPI_Publish_name(name, MPI_INFO_NULL, longest));
    OK(MPI_Lookup_name(name, MPI_INFO_NULL, port));
    CHECK(!strcmp(port, longest));
    OK(MPI_Unpublish_name(name, MPI_INFO_NULL, longest));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MT_RUN(one_name);
    MT_RUN(a_name_for_each_rank);
    MT_RUN(long_names);
    return mt_end();
}
