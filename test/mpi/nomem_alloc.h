/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocator of which one allocation fails.  Linked into a program, it takes the place of the C
 * library's for the whole process, the MPI library included.  Only allocations of the thread that
 * called nomem_arm() count. */
#ifndef TEST_MPI_NOMEM_ALLOC_H
#define TEST_MPI_NOMEM_ALLOC_H

/* Allocation number `nth` from here on fails, counted from 1.  nomem_disarm() returns how many
 * allocations there were. */
void nomem_arm(long nth);
long nomem_disarm(void);
/* 0: the C library or a sanitizer does not let a program replace its allocator. */
int nomem_works(void);

#endif
