/* SPDX-License-Identifier: BSD-3-Clause */
/* Does compute-sanitizer know the length of imported pool memory? A program of two processes that
 * uses the CUDA runtime and not the library: memory of a pool is imported, freed by the importer
 * and only then by its owner, and the same address is imported again with another length. memcheck
 * of CUDA 13.0 keeps the first length of the address and reports reads beyond it as errors.  For
 * test/gpu/sanitize: alone the program must end well with the right data; if memcheck reports an
 * error in it, memcheck's reports on pools mean nothing. */
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *who;
#define GOOD(call) \
    do { \
        cudaError_t err_ = (call); \
        if (err_ != cudaSuccess) { \
            printf("%s, line %d: %s\n", who, __LINE__, cudaGetErrorString(err_)); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

struct message {
    size_t len; /* 0: free it */
    int byte;
    cudaMemPoolPtrExportData place;
};
static const size_t lens[] = { 30000, 60000, 10000, 90000 };
enum { N = sizeof lens / sizeof *lens };

__global__ void count(const char *p, size_t n, int byte, unsigned long long *right)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (p[i] == byte)
            atomicAdd(right, 1ull);
}

static void send_fd(int s, int fd)
{
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = "";
    struct iovec io = { &byte, 1 };
    struct msghdr m = {};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (sendmsg(s, &m, 0) < 0)
        _exit(1);
}

static int receive_fd(int s)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec io = { &byte, 1 };
    struct msghdr m = {};
    int fd;
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    if (recvmsg(s, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
        _exit(1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

/* One message and its answer; this process ends if its partner has gone. */
static void tell(int s, const struct message *m)
{
    char ok;
    if (send(s, m, sizeof *m, MSG_NOSIGNAL) != sizeof *m || recv(s, &ok, 1, 0) != 1)
        _exit(1);
}

static int owner(int s)
{
    cudaMemPoolProps props = {};
    cudaMemPool_t pool;
    int fd;
    who = "owner";
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    props.location.type = cudaMemLocationTypeDevice;
    GOOD(cudaMemPoolCreate(&pool, &props));
    GOOD(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    send_fd(s, fd);
    for (int i = 0; i < N; i++) {
        struct message m = { lens[i], i + 1 }, back = {};
        void *p;
        GOOD(cudaMallocFromPoolAsync(&p, m.len, pool, 0));
        GOOD(cudaMemsetAsync(p, m.byte, m.len, 0));
        GOOD(cudaStreamSynchronize(0));
        GOOD(cudaMemPoolExportPointer(&m.place, p));
        tell(s, &m);
        tell(s, &back);
        GOOD(cudaFreeAsync(p, 0));
        GOOD(cudaStreamSynchronize(0));
    }
    return 0;
}

static int importer(int s)
{
    cudaMemAccessDesc access = { { cudaMemLocationTypeDevice, 0 },
                                 cudaMemAccessFlagsProtReadWrite };
    unsigned long long *right, n, wrong = 0;
    cudaMemPool_t pool;
    struct message m;
    void *p = NULL;
    who = "importer";
    int fd = receive_fd(s);
    GOOD(cudaMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
                                              cudaMemHandleTypePosixFileDescriptor, 0));
    GOOD(cudaMemPoolSetAccess(pool, &access, 1));
    GOOD(cudaMalloc(&right, sizeof *right));
    while (recv(s, &m, sizeof m, 0) == sizeof m) {
        if (m.len) {
            GOOD(cudaMemPoolImportPointer(&p, pool, &m.place));
            GOOD(cudaMemset(right, 0, sizeof *right));
            count<<<4, 128>>>((const char *)p, m.len, m.byte, right);
            GOOD(cudaGetLastError());
            GOOD(cudaMemcpy(&n, right, sizeof n, cudaMemcpyDefault));
            printf("# %zu bytes at %p, %llu right\n", m.len, p, n);
            wrong += n != m.len;
        } else {
            GOOD(cudaFree(p));
        }
        if (send(s, "", 1, MSG_NOSIGNAL) != 1)
            break;
    }
    return wrong != 0;
}

int main(void)
{
    int s[2], status = 1, n = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s))
        return 1;
    alarm(60);
    pid_t child = fork(); /* before the driver is used */
    if (child < 0)
        return 1;
    close(s[child != 0]);
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0)
        return 77;
    if (child == 0)
        _exit(owner(s[1]));
    int bad = importer(s[0]);
    waitpid(child, &status, 0);
    return bad || status != 0;
}
