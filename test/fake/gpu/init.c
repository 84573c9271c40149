/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: environment, cuInit, devices, error texts, injected failures.
 *
 *   FAKE_CUDA_DEVICES=2       devices of the machine
 *   FAKE_CUDA_PEER=1          0: no device can access another
 *   FAKE_CUDA_JOINED=all      which devices have links: all, alike; pairs, two and two; none
 *   FAKE_CUDA_DMABUF=0        1: adapters may write to its memory, and must read it back
 *   FAKE_CUDA_MEM=8589934592  bytes of memory of each device, counted per process
 *   FAKE_CUDA_MPS=0           1: reports that processes share contexts by MPS
 *   FAKE_CUDA_MEMOPS=1        0: the first version of stores by streams is not enabled
 *   FAKE_CUDA_SPREAD=0        1: device addresses lie terabytes apart, as with the real driver
 *   FAKE_CUDA_DELAY_US=0      random delay before each operation of a stream, at most
 *   FAKE_CUDA_VERSION=13000
 *   FAKE_CUDA_MISSING=a,b     functions that do not exist
 *   FAKE_CUDA_FAIL=cuMemAlloc_v2:3,cuInit:1+:100
 *                             the third call fails (with 999); all calls from the first on fail
 *                             with 100; "copy" and "kernel" count those that streams execute;
 *                             "turn" only counts, copies that need the compute engine;
 *                             a program adds rules with fake_cuda_fail() while nothing is running
 *   CUDA_VISIBLE_DEVICES      numbers or GPU-... identifiers, as with the real driver
 *   CUDA_DEVICE_MAX_CONNECTIONS=8
 *                             1: streams of normal priority run in the order of submission; with
 *                             more, no two streams share a queue */
#include "test/fake/gpu/fake.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fake fake = { .lock = PTHREAD_MUTEX_INITIALIZER, .submitting = PTHREAD_MUTEX_INITIALIZER };

#define NRULES 16
static struct {
    char what[64];
    long nth;
    bool from; /* this call and all later ones */
    int err;
    _Atomic long seen;
} rules[NRULES];
static int nrules;

static long env_number(const char *name, long otherwise)
{
    const char *v = getenv(name);

    return v && *v ? strtol(v, NULL, 0) : otherwise;
}

static size_t env_bytes(const char *name, size_t otherwise)
{
    const char *v = getenv(name);

    return v && *v ? (size_t)strtoull(v, NULL, 0) : otherwise;
}

static void read_rules(const char *text)
{
    char copy[1024], *save, *word;

    snprintf(copy, sizeof(copy), "%s", text);
    for (word = strtok_r(copy, ",", &save); word && nrules < NRULES;
         word = strtok_r(NULL, ",", &save)) {
        char *n = strchr(word, ':'), *end = NULL;

        if (!n) {
            fprintf(stderr, "FAKE_CUDA_FAIL: '%s' is not function:nth[:error]\n", word);
            abort();
        }
        *n++ = 0;
        snprintf(rules[nrules].what, sizeof(rules[nrules].what), "%s", word);
        rules[nrules].nth = strtol(n, &end, 0);
        rules[nrules].from = *end == '+';
        end += *end == '+';
        rules[nrules].err = *end == ':' ? atoi(end + 1) : CU_ERROR_UNKNOWN;
        nrules++;
    }
}

void fake_cuda_fail(const char *text) { read_rules(text); }

/* "cuMemAlloc" names cuMemAlloc_v2 too. */
static bool same_function(const char *rule, const char *symbol)
{
    size_t n = strlen(rule);

    return !strncmp(rule, symbol, n) && (!symbol[n] || !strncmp(symbol + n, "_v", 2));
}

int fake_fails(const char *what)
{
    int i;

    for (i = 0; i < nrules; i++)
        if (same_function(rules[i].what, what)) {
            long n = atomic_fetch_add(&rules[i].seen, 1) + 1;

            if (n == rules[i].nth || (rules[i].from && n > rules[i].nth))
                return rules[i].err;
        }
    return 0;
}

