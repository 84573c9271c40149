/* SPDX-License-Identifier: BSD-3-Clause */
/* Warns of a program that will load the MPI library of another implementation; each of its
 * processes would be rank 0 of 1.  The search of the dynamic loader is followed as far as the
 * program and its environment determine it: DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH.  Main thread
 * only. */
#include "launcher/host/foreign.h"
#include "launcher/job.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STANDARD "libmpi_abi.so.1"
/* Weft's MPI_Get_library_version() begins with this. */
#define OURS "Weft MPI "

struct file {
    const char *base;
    size_t len;
};

/* What the dynamic section of a program contains; the strings point into its file. */
struct linked {
    const char *mpi, *rpath, *runpath;
};

static struct file map_file(const char *path)
{
    struct file f = { NULL, 0 };
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED)
            f = (struct file){ p, (size_t)st.st_size };
    }
    if (fd >= 0)
        close(fd);
    return f;
}

static void unmap_file(const struct file *f)
{
    if (f->base)
        munmap((void *)f->base, f->len);
}

/* `n` bytes of the file at an offset; NULL: the file is shorter. */
static const void *part(const struct file *f, size_t off, size_t n)
{
    return off < f->len && n <= f->len - off ? f->base + off : NULL;
}

static const char *text_at(const struct file *f, size_t off)
{
    const char *text = part(f, off, 1);
    return text && memchr(text, '\0', f->len - off) ? text : NULL;
}

static const ElfW(Phdr) * header(const struct file *f, const ElfW(Ehdr) * elf, int i)
{
    return part(f, elf->e_phoff + (size_t)i * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)));
}

/* Offset in the file of an address of the loaded program; SIZE_MAX: none. */
static size_t offset_of(const struct file *f, const ElfW(Ehdr) * elf, size_t addr)
{
    for (int i = 0; i < elf->e_phnum; i++) {
        const ElfW(Phdr) *p = header(f, elf, i);
        if (p && p->p_type == PT_LOAD && addr >= p->p_vaddr && addr - p->p_vaddr < p->p_filesz)
            return addr - p->p_vaddr + p->p_offset;
    }
    return SIZE_MAX;
}

static const ElfW(Dyn) * dynamic_of(const struct file *f, const ElfW(Ehdr) * elf, size_t *n)
{
    for (int i = 0; i < elf->e_phnum; i++) {
        const ElfW(Phdr) *p = header(f, elf, i);
        if (p && p->p_type == PT_DYNAMIC) {
            *n = p->p_filesz / sizeof(ElfW(Dyn));
            return p->p_offset % sizeof(void *) ? NULL : part(f, p->p_offset, p->p_filesz);
        }
    }
    return NULL;
}

/* A Fortran or C++ program may name only that language's library, which then loads the one of C. */
static bool is_mpi(const char *name)
{
    static const char *const others[] = {
        /* of MPICH and those that share its ABI; of Open MPI; both begin with libmpi.so. */
        "libmpi.so.",        "libmpich.so.",         "libmpifort.so.",
        "libmpichfort.so.",  "libmpicxx.so.",        "libmpichcxx.so.",
        "libmpi_mpifh.so.",  "libmpi_usempif08.so.", "libmpi_usempi_ignore_tkr.so.",
        "libmpi_usempi.so.", "libmpi_cxx.so.",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (!strncmp(name, others[i], strlen(others[i])))
            return true;
    return !strcmp(name, STANDARD);
}

/* Reads the dynamic section.  False: the program itself is not linked with an MPI library. */
static bool read_links(const struct file *f, struct linked *out)
{
    const ElfW(Ehdr) *elf = part(f, 0, sizeof *elf);
    size_t n = 0, strings = SIZE_MAX;

    if (!elf || memcmp(elf->e_ident, ELFMAG, SELFMAG) ||
        elf->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        elf->e_phentsize != sizeof(ElfW(Phdr)) || elf->e_phoff % sizeof(void *))
        return false;
    const ElfW(Dyn) *dyn = dynamic_of(f, elf, &n);
    for (size_t i = 0; dyn && i < n; i++)
        if (dyn[i].d_tag == DT_STRTAB)
            strings = offset_of(f, elf, dyn[i].d_un.d_ptr);
    for (size_t i = 0; dyn && i < n && dyn[i].d_tag != DT_NULL && strings != SIZE_MAX; i++) {
        const char *text = text_at(f, strings + dyn[i].d_un.d_val);
        if (dyn[i].d_tag == DT_NEEDED && text && is_mpi(text))
            out->mpi = text;
        else if (dyn[i].d_tag == DT_RPATH)
            out->rpath = text;
        else if (dyn[i].d_tag == DT_RUNPATH)
            out->runpath = text;
    }
    return out->mpi;
}

/* Finds the first of the folders, separated by ":", that contains the library.  `program` gives the
 * value of $ORIGIN. */
static bool find_in(const char *folders, const char *program, const char *name, char *path)
{
    int origin = strrchr(program, '/') ? (int)(strrchr(program, '/') - program) : 0;

    for (const char *p = folders; p && *p; p += strcspn(p, ":"), p += *p == ':') {
        int skip = !strncmp(p, "$ORIGIN", 7) ? 7 : !strncmp(p, "${ORIGIN}", 9) ? 9 : 0;
        int len = (int)strcspn(p, ":") - skip;
        if (len + skip == 0)
            continue;
        int n = snprintf(path, PATH_MAX, "%.*s%.*s/%s", skip ? origin : 0, program, len, p + skip,
                         name);
        if (n < PATH_MAX && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static bool is_ours(const char *path)
{
    struct file f = map_file(path);
    bool ours = f.base && memmem(f.base, f.len, OURS, sizeof OURS - 1);
    unmap_file(&f);
    return ours;
}

void launch_warn_foreign(const struct launch_job *job, const struct launch_app *app,
                         const char *library_path)
{
    struct file f = map_file(app->path);
    struct linked l = { NULL, NULL, NULL };
    char path[PATH_MAX];

    if (job->opts->quiet || !read_links(&f, &l))
        goto done;
    bool by_rpath = !l.runpath && find_in(l.rpath, app->path, l.mpi, path);
    bool found = by_rpath || find_in(library_path, app->path, l.mpi, path) ||
                 find_in(l.runpath, app->path, l.mpi, path);
    if (strcmp(l.mpi, STANDARD))
        launch_say(job,
                   "warning: '%s' is linked with %s%s%s, a library of another MPI and not of the "
                   "standard ABI: each process may be rank 0 of 1; compile it with Weft's mpicc or "
                   "mpifort, or start it with that MPI's mpirun",
                   app->path, l.mpi, found ? ", " : "", found ? path : "");
    else if (found && !is_ours(path))
        launch_say(
            job,
            "warning: '%s' loads %s, which belongs to another MPI: each process may be rank 0 of "
            "1; %s, or start it with that MPI's mpirun",
            app->path, path,
            by_rpath ? "link it with Weft's mpicc, or remove its RPATH (patchelf "
                       "--remove-rpath)"
                     : "put the folder of Weft's " STANDARD " first in LD_LIBRARY_PATH");
done:
    unmap_file(&f);
}
