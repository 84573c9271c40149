/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that dyn_meet.py starts, several times.
 *     accept FILE N     opens a port, writes its name to FILE, and accepts N times
 *     connect FILE N    waits for FILE and connects N times
 *     die FILE          connects, and rank 0 kills itself
 *     survive FILE      accepts, receives from or probes the dead, and gets an error
 *     part FILE         connects, and rank 0 kills itself in a collective of the merged group
 *     left FILE         accepts, and gets an error in that collective
 *     wrong FILE        connects with another secret, which the acceptor refuses
 *     late FILE         accepts nothing: opens a port, writes FILE, closes it after a while
 *     failing FILE      connects to that port and expects MPI_ERR_PORT
 *     failing-here FILE connects, and gets another error
 *     in-vain FILE      accepts, and gets an error
 *     orphan FILE       MPI_Init fails, because the port of the parent is wrong, and then succeeds
 */
#include "test/descriptors.h"
#include "test/mpi/dyn_meet.h"
#include "test/mpi/dyn_path.h"

#include <string.h>

static char port[MPI_MAX_PORT_NAME];
static int rank;

static void publish(const char *file)
{
    char tmp[512];
    if (rank)
        return;
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    snprintf(tmp, sizeof tmp, "%s.tmp", file);
    FILE *f = fopen(tmp, "w");
    CHECK(f && fputs(port, f) >= 0 && fclose(f) == 0);
    CHECK_EQ(rename(tmp, file), 0);
}

static void find(const char *file)
{
    FILE *f;
    if (rank)
        return;
    while (!(f = fopen(file, "r")))
        usleep(1000);
    CHECK(fgets(port, sizeof port, f) != NULL);
    fclose(f);
}

/* Meets n times; the number of open descriptors does not grow. */
static void meet(bool accepts, int n)
{
    int before = 0;
    for (int i = 0; i < n; i++) {
        MPI_Comm c;
        int far;
        if (accepts)
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
        else
            OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
        OK(MPI_Comm_remote_size(c, &far));
        check_path(far);
        if (n < 50 || i < 2) /* below 50 the other side may have another i */
            use(c, accepts);
        else
            OK(MPI_Comm_disconnect(&c));
        if (i == 2)
            before = descriptors();
    }
    /* The same two jobs.  1: the socket of the doorbell, made when a process first needs it. */
    if (n >= 50)
        CHECK_MSG(descriptors() <= before + 1, "%d descriptors, then %d", before, descriptors());
}

static void survive(void)
{
    MPI_Comm c;
    int x, err, flag;
    OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    /* The other ranks never had a connection with the process that died. */
    if (rank < 2)
        err = MPI_Recv(&x, 1, MPI_INT, 0, 1, c, MPI_STATUS_IGNORE);
    else if (rank == 2)
        err = MPI_Probe(0, 1, c, MPI_STATUS_IGNORE);
    else
        do
            err = MPI_Iprobe(0, 1, c, &flag, MPI_STATUS_IGNORE);
        while (err == MPI_SUCCESS);
    CHECK(err != MPI_SUCCESS);
}

static void die(void)
{
    MPI_Comm c;
    OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
    if (rank == 0)
        raise(SIGKILL);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One side's process dies while the others wait for it in shared memory. */
static void merged_death(bool dies)
{
    MPI_Comm c, merged;
    int x = 1, sum;
    if (dies)
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
    else
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
    OK(MPI_Intercomm_merge(c, dies, &merged));
    OK(MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN));
    OK(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, merged));
    if (dies)
        raise(SIGKILL);
    for (int i = 0; i < 2; i++)
        CHECK(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, merged) != MPI_SUCCESS);
    OK(MPI_Comm_free(&merged));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void wrong(void)
{
    MPI_Comm c;
    char *digit = port + strlen("weft1:");
    *digit = *digit == '0' ? '1' : '0';
    FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c), MPI_ERR_PORT);
    *digit = *digit == '0' ? '1' : '0';
}

/* Started with a setting that returns errors from MPI_Init. */
static void orphan(void)
{
    int flag = -1;
    setenv("WEFT_PARENT_PORT", "weft1:wrong", 1);
    FAILS(MPI_Init(NULL, NULL), MPI_ERR_PORT);
    OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "", *file = argc > 2 ? argv[2] : "";
    int n = argc > 3 ? atoi(argv[3]) : 1;
    if (!strcmp(what, "orphan"))
        orphan();
    OK(MPI_Init(NULL, NULL));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(what, "orphan"))
        return MPI_Finalize();
    bool serves = !strcmp(what, "accept") || !strcmp(what, "in-vain") || !strcmp(what, "survive") ||
                  !strcmp(what, "late") || !strcmp(what, "left");
    serves ? publish(file) : find(file);
    if (!strcmp(what, "accept") || !strcmp(what, "connect"))
        meet(serves, n);
    else if (!strcmp(what, "survive"))
        survive();
    else if (!strcmp(what, "die"))
        die();
    else if (!strcmp(what, "part") || !strcmp(what, "left"))
        merged_death(!strcmp(what, "part"));
    else if (!strcmp(what, "wrong"))
        wrong();
    else if (!strcmp(what, "failing"))
        FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &(MPI_Comm){ 0 }),
              MPI_ERR_PORT);
    else if (!strcmp(what, "failing-here"))
        CHECK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &(MPI_Comm){ 0 }));
    else if (!strcmp(what, "in-vain"))
        CHECK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &(MPI_Comm){ 0 }));
    else if (!strcmp(what, "late"))
        usleep(300000);
    if (serves && rank == 0 && *port)
        OK(MPI_Close_port(port));
    MPI_Finalize();
    return check_failed_case;
}
