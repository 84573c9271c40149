/* SPDX-License-Identifier: BSD-3-Clause */
/* See launched.h. */
#include "runtime/boot/launched.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>

static long number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 10) : -1;
}

/* Launchers by a variable that only they set, the more special ones first. */
static const char *name(void)
{
    static const struct {
        const char *variable, *by;
    } rows[] = {
        { "WEFT_LAUNCH_MAXPROCS", "mpirun of Weft" },
        { "FLUX_TASK_RANK", "flux run" },
        { "PALS_RANKID", "PALS" },
        { "HYDI_CONTROL_FD", "Hydra (mpiexec of MPICH or Intel MPI)" },
        { "MPI_LOCALNRANKS", "Hydra (mpiexec of MPICH or Intel MPI)" },
        { "PRTE_LAUNCHED", "prterun" },
        { "OMPI_COMM_WORLD_RANK", "mpirun of Open MPI" },
        { "TORCHELASTIC_RUN_ID", "torchrun" },
        { "SLURM_PROCID", "srun" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (getenv(rows[i].variable))
            return rows[i].by;
    return "a launcher";
}

/* Ranks that a launcher has numbered, although it offers no way for them to meet. */
static const struct {
    const char *rank, *size, *advice;
} numbered[] = {
    { "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "flux run -o pmi=simple, or mpirun" },
    { "PALS_RANKID", "PALS_SIZE", "mpirun of Weft in the same allocation" },
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun of Weft" },
    { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
      "srun --mpi=pmix, srun --mpi=pmi2, or mpirun of Weft" },
    { "PMI_RANK", "PMI_SIZE", "mpirun of Weft, or a launcher with PMIx or PMI-1 (PMI_FD)" },
    { "RANK", "WORLD_SIZE",
      "import weft_torch (its back end \"weft\" needs no mpirun), or mpirun of Weft" },
};

void rt_launched_find(struct rt_launched *out)
{
    *out = (struct rt_launched){ .how = RT_LAUNCHED_ALONE, .rank = -1, .size = -1, .pmi_fd = -1 };
    if (getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK")) {
        out->how = RT_LAUNCHED_PMIX;
        out->by = name();
        out->rank = number_of("PMIX_RANK");
        return;
    }
    /* If the descriptor is closed, the variables are those of a parent that is a rank. */
    long fd = number_of("PMI_FD"), rank = number_of("PMI_RANK"), size = number_of("PMI_SIZE");
    if (fd >= 0 && size > 0 && rank >= 0 && rank < size) {
        if (fcntl((int)fd, F_GETFD) < 0)
            return;
        *out = (struct rt_launched){ RT_LAUNCHED_PMI, name(), rank, size, (int)fd, NULL };
        return;
    }
    if (getenv("WEFT_LAUNCH_MAXPROCS"))
        return; /* a program that a rank has started without the variables of PMIx */
    for (size_t i = 0; i < sizeof numbered / sizeof numbered[0]; i++) {
        rank = number_of(numbered[i].rank);
        size = number_of(numbered[i].size);
        if (size > 1 && rank >= 0) {
            *out = (struct rt_launched){ RT_LAUNCHED_SEVERAL, name(), rank, size, -1,
                                         numbered[i].advice };
            return;
        }
    }
}
