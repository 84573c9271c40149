/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/check/report.h"
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/frames.h"
#include "runtime/base/log.h"

struct check_place check_here(void)
{
    struct check_place p;
    rt_frame_call(&p.inner, &p.pc);
    return p;
}

const char *check_place_text(const struct check_place *p, char *buf, size_t len)
{
    Dl_info in;
    const char *call = rt_frame_name(p->inner);
    if (!p->pc || !dladdr((const void *)(uintptr_t)p->pc, &in) || !in.dli_fname) {
        snprintf(buf, len, "%s", call);
        return buf;
    }
    const char *slash = strrchr(in.dli_fname, '/');
    const ElfW(Ehdr) *elf = in.dli_fbase;
    uint64_t base = elf->e_type == ET_DYN ? (uint64_t)(uintptr_t)in.dli_fbase : 0;
    snprintf(buf, len, "%s at %s+0x%llx", call, slash ? slash + 1 : in.dli_fname,
             (unsigned long long)(p->pc - 1 - base)); /* within the call instruction */
    return buf;
}

const char *check_comm_name(const struct wm_comm *c, char *buf, size_t len)
{
    if (c->name[0])
        snprintf(buf, len, "communicator \"%s\"", c->name);
    else
        snprintf(buf, len, "a communicator of %d processes without a name (context %u)", c->size,
                 c->ctx);
    return buf;
}

void check_fail(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log_error(MPI, "WEFT_CHECK: %s", text);
    rt_boot_abort(1, "WEFT_CHECK has found an error in the program");
}

void check_no_memory(void) { rt_boot_abort(1, "out of memory for WEFT_CHECK; run without it"); }
