/* SPDX-License-Identifier: BSD-3-Clause */
/* The sections of weft_info.  Each prints to stdout and returns the exit code: 0, or 1 after
 * printing what is wrong.  One thread. */
#ifndef LAUNCHER_INFO_INFO_H
#define LAUNCHER_INFO_INFO_H

#include <stdbool.h>
#include <stdio.h>

int info_paths(const char *self);      /* paths.c: transport between each pair of ranks */
int info_coll(int nranks, int nhosts); /* coll.c: algorithm by collective and size */
int info_coll_gpu(int nranks);         /* coll_gpu.c: the same for device memory */
int info_tool(bool verbose);           /* tool.c: variables and events for tools */
/* gpus.c: devices and the links between them; 1: there is none, unless that is fine */
int info_gpu(bool none_is_fine);
void info_gpu_paths(void);                /* gpus.c: the part of --paths about devices */
int info_io(const char *path);            /* io.c: the file system of a file, access to it */
int info_abi(const char *program);        /* abi.c: the MPI for which a program was built */
int info_rma(const char *self);           /* rma.c: paths of one-sided communication */
int info_net(bool verbose);               /* net.c: transports between hosts */
int info_job(long pid, const char *json); /* running.c: what ranks wait for; pid 0: all jobs */
int info_launcher(void);                  /* started.c: by which launcher this process runs */
int info_doctor(void);                    /* doctor.c: what limits the speed */

/* Prints a line of the doctor; `advice` is printed if the finding is not good. */
void info_say(bool good, const char *what, const char *found, const char *advice);
void info_doctor_gpu(void);  /* doctor_gpu.c: its lines about GPUs */
void info_doctor_host(void); /* doctor_host.c: containers, launchers, the PCI bus */
void info_doctor_net(void);  /* net.c: its lines about networks */

/* Whether the setting btl lets this transport be used. */
bool info_listed(const char *name);

/* "64 KiB" */
const char *info_bytes(size_t n, char *text, size_t len);

#endif
