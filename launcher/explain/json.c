/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole picture as JSON, for programs: every rank with its waits, and the verdict. */
#include "launcher/explain/explain.h"

static const char *const kinds[] = {
    [EXPLAIN_UNKNOWN] = "unknown",     [EXPLAIN_LATE] = "late",
    [EXPLAIN_GONE] = "gone",           [EXPLAIN_CYCLE] = "cycle",
    [EXPLAIN_UNMATCHED] = "unmatched", [EXPLAIN_MISMATCH] = "mismatch",
    [EXPLAIN_ORDER] = "order",         [EXPLAIN_MISSED] = "missed",
    [EXPLAIN_LOCK] = "lock",           [EXPLAIN_PSCW] = "pscw",
    [EXPLAIN_STREAM] = "stream",       [EXPLAIN_NUMBER] = "number",
    [EXPLAIN_PARTS] = "partitions",
};
static const char *const states[] = {
    [EXPLAIN_IN_MPI] = "in MPI",         [EXPLAIN_RUNNING] = "running",
    [EXPLAIN_SLEEPING] = "sleeping",     [EXPLAIN_BLOCKED] = "blocked",
    [EXPLAIN_STOPPED] = "stopped",       [EXPLAIN_ENDED] = "ended",
    [EXPLAIN_UNREADABLE] = "unreadable",
};
static const char *const waits[RT_WAIT_KINDS] = {
    [RT_WAIT_OTHER] = "other",
    [RT_WAIT_RECV] = "receive",
    [RT_WAIT_SEND] = "send",
    [RT_WAIT_PROBE] = "probe",
    [RT_WAIT_COLL] = "collective",
    [RT_WAIT_REQS] = "requests",
    [RT_WAIT_TARGET] = "target",
    [RT_WAIT_FINALIZE] = "finalize",
    [RT_WAIT_READY] = "partitioned send",
    [RT_WAIT_PARTS] = "partitioned receive",
    [RT_WAIT_ENTRY] = "entry",
    [RT_WAIT_START] = "start",
};

/* "key": "text", with a comma behind. */
static void put(FILE *f, const char *key, const char *text)
{
    fprintf(f, "\"%s\": \"", key);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(f, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(f, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, f);
    fprintf(f, "\", ");
}

static void put_seconds(FILE *f, const char *key, const struct explain_rank *r, uint64_t since)
{
    double s = since && r->now_ns > since ? (double)(r->now_ns - since) / 1e9 : 0;
    fprintf(f, "\"%s\": %.3f, ", key, s);
}

static void put_item(FILE *f, const struct rt_wait_item *item)
{
    put(f, "kind", item->kind < RT_WAIT_KINDS ? waits[item->kind] : "other");
    fprintf(f,
            "\"context\": %u, \"peer\": %d, \"rank\": %d, \"tag\": %d, \"bytes\": %lld, "
            "\"queued_bytes\": %u",
            item->ctx, item->peer, item->world, item->tag, (long long)item->nbytes, item->queued);
}

static void put_items(FILE *f, const char *key, const struct rt_wait_item *items, uint32_t n,
                      uint32_t max)
{
    fprintf(f, ", \"%s\": [", key);
    for (uint32_t i = 0; i < n && i < max; i++) {
        fprintf(f, i ? ", {" : "{");
        put_item(f, &items[i]);
        fputc('}', f);
    }
    fputc(']', f);
}

static void put_wait(FILE *f, const struct explain_rank *r, const struct explain_wait *w)
{
    const struct rt_wait_note *n = &w->note;
    fputc('{', f);
    put(f, "call", n->call);
    put(f, "place", w->place);
    put(f, "function", w->function);
    put_seconds(f, "seconds", r, n->since_ns);
    put(f, "communicator", n->comm.name);
    fprintf(f, "\"communicator_context\": %u, \"communicator_size\": %d, ", n->comm.ctx,
            n->comm.size);
    if (n->item.kind == RT_WAIT_COLL) {
        put(f, "collective", n->what);
        fprintf(f, "\"number\": %llu, \"root\": %d, ", (unsigned long long)n->number, n->root);
    }
    put_item(f, &n->item);
    fprintf(f, ", \"nrequests\": %u, \"nunexpected\": %u", n->nreqs, n->nunex);
    put_items(f, "requests", n->reqs, n->nreqs, RT_ACTIVITY_REQS);
    put_items(f, "unexpected", n->unex, n->nunex, RT_ACTIVITY_UNEX);
    fputc('}', f);
}

/* Only of ranks that know of any. */
static void put_faults(FILE *f, const struct rt_activity_faults *a)
{
    if (a->nfailed) {
        fprintf(f, "\"nfailed\": %u, \"failed\": [", a->nfailed);
        for (uint32_t i = 0; i < a->nfailed && i < RT_ACTIVITY_FAILED; i++)
            fprintf(f, "%s%d", i ? ", " : "", a->failed[i]);
        fprintf(f, "], ");
    }
    if (!a->nrevoked)
        return;
    fprintf(f, "\"nrevoked\": %u, \"revoked\": [", a->nrevoked);
    const char *comma = "";
    for (int i = 0; i < RT_ACTIVITY_REVOKED; i++)
        if (a->revoked[i].ctx) {
            fprintf(f, "%s{", comma);
            put(f, "communicator", a->revoked[i].name);
            fprintf(f, "\"communicator_context\": %u}", a->revoked[i].ctx);
            comma = ", ";
        }
    fprintf(f, "], ");
}

static void put_rank(FILE *f, const struct explain_rank *r)
{
    fprintf(f, "{\"rank\": %d, \"pid\": %d, \"cpu\": %.2f, \"status\": %d, ", r->rank, r->pid,
            r->cpu, r->status);
    put(f, "host", r->host);
    put(f, "state", states[r->state]);
    put(f, "detail", r->detail);
    put(f, "place", r->place);
    put(f, "function", r->function);
    if (r->published) {
        put(f, "last_call", r->last_call);
        put_seconds(f, "last_call_seconds", r, r->left_ns);
        fprintf(f, "\"use\": %u, \"hidden_waits\": %u, ", r->use, r->nhidden);
    }
    put_faults(f, &r->faults);
    fprintf(f, "\"waits\": [");
    for (int i = 0; i < r->nwaits; i++) {
        fputs(i ? ", " : "", f);
        put_wait(f, r, &r->waits[i]);
    }
    fprintf(f, "]}");
}

void explain_json(const struct explain_job *job, const struct explain_verdict *v, FILE *f)
{
    fprintf(f, "{\"seconds_without_progress\": %.0f, \"nranks\": %d, ", job->seconds, job->total);
    put(f, "kind", kinds[v->kind]);
    fprintf(f, "\"nwaiting\": %d, \"waited_for\": [", v->nwait);
    for (int i = 0; i < v->nroots; i++)
        fprintf(f, "%s%d", i ? ", " : "", v->roots[i]);
    fprintf(f, "],\n\"ranks\": [\n");
    for (int i = 0; i < job->nranks; i++) {
        put_rank(f, &job->ranks[i]);
        fputs(i + 1 < job->nranks ? ",\n" : "\n", f);
    }
    fprintf(f, "]}\n");
}