long fake_cuda_seen(const char *what)
{
    for (int i = 0; i < nrules; i++)
        if (same_function(rules[i].what, what))
            return rules[i].seen;
    return 0;
}

int fake_enter(const char *symbol)
{
    int err = fake_fails(symbol);

    if (!err)
        err = fake_capture_check(symbol);
    if (err)
        return err;
    return fake.pid && fake.pid == getpid() ? 0 : CU_ERROR_NOT_INITIALIZED;
}

int fake_ordinal(int dev)
{
    int i;

    for (i = 0; i < fake.nvisible; i++)
        if (fake.visible[i] == dev)
            return i;
    return -1;
}

/* The same in every process, so that it identifies a device. */
static void uuid_of(int dev, uint8_t uuid[16])
{
    memcpy(uuid, "\x77\x65\x66\x74\x66\x61\x6b\x65\x80\x00\x67\x70\x75\x00\x00", 15);
    uuid[15] = (uint8_t)dev;
}

/* "GPU-77656674-..." or a prefix of it, as nvidia-smi -L prints it. */
static int device_named(const char *word)
{
    char text[48];
    uint8_t u[16];
    int i, k, n;

    for (i = 0; i < fake.ndevices; i++) {
        uuid_of(i, u);
        n = snprintf(text, sizeof(text), "GPU-");
        for (k = 0; k < 16; k++)
            n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%02x",
                          k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", u[k]);
        if (strlen(word) > 4 && !strncmp(text, word, strlen(word)))
            return i;
    }
    return -1;
}

/* The first word that names no device ends the list. */
static void read_visible(const char *text)
{
    char copy[512], *save, *word, *end;

    snprintf(copy, sizeof(copy), "%s", text);
    fake.nvisible = 0;
    for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        long n = strtol(word, &end, 10);
        int dev = *end ? device_named(word) : (int)n;

        if (dev < 0 || dev >= fake.ndevices || fake_ordinal(dev) >= 0)
            return;
        fake.visible[fake.nvisible++] = dev;
    }
}

void fake_read_env(void)
{
    const char *v;
    int i;

    fake.ndevices = (int)env_number("FAKE_CUDA_DEVICES", 2);
    if (fake.ndevices > FAKE_DEVICES)
        fake.ndevices = FAKE_DEVICES;
    fake.nvisible = fake.ndevices;
    for (i = 0; i < fake.ndevices; i++)
        fake.visible[i] = i;
    v = getenv("CUDA_VISIBLE_DEVICES");
    if (v)
        read_visible(v);
    fake.peer = env_number("FAKE_CUDA_PEER", 1) != 0;
    fake.spread = env_number("FAKE_CUDA_SPREAD", 0) != 0;
    fake.mps = env_number("FAKE_CUDA_MPS", 0) != 0;
    fake.dmabuf = env_number("FAKE_CUDA_DMABUF", 0) != 0;
    fake.mem_nbytes = env_bytes("FAKE_CUDA_MEM", (size_t)8 << 30);
    fake.version = (int)env_number("FAKE_CUDA_VERSION", 13000);
    fake.delay_us = (unsigned)env_number("FAKE_CUDA_DELAY_US", 0);
    fake.one_queue = env_number("CUDA_DEVICE_MAX_CONNECTIONS", 8) == 1;
    for (i = 0; i < FAKE_DEVICES; i++) {
        fake.primary[i].dev = i;
        fake.primary[i].ordinal = fake_ordinal(i);
        fake.primary[i].primary = true;
    }
}

/* FAKE_CUDA_MISSING: marks the symbols as undefined in this library's own symbol table, so that
 * dlsym() does not find them. */
