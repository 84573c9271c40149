/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices for coll/gpu over the team of coll_fake.h: device memory is plain memory, steps of plans
 * end at any time and in any order, and errors occur as often as a test wants.  One fake at a
 * time. */
#ifndef TEST_FAKE_COLL_DEVICES_H
#define TEST_FAKE_COLL_DEVICES_H

#include "test/fake/coll_fake.h"

/* Probabilities of errors and other rare outcomes, in 64ths. */
struct fake_odds {
    unsigned host, no_describe, no_attach, freed, fail, no_memory, direct;
};

extern struct fake_devices {
    struct fake *now; /* set by the test */
    struct fake_odds odds;
    int unreachable;         /* how many mappings are refused permanently */
    int nstaged;             /* calls of ranks that went through host memory */
    int nregs, nmaps, njobs; /* objects that exist */
    int nplans;              /* requests for kernels, one for each plan */
    int nnear;               /* steps that are said to store on their own device */
} dev;

/* From now on fakes have devices. */
void fake_devices_use(void);

/* Memory that other ranks see at a different address than its owner, and at yet another address
 * after it has moved; the old address is then unmapped. */
enum { FAKE_PLACES = 3, FAKE_PLACE_LEN = 8192 };
extern struct fake_place {
    char *own, *seen;
    int fd, number; /* number: of the allocation */
} fake_places[FAKE_PLACES];
void fake_places_open(void);
void fake_places_close(void);
/* anew: it was freed and allocated again at the same place; else it is only mapped again. */
void fake_place_move(struct fake_place *p, bool anew);

#endif
