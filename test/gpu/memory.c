/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory of the library: what is counted, bounded, and given back by MPIX_GPU_release(). */
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

#define LEN (32u << 20)
#define COMMS 9
#define MOST (64u << 20) /* of a process, whatever the number of its communicators */

static unsigned long long held(void)
{
    static MPI_T_pvar_session session;
    static MPI_T_pvar_handle h;
    unsigned long long v = 0;
    int provided, index, n;
    if (!session) {
        OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
        OK(MPI_T_pvar_session_create(&session));
        OK(MPI_T_pvar_get_index("gpu_memory_bytes", MPI_T_PVAR_CLASS_LEVEL, &index));
        OK(MPI_T_pvar_handle_alloc(session, index, NULL, &h, &n));
    }
    OK(MPI_T_pvar_read(session, h, &v));
    return v;
}

/* Of memory that other processes cannot map. */
static void exchange(unsigned char *out, unsigned char *in)
{
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    gt_fill(out, LEN, (uint64_t)mt_rank);
    OK(MPI_Sendrecv(out, LEN, MPI_BYTE, to, 1, in, LEN, MPI_BYTE, from, 1, mt_comm,
                    MPI_STATUS_IGNORE));
    GT_CHECK_DATA(in, LEN, (uint64_t)from);
}

static void staging_is_given_back(void)
{
    unsigned char *out = gt_alloc(GT_POOL_OWN, 0, LEN, 0), *in = gt_alloc(GT_POOL_OWN, 0, LEN, 0);
    for (int i = 0; i < 2; i++) {
        exchange(out, in);
        unsigned long long before = held();
        OK(MPIX_GPU_release());
        CHECK_MSG(held() <= before && held() < 1u << 20, "%llu of %llu bytes are left", held(),
                  before);
    }
    gt_free(out);
    gt_free(in);
}

static void reduce(MPI_Comm c, cu_stream stream, unsigned char *out, unsigned char *in)
{
    int one = 1, sum = 0;
    gt_write(out, &one, sizeof one);
    OK(MPIX_Allreduce_enqueue(out, in, 1, MPI_INT, MPI_SUM, c));
    CHECK_EQ(cu.stream_synchronize(stream), CU_OK);
    gt_read(&sum, in, sizeof sum);
    CHECK_EQ(sum, mt_size);
}

static void communicators_are_bounded(void)
{
    MPI_Comm c[COMMS];
    MPIX_Stream s;
    MPI_Info info;
    cu_stream stream;
    unsigned char *out = gt_alloc(GT_CUDA, 0, 4, 0), *in = gt_alloc(GT_CUDA, 0, 4, 0);
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), CU_OK);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "type", "cudaStream_t"));
    OK(MPIX_Info_set_hex(info, "value", &stream, sizeof stream));
    OK(MPIX_Stream_create(info, &s));
    OK(MPI_Info_free(&info));
    for (int i = 0; i < COMMS; i++) {
        OK(MPIX_Stream_comm_create(mt_comm, s, &c[i]));
        reduce(c[i], stream, out, in);
    }
    CHECK_MSG(held() > 8u << 20 && held() <= MOST, "%llu bytes", held());
    for (int i = 0; i < COMMS; i++) {
        reduce(c[i], stream, out, in);
        OK(MPI_Comm_free(&c[i]));
    }
    OK(MPIX_Stream_free(&s));
    OK(MPIX_GPU_release());
    CHECK_MSG(held() < 1u << 20, "%llu bytes are left", held());
    CHECK_EQ(cu.stream_destroy(stream), CU_OK);
    gt_free(out);
    gt_free(in);
}

int main(int argc, char **argv)
{
    gt_need(1);
    OK(MPIX_GPU_release()); /* without effect */
    mt_init(argc, argv);
    gt_use(0);
    MT_RUN(staging_is_given_back);
    if (gt_kernels())
        MT_RUN(communicators_are_bounded);
    return mt_end();
}
