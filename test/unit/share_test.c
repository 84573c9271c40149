/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory beside the node segment: sparse where there is room, a reserved file elsewhere. */
#include "runtime/mem/share.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/room.h"
#include "runtime/mem/segment_int.h"
#include "test/check.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NBYTES ((size_t)64 << 20)

static char dir[] = "/dev/shm/weft-share-test-XXXXXX";
static struct rt_share s;

static size_t memory(void)
{
    struct stat st;
    return fstat(s.fd, &st) == 0 ? (size_t)st.st_blocks * 512 : SIZE_MAX;
}

/* The status of another process that runs fn(). */
static int in_child(int (*fn)(void))
{
    int st;
    fflush(stdout);
    if (fork() == 0)
        _exit(fn());
    wait(&st);
    return WIFEXITED(st) ? WEXITSTATUS(st) : 99;
}

static int opens(void)
{
    struct rt_share t;
    if (rt_share_open(&t, 7, 3, NBYTES, 4096) < 0)
        return 1;
    if (t.sparse != s.sparse || t.base[NBYTES - 1] != 5)
        return 2;
    t.base[0] = 6;
    rt_share_close(&t);
    return 0;
}

static bool has_name(void)
{
    struct stat st;
    return lstat(s.path, &st) == 0;
}

static void sparse_memory_costs_nothing(void)
{
    if (rt_room() / 2 < NBYTES) {
        printf("# sparse_memory_costs_nothing: skipped, no room for %zu MiB\n", NBYTES >> 20);
        return;
    }
    CHECK_EQ(rt_share_create(&s, 7, 3, NBYTES, 4096, true), 1);
    CHECK(s.sparse && has_name());
    CHECK_EQ(node_head()->promised, NBYTES);
    CHECK_EQ(rt_share_reserve(&s, 0, NBYTES), 0);
    CHECK_EQ(memory(), 0);
    s.base[NBYTES - 1] = 5;
    CHECK_EQ(in_child(opens), 0);
    CHECK_EQ(s.base[0], 6);
    CHECK(memory() <= (4u << 20)); /* two pages, which may be huge */
    char path[sizeof s.path];
    strcpy(path, s.path);
    rt_share_unlink(&s);
    CHECK(access(path, F_OK) < 0 && errno == ENOENT);
    rt_share_close(&s);
    CHECK_EQ(node_head()->promised, 0);
}

static void a_file_is_reserved(void)
{
    CHECK_EQ(rt_share_create(&s, 7, 3, NBYTES, 4096, false), 0);
    CHECK(!s.sparse);
    CHECK_EQ(rt_share_reserve(&s, 5000, 4096), 0);
    CHECK_EQ(memory(), 8192);
    s.base[NBYTES - 1] = 5;
    CHECK_EQ(in_child(opens), 0);
    CHECK_EQ(s.base[0], 6);
    rt_share_close(&s);
}

/* More than half of what is left is never promised. */
static void promises_are_bounded(void)
{
    uint64_t room = rt_room();
    node_head()->promised = room / 2;
    CHECK_EQ(rt_share_create(&s, 7, 3, NBYTES, 4096, true), 0);
    CHECK(!s.sparse);
    CHECK_EQ(node_head()->promised, room / 2);
    rt_share_close(&s);
    CHECK_EQ(node_head()->promised, room / 2);
    node_head()->promised = 0;
}

static void other_memory_is_refused(void)
{
    if (rt_room() / 2 < NBYTES)
        return;
    struct rt_share t;
    char text[80] = "";
    CHECK_EQ(rt_share_create(&s, 7, 3, NBYTES, 4096, true), 1);
    CHECK(readlink(s.path, text, sizeof text - 2) > 0);
    unlink(s.path);
    char other[sizeof text + 1];
    snprintf(other, sizeof other, "%s0", text); /* memory with another number */
    CHECK_EQ(symlink(other, s.path), 0);
    CHECK_EQ(rt_share_open(&t, 7, 3, NBYTES, 4096), -RT_EPERM);
    unlink(s.path);
    CHECK_EQ(symlink("/etc/passwd", s.path), 0);
    CHECK_EQ(rt_share_open(&t, 7, 3, NBYTES, 4096), -RT_EPERM);
    unlink(s.path);
    CHECK_EQ(rt_share_open(&t, 7, 3, NBYTES, 4096), -RT_EPEER);
    rt_share_close(&s);
}

/* What an aborted job has left, a file or a link, does not matter. */
static void old_names_are_replaced(void)
{
    for (int i = 0; i < 4; i++) {
        struct rt_share old;
        CHECK(rt_share_create(&old, 7, 3, NBYTES, 4096, i % 2) >= 0);
        CHECK(rt_share_create(&s, 7, 3, NBYTES, 4096, i / 2) >= 0);
        s.base[NBYTES - 1] = 5;
        CHECK_EQ(in_child(opens), 0);
        rt_share_close(&s);
        rt_share_close(&old);
    }
}

/* In a mount namespace of its own. */
static int small_file_system(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("weft-test", dir, "tmpfs", 0, "size=1m") < 0)
        return 77;
    if (rt_share_create(&s, 7, 3, NBYTES, 4096, false) != 0)
        return 1;
    if (rt_share_reserve(&s, 0, NBYTES) != -RT_ENOSPC)
        return 2;
    rt_share_close(&s);
    if (rt_room() / 2 < NBYTES)
        return 0;
    return rt_share_create(&s, 7, 3, NBYTES, 4096, true) == 1 ? 0 : 3;
}

static int no_proc(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("weft-test", "/proc", "tmpfs", 0, "size=4k") < 0)
        return 77;
    struct rt_share t;
    if (s.base && rt_share_open(&t, 7, 3, NBYTES, 4096) != -RT_EPERM)
        return 1;
    int made = rt_share_create(&t, 8, 3, NBYTES, 4096, true);
    rt_share_close(&t);
    return made == 0 ? 0 : 2;
}

static void with_permission(int (*fn)(void))
{
    int st = in_child(fn);
    if (st == 77)
        printf("# skipped, no permission to mount\n");
    else
        CHECK_EQ(st, 0);
}

static void full_file_system(void) { with_permission(small_file_system); }

static void without_proc(void)
{
    bool sparse = rt_share_create(&s, 7, 3, NBYTES, 4096, true) == 1;
    if (sparse)
        with_permission(no_proc);
    rt_share_close(&s);
}

static void nothing_left_behind(void)
{
    rt_node_close();
    CHECK_EQ(rmdir(dir), 0);
}

int main(void)
{
    if (!mkdtemp(dir))
        check_skip("no writable /dev/shm");
    rt_cfg_load();
    cfg.shm_dir = dir;
    snprintf(rt_boot.nspace, sizeof rt_boot.nspace, "share");
    rt_boot.local_size = rt_boot.size = 1;
    CHECK_EQ(rt_node_open(4096), 0);
    RUN(sparse_memory_costs_nothing);
    RUN(a_file_is_reserved);
    RUN(promises_are_bounded);
    RUN(other_memory_is_refused);
    RUN(old_names_are_replaced);
    RUN(full_file_system);
    RUN(without_proc);
    RUN(nothing_left_behind);
    return check_end();
}
