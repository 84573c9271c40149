/* SPDX-License-Identifier: BSD-3-Clause */
/* A message of more than 2^31 items and bytes with both ends non-contiguous.  The sender's items
 * overlap, so that only the receiver needs memory: 3.3 GB; the program skips itself when there is
 * less.  For `make check-all` at two ranks. */
#include "test/mpi/mpitest.h"

#define ITEMS (((MPI_Count)1 << 31) + 1000) /* of one byte */
#define WINDOW 65536

static bool enough_memory(void)
{
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %ld kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib > 6 * 1024 * 1024L;
}

/* Byte i of the message: 2 of every 3 bytes of a window that repeats. */
static unsigned char byte_at(MPI_Count i)
{
    MPI_Count in = i % (WINDOW / 3 * 2);
    return mt_byte((size_t)(in / 2 * 3 + in % 2), 1);
}

static void send_it(void)
{
    MPI_Datatype v, window, many;
    unsigned char *buf = mt_alloc(WINDOW);
    MPI_Count whole = ITEMS / (WINDOW / 3 * 2), rest = ITEMS % (WINDOW / 3 * 2);
    mt_fill(buf, WINDOW, 1);
    OK(MPI_Type_vector(WINDOW / 3, 2, 3, MPI_BYTE, &v));
    OK(MPI_Type_create_resized(v, 0, 0, &window)); /* all windows are the same memory */
    MPI_Datatype last, parts[2];
    OK(MPI_Type_vector((int)rest / 2, 2, 3, MPI_BYTE, &last));
    parts[0] = window;
    parts[1] = last;
    MPI_Count len[] = { whole, 1 }, at[] = { 0, 0 }, size;
    OK(MPI_Type_create_struct_c(2, len, at, parts, &many));
    OK(MPI_Type_commit(&many));
    OK(MPI_Type_size_c(many, &size));
    CHECK_EQ(size, ITEMS);
    OK(MPI_Send(buf, 1, many, 1, 1, mt_comm));
    MPI_Type_free(&many);
    MPI_Type_free(&last);
    MPI_Type_free(&window);
    MPI_Type_free(&v);
    free(buf);
}

static void receive_it(void)
{
    size_t nbytes = (size_t)ITEMS / 2 * 3;
    unsigned char *buf = malloc(nbytes);
    MPI_Datatype pair, gappy;
    MPI_Status st;
    MPI_Count n = -1, wrong = 0;
    int small = 0;
    if (!buf)
        exit(1);
    memset(buf, 0, nbytes);
    OK(MPI_Type_contiguous(2, MPI_BYTE, &pair));
    OK(MPI_Type_create_resized(pair, 0, 3, &gappy));
    OK(MPI_Type_commit(&gappy));
    OK(MPI_Recv_c(buf, ITEMS / 2, gappy, 0, 1, mt_comm, &st));
    OK(MPI_Get_elements_c(&st, gappy, &n));
    CHECK_EQ(n, ITEMS);
    OK(MPI_Get_elements_x(&st, gappy, &n));
    CHECK_EQ(n, ITEMS);
    OK(MPI_Get_count_c(&st, gappy, &n));
    CHECK_EQ(n, ITEMS / 2);
    OK(MPI_Get_count(&st, MPI_BYTE, &small));
    CHECK_EQ(small, MPI_UNDEFINED);
    OK(MPI_Get_elements(&st, gappy, &small));
    CHECK_EQ(small, MPI_UNDEFINED);
    for (MPI_Count i = 0; i < ITEMS; i += i < 100000 || i > ITEMS - 100000 ? 1 : 61)
        wrong += buf[i / 2 * 3 + i % 2] != byte_at(i);
    CHECK_EQ(wrong, 0);
    for (MPI_Count i = 0; i < ITEMS / 2; i += 61)
        wrong += buf[3 * i + 2] != 0;
    CHECK_EQ(wrong, 0);
    MPI_Type_free(&gappy);
    MPI_Type_free(&pair);
    free(buf);
}

static void more_than_an_int(void)
{
    if (mt_size != 2)
        mt_skip("for two ranks");
    else if (mt_rank == 0)
        send_it();
    else
        receive_it();
}

int main(int argc, char **argv)
{
    if (!enough_memory())
        check_skip("less than 6 GiB of memory available");
    mt_init(argc, argv);
    MT_RUN(more_than_an_int);
    return mt_end();
}
