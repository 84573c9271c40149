/* SPDX-License-Identifier: BSD-3-Clause */
/* What the generated checks of arguments call; included after the samples THEIRS_ and OURS_. */
#include <stdio.h>

static char memory[MPI_MAX_LIBRARY_VERSION_STRING]; /* pointers that are passed on; a string */
static const char *now;
static int calls, bad, failure;

#define WANT(expr, value) \
    do { \
        if ((expr) != (value)) { \
            printf("# %s: %s is not %s\n", now, #expr, #value); \
            bad++; \
        } \
    } while (0)

#define LONGEST(limit) ((WX_SHORTER(limit) ? WX_MAX_##limit : MPI_MAX_##limit) - 1)

static void store_string(char *to, int size)
{
    memset(to, 'x', (size_t)size - 1);
    to[size - 1] = '\0';
}

static void begin(const char *name)
{
    now = name;
    calls = failure = 0;
    memset(memory, 0, sizeof memory);
}

static void begin_failure(void)
{
    WANT(calls > 0, true);
    calls = 0;
    failure = OURS_error;
}

static void end(void)
{
    WANT(calls > 0, true);
    failure = 0;
}

/* The contents of a test status: 3 * 2^32 + 5 bytes, cancelled, with an error; rank and tag are
 * samples. */
#define BYTES (((int64_t)3 << 32) + 5)

static void store_envelope(MPI_Status *s) { wm_status_set(s, OURS_rank, OURS_tag, BYTES, true); }

static void store_status(MPI_Status *s)
{
    store_envelope(s);
    s->MPI_ERROR = OURS_error;
}

static void want_our_status(const MPI_Status *s)
{
    WANT(s->MPI_SOURCE, OURS_rank);
    WANT(s->MPI_TAG, OURS_tag);
    WANT(s->MPI_ERROR, OURS_error);
    WANT(wm_status_len(s), BYTES);
    WANT(wm_status_cancelled(s), true);
}

static void set_status(wx_MPI_Status *s)
{
    s->MPI_SOURCE = THEIRS_rank;
    s->MPI_TAG = THEIRS_tag;
    s->MPI_ERROR = THEIRS_error;
    theirs_set_bytes(s);
}

static void want_envelope(const wx_MPI_Status *s)
{
    wx_MPI_Status want = *s;
    theirs_set_bytes(&want);
    WANT(s->MPI_SOURCE, THEIRS_rank);
    WANT(s->MPI_TAG, THEIRS_tag);
    WANT(memcmp(s, &want, sizeof want), 0);
}

static void want_status(const wx_MPI_Status *s)
{
    want_envelope(s);
    WANT(s->MPI_ERROR, THEIRS_error);
}
