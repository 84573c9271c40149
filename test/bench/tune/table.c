/* SPDX-License-Identifier: BSD-3-Clause */
/* From times to rows.  At each size the quickest algorithm; one that is hardly quicker than that of
 * the size below does not change the choice.  Where two numbers of ranks have the same rows, those
 * of the smaller serve both. */
#include "coll/tune.h"
#include "test/bench/tune/tune.h"
#include <ctype.h>
#include <string.h>

static const double CLEARLY = 0.93; /* measurements of this kind repeat to some per cent */

static int quickest(const struct tune_result *r, int size)
{
    int best = -1;

    for (int a = 0; a < r->nalgs; a++) {
        if (r->us[a][size] > 0 && (best < 0 || r->us[a][size] < r->us[best][size]))
            best = a;
    }
    return best;
}

static int index_of(const struct tune_result *r, const struct coll_alg *alg)
{
    for (int a = 0; a < r->nalgs; a++) {
        if (r->alg[a] == alg)
            return a;
    }
    return -1;
}

/* The library's usual algorithm is taken if it is as good as the quickest; otherwise the choice of
 * the size below is kept if that is as good. */
void tune_decide(struct tune_result *r)
{
    int now = -1;

    for (int i = 0; i < r->nsizes; i++) {
        int best = quickest(r, i), usual = index_of(r, r->usual[i]);
        double limit = best < 0 ? 0 : r->us[best][i] / CLEARLY;
        if (usual >= 0 && r->us[usual][i] > 0 && r->us[usual][i] <= limit)
            best = usual;
        if (best >= 0 && (now < 0 || r->us[now][i] <= 0 || r->us[now][i] > limit))
            now = best;
        r->best[i] = now;
    }
}

static bool same_rows(const struct tune_result *a, const struct tune_result *b)
{
    if (a->kind != b->kind || a->mem != b->mem || a->nsizes != b->nsizes)
        return false;
    for (int i = 0; i < a->nsizes; i++) {
        if (a->best[i] < 0 || b->best[i] < 0 || a->alg[a->best[i]] != b->alg[b->best[i]] ||
            a->bytes[i] != b->bytes[i])
            return false;
    }
    return true;
}

/* The first match wins, so the largest sizes come first. */
static void write_rows(FILE *f, const struct tune_result *r, const char *where)
{
    char kind[40], mem[16], ranks[16], bytes[24];

    snprintf(kind, sizeof kind, "%s,", coll_kind_names[r->kind]);
    for (char *c = kind; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    snprintf(mem, sizeof mem, "%s,",
             r->mem == COLL_MEM_CUDA_DIRECT   ? "CUDA_DIRECT"
             : r->mem == COLL_MEM_CUDA_SWITCH ? "CUDA_SWITCH"
             : r->mem == RT_MEM_CUDA          ? "CUDA"
                                              : "HOST");
    for (int i = r->nsizes - 1; i >= 0; i--) {
        const char *name = r->best[i] < 0 ? "" : r->alg[r->best[i]]->name;
        if (!*name || (i > 0 && r->best[i - 1] == r->best[i]))
            continue;
        snprintf(ranks, sizeof ranks, "%d,", r->nranks);
        snprintf(bytes, sizeof bytes, "%lld,", i ? (long long)r->bytes[i] : 0LL);
        fprintf(f, "TUNE( %-22s %-12s %-6s %-10s \"%s\", \"%s\" )\n", kind, mem, ranks, bytes, name,
                where);
    }
}

/* Results of a kind and memory stand together, by descending ranks. */
void tune_write(FILE *f, const struct tune_result *all, int n, const char *where)
{
    for (int i = 0; i < n; i++) {
        if (i + 1 == n || !same_rows(&all[i], &all[i + 1]))
            write_rows(f, &all[i], where);
    }
}

void tune_report(const struct tune_result *all, int n)
{
    int points = 0, changed = 0;
    double most = 1;
    const struct tune_result *where = NULL;
    int64_t bytes = 0;

    for (int i = 0; i < n; i++) {
        const struct tune_result *r = &all[i];
        for (int s = 0; s < r->nsizes; s++) {
            int usual = index_of(r, r->usual[s]), best = r->best[s];
            if (best < 0 || usual < 0)
                continue;
            points++;
            changed += best != usual;
            double gain = r->us[best][s] > 0 ? r->us[usual][s] / r->us[best][s] : 0;
            if (gain > most) {
                most = gain;
                where = r;
                bytes = r->bytes[s];
            }
        }
    }
    printf("%d of %d choices differ from the library's own", changed, points);
    if (where)
        printf("; the largest gain is %.1f times, %s of %lld bytes, %d ranks", most,
               coll_kind_names[where->kind], (long long)bytes, where->nranks);
    printf("\n");
}
