/* SPDX-License-Identifier: BSD-3-Clause */
/* Fortran calls whose arguments no general rule translates: start, LOGICAL values, lengths of
 * strings, arrays of strings, statuses.  Any thread, as the C procedures allow. */
#include "mpi/fortran/hand.h"
#include <string.h>

void f_init(__typeof__(MPI_Init) *fn, wf_int *ierror)
{
    wf_usual_kinds();
    wf_error(ierror, fn(NULL, NULL));
}

void f_init_thread(__typeof__(MPI_Init_thread) *fn, const wf_int *required, wf_int *provided,
                   wf_int *ierror)
{
    int tmp;
    wf_usual_kinds();
    int ret = fn(NULL, NULL, wf_in(*required), wf_out(provided, &tmp));
    wf_put(provided, &tmp);
    wf_error(ierror, ret);
}

void f_session_init(__typeof__(MPI_Session_init) *fn, const wf_int *info, const wf_int *errhandler,
                    wf_int *session, wf_int *ierror)
{
    MPI_Session made = MPI_SESSION_NULL;
    wf_usual_kinds();
    int ret = fn(wf_h(MPI_Info, *info), wf_h(MPI_Errhandler, *errhandler), &made);
    *session = wf_i(made);
    wf_error(ierror, ret);
}

/* Fortran has no arguments of main() to give. */
void f_info_create_env(__typeof__(MPI_Info_create_env) *fn, wf_int *info, wf_int *ierror)
{
    MPI_Info made = MPI_INFO_NULL;
    int ret = fn(0, NULL, &made);
    *info = wf_i(made);
    wf_error(ierror, ret);
}

/* The LOGICALs of these calls are values of the given size, not of this library's default kind. */
void f_abi_get_fortran_booleans(__typeof__(MPI_Abi_get_fortran_booleans) *fn,
                                const wf_int *logical_size, wf_int *logical_true,
                                wf_int *logical_false, wf_int *is_set, wf_int *ierror)
{
    int known = 0;
    int ret = fn(wf_in(*logical_size), logical_true, logical_false, &known);
    *is_set = wf_logical(known);
    wf_error(ierror, ret);
}

void f_abi_set_fortran_booleans(__typeof__(MPI_Abi_set_fortran_booleans) *fn,
                                const wf_int *logical_size, const wf_int *logical_true,
                                const wf_int *logical_false, wf_int *ierror)
{
    int ret = fn(wf_in(*logical_size), (void *)(uintptr_t)logical_true,
                 (void *)(uintptr_t)logical_false);
    if (ret == MPI_SUCCESS && *logical_size == (wf_int)sizeof(wf_int)) {
        wf_true = *logical_true;
        wf_false = *logical_false;
    }
    wf_error(ierror, ret);
}

/* The compiler must not keep `buf` in a register across the call: that is all. */
void f_f_sync_reg(void *buf) { (void)buf; }

void f_status_f2f08(wf_int *f_status, wf_int *f08_status, wf_int *ierror)
{
    memcpy(f08_status, f_status, (size_t)WF_STATUS_SIZE * sizeof(wf_int));
    wf_error(ierror, MPI_SUCCESS);
}

void f_status_f082f(wf_int *f08_status, wf_int *f_status, wf_int *ierror)
{
    f_status_f2f08(f08_status, f_status, ierror);
}

/* ---- strings with a length argument: C counts the final NUL, Fortran has none ---- */

void f_info_get(__typeof__(MPI_Info_get) *fn, const wf_int *info, const char *key,
                const wf_int *valuelen, char *value, wf_int *flag, wf_int *ierror, size_t key_len,
                size_t value_len)
{
    struct wf_tmp k, v;
    int found = 0, n = wf_in(*valuelen);
    char *text = wf_tmp_get(&v, n > 0 ? (size_t)n + 1 : 1);
    int ret = fn(wf_h(MPI_Info, *info), wf_string_in(&k, key, key_len, true), n, text, &found);
    if (!ret && found)
        wf_string_done(value, value_len, text);
    *flag = wf_logical(found);
    wf_tmp_free(&k);
    wf_tmp_free(&v);
    wf_error(ierror, ret);
}

/* 0 asks for the length only, in both languages. */
static int c_length(const wf_int *len)
{
    int n = wf_in(*len);
    return n > 0 ? n + 1 : n;
}

