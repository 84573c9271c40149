/* SPDX-License-Identifier: BSD-3-Clause */
/* Does compute-sanitizer know memory that is mapped while a kernel runs? A program of one process
 * that does not use the library: while a kernel runs, memory is mapped directly after existing
 * memory, and the kernel stores to it, like the polling kernel when a message has announced a new
 * buffer. memcheck of CUDA 13.0 knows only the memory that existed at the launch and reports the
 * store as "out of bounds".  For test/gpu/sanitize: alone the program must end well with the right
 * data; if memcheck reports an error in it, memcheck's reports on polling kernels mean nothing. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#define CU(x) \
    do { \
        CUresult r_ = (x); \
        if (r_ != CUDA_SUCCESS) { \
            const char *t_ = "?"; \
            cuGetErrorName(r_, &t_); \
            printf("line %d: %s: %s\n", __LINE__, #x, t_); \
            exit(1); \
        } \
    } while (0)

/* Stays until it gets an address, at most some seconds, and stores there. */
__global__ void stay(volatile unsigned long long *place)
{
    long long begin = clock64();
    while (!*place && clock64() - begin < 20000000000ll)
        ;
    if (*place)
        *(volatile int *)*place = 7;
}

static size_t granule;
static CUmemAllocationProp prop;

static void map(CUdeviceptr at)
{
    CUmemGenericAllocationHandle h;
    CUmemAccessDesc access = {};
    CU(cuMemCreate(&h, granule, &prop, 0));
    CU(cuMemMap(at, granule, 0, h, 0));
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU(cuMemSetAccess(at, granule, &access, 1));
}

int main()
{
    int n = 0, got = 0;
    volatile unsigned long long *place;
    CUdeviceptr base;

    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0)
        return 77;
    cudaFree(0);
    if (cudaHostAlloc((void **)&place, sizeof *place, cudaHostAllocMapped) != cudaSuccess)
        return 1;
    *place = 0;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CU(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CU(cuMemAddressReserve(&base, 2 * granule, 0, 0, 0));
    map(base);
    stay<<<1, 1>>>(place);
    usleep(20000);
    map(base + granule); /* after the memory that existed when the kernel started */
    *place = base + granule + 256;
    cudaError_t r = cudaDeviceSynchronize();
    if (r != cudaSuccess) {
        printf("the kernel: %s\n", cudaGetErrorString(r));
        return 1;
    }
    CU(cuMemcpyDtoH(&got, base + granule + 256, sizeof got));
    return got != 7;
}
