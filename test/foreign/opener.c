/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens handles.so, as an interpreter opens an extension that uses MPI, and runs it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int (*run)(int, char **) = NULL;
    if (argc < 2)
        return EXIT_FAILURE;
    void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (lib)
        *(void **)&run = dlsym(lib, "handles_main");
    if (!run) {
        fprintf(stderr, "opener: %s\n", dlerror());
        return EXIT_FAILURE;
    }
    return run(argc - 1, argv + 1);
}
