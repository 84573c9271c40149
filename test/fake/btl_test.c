/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract of btl.h over the real transports; over shared memory once for each way of moving
 * large data. */
#include "btl/btl.h"
#include "runtime/base/cfg.h"
#include "test/check.h"
#include "test/fake/btl_conformance.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static bool forbid_cma(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = { sizeof code / sizeof code[0], code };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

static bool use_copy(void) { return rt_cfg_set("shm_large", "copy", RT_CFG_CMD) == 0; }
static bool use_cma(void) { return rt_cfg_set("shm_large", "cma", RT_CFG_CMD) == 0; }
static bool use_forbidden_cma(void) { return use_cma() && forbid_cma(); }

static void self(void)
{
    struct btl_variant v = { "self", "self", 1, BTL_PUT | BTL_GET | BTL_PTR, NULL, NULL };
    CHECK_EQ(btl_conformance(&v), 0);
}

static void shm_copy(void)
{
    struct btl_variant v = { "shm-copy", "shm", 2, BTL_PUT, use_copy, NULL };
    CHECK_EQ(btl_conformance(&v), 0);
}

static void shm_cma(void)
{
    const uint32_t flags = BTL_PUT | BTL_GET | BTL_WINDOW;
    struct btl_variant v = { "shm-cma", "shm", 2, flags, use_cma, NULL };
    CHECK_EQ(btl_conformance(&v), 0);
}

static void shm_cma_refused(void)
{
    struct btl_variant v = { "shm-cma-refused",
                             "shm",
                             2,
                             BTL_PUT,
                             use_forbidden_cma,
                             "process_vm_writev is not permitted" };
    CHECK_EQ(btl_conformance(&v), 0);
}

static void tcp(void)
{
    struct btl_variant v = { "tcp", "tcp", 2, BTL_PUT | BTL_EXPECT, NULL, NULL };
    CHECK_EQ(btl_conformance(&v), 0);
}

/* A container may forbid these calls to this test itself; then there is nothing to compare. */
static bool cma_works(void)
{
    uint64_t a = 1, b = 0;
    struct iovec to = { &b, sizeof b }, from = { &a, sizeof a };
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof a;
}

int main(void)
{
    rt_cfg_load();
    RUN(self);
    RUN(shm_copy);
    if (cma_works())
        RUN(shm_cma);
    RUN(tcp);
    RUN(shm_cma_refused);
    return check_end();
}
