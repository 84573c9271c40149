/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of other jobs that this process has met.  rt_proc.ns is the number of a job in this
 * process only; processes exchange the job's id.  A process introduces itself by its card: its name
 * and all values that it has published.  rt_boot_get() answers for processes
 * of other jobs from their cards, without any server.  Called by one thread at a time, like
 * boot.h. */
#ifndef RT_BOOT_JOBS_H
#define RT_BOOT_JOBS_H

#include "runtime/boot/boot.h"

struct rt_name {  /* a process, as all processes name it */
    uint64_t job; /* id of its job: a hash of the namespace */
    uint32_t rank, zero;
};

struct rt_name rt_boot_name(struct rt_proc p);
uint64_t rt_boot_job_id(const char *nspace); /* any thread */
/* The process of that name.  -RT_ENOENT: this process has not met it. */
int rt_boot_proc(struct rt_name n, struct rt_proc *out);
/* The number of a process's host among those of its job.  -RT_ENOENT: unknown, then for all
 * processes of the job. */
int rt_boot_host(struct rt_proc p);
/* The PMIx namespace of job `ns`. */
const char *rt_boot_nspace(uint32_t ns);
/* " of job NAME" for messages about a process; "" for one of this job.  Valid until the next
 * call. */
const char *rt_boot_of_job(uint32_t ns);

/* This process's card, malloc'ed; *len bytes.  -RT_ENOMEM. */
int rt_boot_card(void **card, size_t *len);
/* Bytes of the card that begins at `card`, of at most `max` bytes.  -RT_EINVAL: not a card of this
 * version of Weft. */
int64_t rt_boot_card_len(const void *card, size_t max);
/* Keeps the card, which rt_boot_card_len() accepts; *out is its process.  A card of the own job is
 * not needed and not kept.  0, -RT_ENOMEM. */
int rt_boot_meet(const void *card, struct rt_proc *out);

/* Stores a value in this process's card.  -RT_ENOMEM. */
int rt_boot_keep(const char *key, const void *val, size_t len);
/* Copies a value of a process's card into malloc'ed *val.  -RT_ENOENT: no card, or the card lacks
 * the key; -RT_ENOMEM. */
int rt_boot_card_get(struct rt_proc p, const char *key, void **val, size_t *len);
/* The same from a card that the caller has.  -RT_EBOOT: it is not a card. */
int rt_boot_card_value(const void *card, size_t nbytes, const char *key, void **val, size_t *len);
void rt_boot_jobs_fini(void); /* called by rt_boot_fini() */

#endif