static void hide_symbol(const ElfW(Sym) * table, const char *names, size_t n, const char *symbol)
{
    size_t i, page = (size_t)sysconf(_SC_PAGESIZE);

    for (i = 0; i < n; i++) {
        ElfW(Sym) *s = (ElfW(Sym) *)(uintptr_t)(table + i);
        char *from = (char *)((uintptr_t)s & ~(page - 1));
        size_t len = (size_t)((char *)(s + 1) - from);

        if (strcmp(names + s->st_name, symbol))
            continue;
        if (mprotect(from, len, PROT_READ | PROT_WRITE)) {
            perror("FAKE_CUDA_MISSING: mprotect");
            abort();
        }
        s->st_shndx = SHN_UNDEF;
        s->st_value = 0;
        return;
    }
    fprintf(stderr, "FAKE_CUDA_MISSING: no function %s\n", symbol);
}

void fake_hide_symbols(const char *list)
{
    Dl_info info;
    struct link_map *map;
    const ElfW(Dyn) * d;
    const ElfW(Sym) *table = NULL;
    const char *names = NULL;
    char copy[1024], *save, *word;

    if (!dladdr1((void *)(uintptr_t)&fake_read_env, &info, (void **)&map, RTLD_DL_LINKMAP))
        return;
    for (d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            table = (const ElfW(Sym) *)d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB)
            names = (const char *)d->d_un.d_ptr;
    }
    if (!table || !names)
        return;
    /* The linker places the string table directly after the symbols. */
    snprintf(copy, sizeof(copy), "%s", list);
    for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
        hide_symbol(table, names,
                    (size_t)((const char *)names - (const char *)table) / sizeof(*table), word);
}

__attribute__((constructor)) static void loaded(void)
{
    const char *v = getenv("FAKE_CUDA_MISSING");

    if (v && *v)
        fake_hide_symbols(v);
    v = getenv("FAKE_CUDA_FAIL");
    if (v && *v)
        read_rules(v);
    fake.version = (int)env_number("FAKE_CUDA_VERSION", 13000);
}

cu_result cuInit(unsigned flags)
{
    int err = fake_fails("cuInit");

    if (err || flags)
        return err ? err : CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    if (!fake.pid) {
        fake_read_env();
        if (fake.nvisible > 0)
            fake.pid = getpid();
    }
    pthread_mutex_unlock(&fake.lock);
    return fake.pid ? (fake.pid == getpid() ? 0 : CU_ERROR_NOT_INITIALIZED) : CU_ERROR_NO_DEVICE;
}

cu_result cuDriverGetVersion(int *version)
{
    int err = fake_fails("cuDriverGetVersion");

    if (err || !version)
        return err ? err : CU_ERROR_INVALID_VALUE;
    *version = fake.version;
    return 0;
}

