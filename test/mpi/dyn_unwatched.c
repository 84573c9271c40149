/* SPDX-License-Identifier: BSD-3-Clause */
/* One process cannot watch the processes of another job: all processes of both jobs come to the
 * same result, that they do not share memory. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include "test/mpi/dyn_meet.h"
#include "test/mpi/dyn_path.h"

enum { CHILDREN = 2 };
static bool refuses;

static bool is_process(int fd)
{
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, name, sizeof name - 1) > 0 && strstr(name, "pidfd");
}

/* In place of the C library's. */
__attribute__((visibility("default"))) int epoll_ctl(int epfd, int op, int fd,
                                                     struct epoll_event *e)
{
    if (refuses && op == EPOLL_CTL_ADD && is_process(fd)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epfd, op, fd, e);
}

static void talk(MPI_Comm inter, bool first)
{
    CHECK_EQ(sharing(), 0);
    use(inter, first);
}

static void spawned(void)
{
    char path[4096], *argv[] = { "child", NULL };
    MPI_Comm inter;
    mt_program(path, sizeof path);
    refuses = mt_rank == 0;
    OK(MPI_Comm_spawn(path, argv, CHILDREN, MPI_INFO_NULL, 0, mt_comm, &inter,
                      MPI_ERRCODES_IGNORE));
    talk(inter, true);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    mt_init(argc, argv);
    if (argc == 1) {
        MT_RUN(spawned);
        return mt_end();
    }
    OK(MPI_Comm_get_parent(&parent));
    talk(parent, false);
    MPI_Finalize();
    return check_failed_case;
}
