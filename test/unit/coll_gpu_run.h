/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes the plans of all ranks of one call on host memory, in any order that the plans allow. */
#ifndef TEST_UNIT_COLL_GPU_RUN_H
#define TEST_UNIT_COLL_GPU_RUN_H

#include "coll/gpu/plan_int.h"

#define PLAN_RANKS 33
#define PLAN_ARENA (1 << 18) /* bytes of each rank's memory */
#define PLAN_UNITS 8

struct plan_rank {
    struct coll_args a;
    char *mem;           /* PLAN_ARENA */
    size_t used;         /* bytes in use */
    char *before, *want; /* initial and expected contents */
    struct coll_gpu_own own;
    uint64_t offsets[PLAN_RANKS];
    char *unit[PLAN_UNITS];
    struct coll_gpu_plan plan;
    struct plan_sync { /* one per step */
        int awaited;   /* posts that every rank must have made before the step begins */
        int next_post; /* number of this rank's post that announces its end; 0: none */
        bool ended;
    } * sync;
    int room; /* capacity of `sync` */
    int nposts;
    int told, open, posted; /* leading steps that have all ended; that may begin; posts made */
    int said;               /* leading steps up to the last of these posts */
};

struct plan_world {
    int size;
    uint64_t (*draw)(void);
    struct plan_rank rank[PLAN_RANKS];
    /* A reduction: output[i] is the fold of bytes [off, off + len) of input[first..last). */
    bool reduces, background, large_pages, direct, in_order;
    bool in_turns; /* ranks share devices: device[rank] */
    int device[PLAN_RANKS];
    enum rt_opcode opcode;
    enum rt_elem elem;
    int64_t elem_len;
    char *input[PLAN_RANKS], *output[PLAN_RANKS];
    int first[PLAN_RANKS], last[PLAN_RANKS];
    int64_t off[PLAN_RANKS], len[PLAN_RANKS];
    struct plan_move { /* other expected data */
        char *to, *from;
        int64_t len;
    } * move;
    int nmoves, room;
    struct plan_access *access; /* of an interval */
    int naccess, access_room;
};

void plan_world_begin(struct plan_world *w, int size, uint64_t (*draw)(void));
/* Memory of a rank at a multiple of `align`. */
char *plan_alloc(struct plan_world *w, int rank, int64_t len, int align);
void plan_expect(struct plan_world *w, char *to, char *from, int64_t len);
/* Makes and executes all plans; returns NULL, or a description of the error. */
const char *plan_world_run(struct plan_world *w);
/* Only makes the plans; returns how many ranks got an error, and the last error. */
const char *plan_world_plan(struct plan_world *w, int *nerr);
void plan_world_end(struct plan_world *w);

#endif
