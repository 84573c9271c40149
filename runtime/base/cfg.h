/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration of this process: `cfg.shm_eager` and so on.  Sources, from lowest to highest
 * priority: default, file ($WEFT_CONFIG_FILE, else ~/.config/weft.conf, lines `name = value`),
 * environment (WEFT_SHM_EAGER), command line (mpirun --set name=value, which mpirun passes on in
 * the environment), a tool (MPI_T_cvar_write).  Only cfg.c calls getenv for settings. */
#ifndef RT_BASE_CFG_H
#define RT_BASE_CFG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef const char *rt_cfg_STR;
typedef const char *rt_cfg_LIST;
typedef int64_t rt_cfg_SIZE;
typedef int rt_cfg_INT;
typedef int rt_cfg_ENUM; /* index into the names of the row's `valid` */
typedef bool rt_cfg_BOOL;

struct rt_cfg {
#define CFG(field, type, def, valid, help) rt_cfg_##type field;
#include "runtime/base/cfg.def"
#undef CFG
};
extern struct rt_cfg cfg; /* after MPI_Init, only MPI_T changes the settings that permit it */

enum rt_cfg_source { RT_CFG_DEFAULT, RT_CFG_FILE, RT_CFG_ENV, RT_CFG_CMD, RT_CFG_TOOL };
struct rt_cfg_row {
    const char *name, *env, *type, *def, *valid, *help;
};

/* Reads all sources; further calls return the result of the first.  -RT_EINVAL after one line on
 * stderr with the variable, the value, the valid range and the source; -RT_ENOMEM, logged.  An
 * unknown WEFT_* variable causes one warning with the nearest name. */
int rt_cfg_load(void);
/* Whether this process logs messages about settings: rank 0, or a process outside any job. */
bool rt_cfg_speaks(void);
int rt_cfg_count(void);
const struct rt_cfg_row *rt_cfg_row(int i);
/* Current value as text, as a user would type it, and its source. */
void rt_cfg_value(int i, char *text, int len, enum rt_cfg_source *source);
/* Sets one value from text, for tests and mpirun --set.  -RT_ENOENT (the nearest name is logged),
 * -RT_EINVAL, -RT_ENOMEM, both logged. */
int rt_cfg_set(const char *name, const char *text, enum rt_cfg_source source);
/* The same for setting `i` without logging: -RT_EINVAL, -RT_ENOMEM. */
int rt_cfg_try(int i, const char *text, enum rt_cfg_source source);
/* Current value of a setting of type SIZE, INT, BOOL or ENUM (position of the word). */
int64_t rt_cfg_number(int i);
/* The known name nearest to `name`, or NULL if none is near. */
const char *rt_cfg_nearest(const char *name);
/* Prints the table as valid shell: WEFT_SHM_EAGER=8K  # default; with help lines when verbose. */
void rt_cfg_print(FILE *f, bool verbose);

#endif
