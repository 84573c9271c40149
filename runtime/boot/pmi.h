/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMI-1 client of a rank: launchers without PMIx (Hydra, srun --mpi=pmi2, Flux) give each
 * process a connection to a key-value store of the job, whose values appear at barriers. */
#ifndef RT_BOOT_PMI_H
#define RT_BOOT_PMI_H

/* Makes the launcher's store the one of store.h.  The connection is PMI_FD of the environment.
 * -RT_EBOOT, logged: the launcher does not answer as PMI 1.1 says; -RT_ENOMEM. */
int rt_pmi_open(void);

#endif