static const struct {
    int err;
    const char *name, *text;
} errors[] = {
    { 0, "CUDA_SUCCESS", "no error" },
    { 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
    { 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
    { 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down" },
    { 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
    { 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
    { 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
    { 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
    { 217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported" },
    { 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
    { 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
    { 600, "CUDA_ERROR_NOT_READY", "device not ready" },
    { 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
    { 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled" },
    { 705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled" },
    { 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "primary context is in use" },
    { 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
    { 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "memory is already registered" },
    { 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "memory has not been registered" },
    { 716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address" },
    { 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
    { 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
      "operation not permitted when stream is capturing" },
    { 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
      "operation failed due to a previous error during capture" },
    { 999, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static cu_result error_find(cu_result err, const char **out, bool name)
{
    size_t i;

    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].err == err) {
            *out = name ? errors[i].name : errors[i].text;
            return 0;
        }
    *out = NULL;
    return CU_ERROR_INVALID_VALUE;
}

cu_result cuGetErrorName(cu_result err, const char **name) { return error_find(err, name, true); }

cu_result cuGetErrorString(cu_result err, const char **text)
{
    return error_find(err, text, false);
}

cu_result cuDeviceGetCount(int *n)
{
    int err = fake_enter("cuDeviceGetCount");

    if (err)
        return err;
    *n = fake.nvisible;
    return 0;
}

cu_result cuDeviceGet(cu_device *d, int ordinal)
{
    int err = fake_enter("cuDeviceGet");

    if (err)
        return err;
    if (ordinal < 0 || ordinal >= fake.nvisible)
        return CU_ERROR_INVALID_DEVICE;
    *d = ordinal;
    return 0;
}

static int enter_device(const char *symbol, cu_device d)
{
    int err = fake_enter(symbol);

    if (err)
        return err;
    return d >= 0 && d < fake.nvisible ? 0 : CU_ERROR_INVALID_DEVICE;
}

cu_result cuDeviceGetName(char *name, int len, cu_device d)
{
    int err = enter_device("cuDeviceGetName", d);

    if (err || len <= 0)
        return err ? err : CU_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)len, "Fake GPU %d", fake.visible[d]);
    return 0;
}

cu_result cuDeviceGetUuid_v2(struct cu_uuid *uuid, cu_device d)
{
    int err = enter_device("cuDeviceGetUuid_v2", d);

    if (err)
        return err;
    uuid_of(fake.visible[d], uuid->bytes);
    return 0;
}

cu_result cuDeviceGetAttribute(int *value, int attribute, cu_device d)
{
    int err = enter_device("cuDeviceGetAttribute", d);

    if (err)
        return err;
    switch (attribute) {
    case CU_DEV_MULTIPROCESSORS:
        *value = FAKE_MULTIPROCESSORS;
        return 0;
    case CU_DEV_ASYNC_ENGINES:
        *value = 3;
        return 0;
    case CU_DEV_MAJOR:
        *value = 9;
        return 0;
    case CU_DEV_CAN_STREAM_MEM_OPS:
        *value = env_number("FAKE_CUDA_MEMOPS", 1) != 0;
        return 0;
    case CU_DEV_UNIFIED_ADDRESSING:
    case CU_DEV_MANAGED_MEMORY:
    case CU_DEV_CONCURRENT_MANAGED:
    case CU_DEV_VMM:
    case CU_DEV_POSIX_FD:
    case CU_DEV_MEMORY_POOLS:
        *value = 1;
        return 0;
    case CU_DEV_MPS:
        *value = fake.mps;
        return 0;
    case CU_DEV_RDMA:
    case CU_DEV_DMABUF:
        *value = fake.dmabuf;
        return 0;
    default:
        *value = 0;
        return attribute > 0 && attribute < 200 ? 0 : CU_ERROR_INVALID_VALUE;
    }
}

cu_result cuDeviceTotalMem_v2(size_t *nbytes, cu_device d)
{
    int err = enter_device("cuDeviceTotalMem_v2", d);

    if (err)
        return err;
    *nbytes = fake.mem_nbytes;
    return 0;
}

cu_result cuDeviceGetPCIBusId(char *id, int len, cu_device d)
{
    int err = enter_device("cuDeviceGetPCIBusId", d);

    if (err || len < 13)
        return err ? err : CU_ERROR_INVALID_VALUE;
    snprintf(id, (size_t)len, "0000:%02X:00.0", 0x10 + fake.visible[d]);
    return 0;
}

cu_result cuDeviceCanAccessPeer(int *can, cu_device d, cu_device peer)
{
    int err = enter_device("cuDeviceCanAccessPeer", d);

    if (!err)
        err = enter_device("", peer);
    if (err)
        return err;
    *can = fake.peer && d != peer;
    return 0;
}

/* Devices without links reach each other over PCIe, one rank behind. */
cu_result cuDeviceGetP2PAttribute(int *value, int attribute, cu_device d, cu_device peer)
{
    int err = enter_device("cuDeviceGetP2PAttribute", d);

    if (!err)
        err = enter_device("", peer);
    if (err)
        return err;
    if (d == peer || (attribute != CU_P2P_PERFORMANCE_RANK && attribute != CU_P2P_NATIVE_ATOMICS))
        return CU_ERROR_INVALID_VALUE;
    const char *joined = getenv("FAKE_CUDA_JOINED");
    bool here = !joined || !strcmp(joined, "all") ||
                (!strcmp(joined, "pairs") && fake.visible[d] / 2 == fake.visible[peer] / 2);
    *value = fake.peer && here == (attribute == CU_P2P_NATIVE_ATOMICS);
    return 0;
}
