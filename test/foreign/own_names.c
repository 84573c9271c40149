/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of a program that have the names of Fortran's procedures, as the package Rmpi of R has.
 * The libraries for C of MPICH and Open MPI do not have these names.  Compiled twice: OWN_LIBRARY
 * is the library of the program, which the dynamic linker searches after that of MPI. */
#include "test/mpi/mpitest.h"

#define NAMES(X) \
    X(mpi_comm_rank) X(mpi_comm_rank_) X(mpi_comm_rank__) X(MPI_COMM_RANK) X(pmpi_send_)
#define DECLARE(name) int name(int which);
NAMES(DECLARE)
typedef int function(int which);
function *own_function(unsigned i);

#ifdef OWN_LIBRARY
#define DEFINE(name) \
    int name(int which) { return which + 1; }
NAMES(DEFINE)
function *own_function(unsigned i)
{
#define ADDRESS(name) name,
    static function *const all[] = { NAMES(ADDRESS) };
    return i < sizeof all / sizeof all[0] ? all[i] : NULL;
}
#else
static void called_by_program(void)
{
#define CALL(name) CHECK_EQ(name(100), 101);
    NAMES(CALL)
}

static void called_by_library(void)
{
    function *f;
    for (unsigned i = 0; (f = own_function(i)); i++)
        CHECK_EQ(f(100), 101);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(called_by_program);
    MT_RUN(called_by_library);
    return mt_end();
}
#endif