void f_info_get_string(__typeof__(MPI_Info_get_string) *fn, const wf_int *info, const char *key,
                       wf_int *buflen, char *value, wf_int *flag, wf_int *ierror, size_t key_len,
                       size_t value_len)
{
    struct wf_tmp k, v;
    int found = 0, n = c_length(buflen), room = n;
    char *text = wf_tmp_get(&v, n > 0 ? (size_t)n : 1);
    int ret = fn(wf_h(MPI_Info, *info), wf_string_in(&k, key, key_len, true), &n, text, &found);
    if (!ret && found) {
        if (room > 0)
            wf_string_done(value, value_len, text);
        *buflen = n - 1;
    }
    *flag = wf_logical(found);
    wf_tmp_free(&k);
    wf_tmp_free(&v);
    wf_error(ierror, ret);
}

void f_session_get_nth_pset(__typeof__(MPI_Session_get_nth_pset) *fn, const wf_int *session,
                            const wf_int *info, const wf_int *n, wf_int *pset_len, char *pset_name,
                            wf_int *ierror, size_t pset_name_len)
{
    struct wf_tmp v;
    int len = c_length(pset_len), room = len;
    char *text = wf_tmp_get(&v, len > 0 ? (size_t)len : 1);
    int ret = fn(wf_h(MPI_Session, *session), wf_h(MPI_Info, *info), wf_in(*n), &len, text);
    if (!ret) {
        if (room > 0)
            wf_string_done(pset_name, pset_name_len, text);
        *pset_len = len - 1;
    }
    wf_tmp_free(&v);
    wf_error(ierror, ret);
}

/* ---- MPI_COMM_SPAWN ---- */

/* A string of an array of CHARACTER(len), without the blanks around it, appended to *at. */
static char *put_string(char **at, const char *x, size_t len)
{
    char *s = *at;
    while (len > 0 && x[len - 1] == ' ')
        len--;
    while (len > 0 && *x == ' ')
        x++, len--;
    memcpy(s, x, len);
    s[len] = '\0';
    *at = s + len + 1;
    return s;
}

static bool blank(const char *x, size_t len)
{
    while (len > 0 && x[len - 1] == ' ')
        len--;
    return len == 0;
}

/* The strings x(1), x(1 + step) ... up to the first blank one, as C has them: one block of memory.
 */
static char **argv_in(struct wf_tmp *t, const char *x, size_t len, size_t step)
{
    size_t n = 0;
    while (len > 0 && !blank(x + n * step * len, len))
        n++;
    char **argv = wf_tmp_get(t, (n + 1) * sizeof *argv + n * (len + 1));
    char *at = (char *)(argv + n + 1);
    for (size_t i = 0; i < n; i++)
        argv[i] = put_string(&at, x + i * step * len, len);
    argv[n] = NULL;
    return argv;
}

/* Error codes: as many as processes were asked for. */
static int *errcodes_out(struct wf_tmp *t, wf_int *x, int n)
{
    return wf_is_cell(x, WF_ERRCODES) ? MPI_ERRCODES_IGNORE : wf_ints_out(t, x, n);
}

static void errcodes_done(struct wf_tmp *t, wf_int *x, int n, int ret)
{
    if (!wf_is_cell(x, WF_ERRCODES))
        wf_ints_done(t, x, ret ? 0 : n);
}

static bool at_root(const wf_int *root, const wf_int *comm)
{
    int rank = MPI_UNDEFINED;
    return PMPI_Comm_rank(wf_h(MPI_Comm, *comm), &rank) == MPI_SUCCESS && *root == rank;
}

