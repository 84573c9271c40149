/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines on stderr: "[host:pid rank 3 btl] text".  The level is tested before a line is
 * formatted.  One line is one write(2), so lines of several ranks never mix.  WEFT_LOG=warn or
 * WEFT_LOG=btl:debug,coll:trace sets the levels. */
#ifndef RT_BASE_LOG_H
#define RT_BASE_LOG_H

#include <stdint.h>

enum rt_log_level { RT_LOG_ERROR, RT_LOG_WARN, RT_LOG_INFO, RT_LOG_DEBUG, RT_LOG_TRACE };

/* Components, each with its own level; the names are those of WEFT_LOG and of the prefix. */
enum rt_log_comp {
    RT_LOG_BASE,
    RT_LOG_BOOT,
    RT_LOG_TOPO,
    RT_LOG_MEM,
    RT_LOG_GPU,
    RT_LOG_BTL,
    RT_LOG_COLL,
    RT_LOG_MPI,
    RT_LOG_LAUNCH,
    RT_LOG_IB,
    RT_LOG_IO,
    RT_LOG_COMPS
};

extern uint8_t rt_log_levels[RT_LOG_COMPS]; /* highest level printed; initially RT_LOG_WARN */

/* Sets host and rank for the prefix; rank < 0: no rank is printed.  Called once at the start. */
void rt_log_identify(const char *host, int rank);
/* Parses a value of WEFT_LOG.  -RT_EINVAL and one line on stderr for an unknown component or
 * level. */
int rt_log_configure(const char *spec);
/* Delays the next line of level error by `ms` milliseconds; 0: no delay.  For errors that all ranks
 * of a job would log: one rank is not delayed and logs the error, and the job ends before the
 * others do. */
void rt_log_hold(int ms);
/* Writes a line, whatever the level of the component: log_at() tests the level. */
void rt_log_line(enum rt_log_comp comp, enum rt_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Impossible state: prints the line and a backtrace, and aborts the process. */
_Noreturn void rt_bug(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_at(COMP, LEVEL, ...) \
    do { \
        if (__builtin_expect((LEVEL) <= rt_log_levels[RT_LOG_##COMP], 0)) \
            rt_log_line(RT_LOG_##COMP, (LEVEL), __VA_ARGS__); \
    } while (0)
#define log_error(COMP, ...) log_at(COMP, RT_LOG_ERROR, __VA_ARGS__)
#define log_warn(COMP, ...) log_at(COMP, RT_LOG_WARN, __VA_ARGS__)
#define log_info(COMP, ...) log_at(COMP, RT_LOG_INFO, __VA_ARGS__)
#define log_debug(COMP, ...) log_at(COMP, RT_LOG_DEBUG, __VA_ARGS__)
#ifdef WEFT_DEBUG
#define log_trace(COMP, ...) log_at(COMP, RT_LOG_TRACE, __VA_ARGS__)
#define rt_assert(cond) \
    do { \
        if (!(cond)) \
            rt_bug(__FILE__, __LINE__, "assertion failed: %s", #cond); \
    } while (0)
#else
#define log_trace(COMP, ...) \
    do { \
    } while (0)
#define rt_assert(cond) \
    do { \
        (void)sizeof(cond); \
    } while (0)
#endif
#define RT_BUG(...) rt_bug(__FILE__, __LINE__, __VA_ARGS__)

#endif
