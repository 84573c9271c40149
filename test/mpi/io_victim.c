/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that io_fault.py starts: the last rank dies in a collective access through
 * aggregators.  Arguments: "before" or "within"; "write", "read", "iwrite" or
 * "iread"; a file name. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N (64 << 10)

/* "within": the second half of the buffer cannot be accessed, so the process dies in a later
 * round. */
static char *deadly_buffer(int before)
{
    char *p = mmap(NULL, N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, SIG_DFL);
    if (before)
        kill(getpid(), SIGKILL);
    mprotect(p + N / 2, N / 2, PROT_NONE);
    return p;
}

static int run(MPI_File f, int write, int wait, char *buf)
{
    MPI_Request r;
    if (wait)
        return (write ? MPI_File_iwrite_all(f, buf, N, MPI_BYTE, &r)
                      : MPI_File_iread_all(f, buf, N, MPI_BYTE, &r)) ||
               MPI_Wait(&r, MPI_STATUS_IGNORE);
    return write ? MPI_File_write_all(f, buf, N, MPI_BYTE, MPI_STATUS_IGNORE)
                 : MPI_File_read_all(f, buf, N, MPI_BYTE, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static char data[N];
    int rank, size, before, write;
    MPI_Info info;
    MPI_File f;

    if (argc < 4)
        return 2;
    before = !strcmp(argv[1], "before");
    write = strstr(argv[2], "write") != NULL;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    MPI_Info_set(info, "cb_buffer_size", "4096");
    if (MPI_File_open(MPI_COMM_WORLD, argv[3], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f) ||
        MPI_File_set_view(f, rank * N, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) ||
        run(f, 1, 0, data) || MPI_File_seek(f, 0, MPI_SEEK_SET))
        return 2;
    MPI_Info_free(&info);
    if (run(f, write, *argv[2] == 'i', rank == size - 1 ? deadly_buffer(before) : data))
        sleep(20); /* it has noticed the death earlier than mpirun, which ends it */
    printf("rank %d came back\n", rank);
    fflush(stdout);
    MPI_File_close(&f);
    MPI_Finalize();
    return 0;
}