void f_comm_spawn(__typeof__(MPI_Comm_spawn) *fn, const char *command, const char *argv,
                  const wf_int *maxprocs, const wf_int *info, const wf_int *root,
                  const wf_int *comm, wf_int *intercomm, wf_int *array_of_errcodes, wf_int *ierror,
                  size_t command_len, size_t argv_len)
{
    struct wf_tmp c, a = { 0 }, e;
    bool mine = at_root(root, comm); /* elsewhere the first four arguments may be anything */
    int n = mine ? wf_in(*maxprocs) : 0;
    char **args = MPI_ARGV_NULL;
    if (mine && !wf_is_cell(argv, WF_ARGV))
        args = argv_in(&a, argv, argv_len, 1);
    MPI_Comm made = MPI_COMM_NULL;
    int ret = fn(wf_string_in(&c, command, mine ? command_len : 0, true), args, n,
                 mine ? wf_h(MPI_Info, *info) : MPI_INFO_NULL, wf_in(*root), wf_h(MPI_Comm, *comm),
                 &made, errcodes_out(&e, array_of_errcodes, n));
    errcodes_done(&e, array_of_errcodes, n, ret);
    *intercomm = wf_i(made);
    wf_tmp_free(&c);
    wf_tmp_free(&a);
    wf_error(ierror, ret);
}

/* What the root of MPI_COMM_SPAWN_MULTIPLE gives, converted. */
struct commands {
    char **names, ***argvs;
    struct wf_tmp mem, *each;
    int n;
};

static void commands_in(struct commands *c, int n, const char *names, size_t len, const char *argv,
                        size_t argv_len)
{
    size_t k = n > 0 ? (size_t)n : 0;
    bool none = wf_is_cell(argv, WF_ARGVS);
    char *at = wf_tmp_get(&c->mem, k * (sizeof *c->each + 2 * sizeof(char *) + len + 1) + 1);
    c->each = (struct wf_tmp *)(void *)at;
    c->names = (char **)(c->each + k);
    c->argvs = (char ***)(c->names + k);
    c->n = none ? 0 : (int)k;
    at = (char *)(c->argvs + k);
    for (size_t i = 0; i < k; i++) {
        c->names[i] = put_string(&at, names + i * len, len);
        if (!none)
            c->argvs[i] = argv_in(&c->each[i], argv + i * argv_len, argv_len, k);
    }
    if (none)
        c->argvs = MPI_ARGVS_NULL;
}

static void commands_free(struct commands *c)
{
    for (int i = 0; i < c->n; i++)
        wf_tmp_free(&c->each[i]);
    wf_tmp_free(&c->mem);
}

void f_comm_spawn_multiple(__typeof__(MPI_Comm_spawn_multiple) *fn, const wf_int *count,
                           const char *array_of_commands, const char *array_of_argv,
                           const wf_int *array_of_maxprocs, const wf_int *array_of_info,
                           const wf_int *root, const wf_int *comm, wf_int *intercomm,
                           wf_int *array_of_errcodes, wf_int *ierror, size_t array_of_commands_len,
                           size_t array_of_argv_len)
{
    int n = at_root(root, comm) ? wf_in(*count) : 0;
    struct commands c;
    struct wf_tmp procs, infos, e;
    int total = wf_sum(array_of_maxprocs, n);
    commands_in(&c, n, array_of_commands, array_of_commands_len, array_of_argv, array_of_argv_len);
    MPI_Comm made = MPI_COMM_NULL;
    int ret = fn(n, c.names, c.argvs, wf_ints_in(&procs, array_of_maxprocs, n),
                 wf_handles_in(MPI_Info, &infos, array_of_info, n), wf_in(*root),
                 wf_h(MPI_Comm, *comm), &made, errcodes_out(&e, array_of_errcodes, total));
    errcodes_done(&e, array_of_errcodes, total, ret);
    *intercomm = wf_i(made);
    wf_ints_free(&procs);
    wf_tmp_free(&infos);
    commands_free(&c);
    wf_error(ierror, ret);
}

/* C writes *flag at the end of the agreement, after this call: into the lower half of a long
 * INTEGER, whose upper half must then be 0. */
void f_comm_iagree(__typeof__(MPIX_Comm_iagree) *fn, const wf_int *comm, wf_int *flag,
                   wf_int *request, wf_int *ierror)
{
    MPI_Request made = MPI_REQUEST_NULL;
    MPI_Comm c = wf_h(MPI_Comm, *comm);
    int ret;
    if (WF_WIDE && *flag < 0)
        ret = PMPIX_Comm_raise(c, MPI_ERR_ARG, "MPIX_Comm_iagree",
                               "flag is negative: with 8-byte INTEGER only MPIX_Comm_agree takes "
                               "such a flag");
    else
        ret = fn(c, (int *)(void *)flag, &made);
    *request = wf_i(made);
    wf_error(ierror, ret);
}
