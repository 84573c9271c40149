/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts with notification on a CUDA stream, in a graph: in each step every rank makes a block of
 * numbers on its device, puts the block into the window of the next rank, and adds what has come
 * from the previous rank to a sum.  No host waits between the launches.
 *
 *     nvcc -ccbin mpicxx notified_puts.cu -o notified_puts
 *     mpirun -n 2 ./notified_puts */
#include <mpi.h>
#include <stdio.h>

enum { N = 1 << 16, STEPS = 3, ARRIVED = 0, READ = 1 };

__global__ void make(int *block, int *step, int rank)
{
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        block[i] = rank + *step + i;
    __syncthreads();
    if (threadIdx.x == 0)
        ++*step;
}

__global__ void add(int *sum, const int *block)
{
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        sum[i] += block[i];
}

static MPI_Comm stream_comm(cudaStream_t stream)
{
    MPI_Info info;
    MPIX_Stream s;
    MPI_Comm comm;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    MPIX_Stream_create(info, &s);
    MPI_Info_free(&info);
    MPIX_Stream_comm_create(MPI_COMM_WORLD, s, &comm);
    MPIX_Stream_free(&s);
    return comm;
}

static cudaGraphExec_t capture(cudaStream_t stream, int rank, int size, int *block[4], MPI_Win win)
{
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    make<<<1, 256, 0, stream>>>(block[0], block[3], rank);
    MPIX_Put_notify_enqueue(block[0], N, MPI_INT, next, 0, N, MPI_INT, ARRIVED, win);
    MPIX_Notify_wait_enqueue(ARRIVED, 1, win);
    add<<<1, 256, 0, stream>>>(block[2], block[1]);
    MPIX_Put_notify_enqueue(NULL, 0, MPI_INT, previous, 0, 0, MPI_INT, READ, win);
    MPIX_Notify_wait_enqueue(READ, 1, win); /* the next rank's window may be overwritten */
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiateWithFlags(&exec, graph, 0);
    cudaGraphDestroy(graph);
    return exec;
}

int main(int argc, char **argv)
{
    int rank, size, ndevices = 0,
                    *block[4]; /* own numbers, window memory, sum, number of the step */
    static int sum[N];
    cudaStream_t stream;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    cudaGetDeviceCount(&ndevices);
    if (ndevices == 0 || cudaSetDevice(rank % ndevices)) {
        fprintf(stderr, "rank %d: no CUDA device can be used\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int i = 0; i < 4; i++) {
        cudaMalloc(&block[i], sizeof sum);
        cudaMemset(block[i], 0, sizeof sum);
    }
    cudaDeviceSynchronize();
    MPI_Comm comm = stream_comm(stream);
    MPI_Win_create(block[1], sizeof sum, sizeof(int), MPI_INFO_NULL, comm, &win);

    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    cudaGraphExec_t step = capture(stream, rank, size, block, win);
    for (int i = 0; i < STEPS; i++)
        cudaGraphLaunch(step, stream);
    cudaStreamSynchronize(stream);
    MPI_Win_unlock_all(win);

    int wrong = 0, previous = (rank + size - 1) % size;
    cudaMemcpy(sum, block[2], sizeof sum, cudaMemcpyDefault);
    for (int i = 0; i < N; i++)
        wrong += sum[i] != STEPS * (previous + i) + STEPS * (STEPS - 1) / 2;
    printf("rank %d: %d of %d sums of %d steps are wrong\n", rank, wrong, N, STEPS);
    cudaGraphExecDestroy(step);
    MPI_Win_free(&win);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return wrong ? 1 : 0;
}
