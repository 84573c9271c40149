/* SPDX-License-Identifier: BSD-3-Clause */
/* Error classes, codes and strings (MPI-5.0 sections 9.4 and 9.5): those of the standard, and those
 * that the user adds, which start above MPI_ERR_LASTCODE.  Any thread; one lock guards the user's
 * codes. */
#include "mpi/core/errcode.h"
#include "mpi/api/bodies.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct class_text {
    const char *name, *text;
};

#define CLASS(c, t) [c] = { #c, t }
static const struct class_text classes[] = {
    CLASS(MPI_SUCCESS, "no error"),
    CLASS(MPI_ERR_BUFFER, "invalid buffer pointer"),
    CLASS(MPI_ERR_COUNT, "invalid count"),
    CLASS(MPI_ERR_TYPE, "invalid datatype"),
    CLASS(MPI_ERR_TAG, "invalid tag"),
    CLASS(MPI_ERR_COMM, "invalid communicator"),
    CLASS(MPI_ERR_RANK, "invalid rank"),
    CLASS(MPI_ERR_REQUEST, "invalid request"),
    CLASS(MPI_ERR_ROOT, "invalid root"),
    CLASS(MPI_ERR_GROUP, "invalid group"),
    CLASS(MPI_ERR_OP, "invalid reduction operation"),
    CLASS(MPI_ERR_TOPOLOGY, "invalid topology"),
    CLASS(MPI_ERR_DIMS, "invalid dimensions"),
    CLASS(MPI_ERR_ARG, "invalid argument"),
    CLASS(MPI_ERR_UNKNOWN, "unknown error"),
    CLASS(MPI_ERR_TRUNCATE, "message longer than the receive buffer"),
    CLASS(MPI_ERR_OTHER, "other error"),
    CLASS(MPI_ERR_INTERN, "internal error of the MPI library"),
    CLASS(MPI_ERR_PENDING, "request not yet complete"),
    CLASS(MPI_ERR_IN_STATUS, "the error codes are in the statuses"),
    CLASS(MPI_ERR_ACCESS, "permission denied"),
    CLASS(MPI_ERR_AMODE, "invalid file access mode"),
    CLASS(MPI_ERR_ASSERT, "invalid assertion"),
    CLASS(MPI_ERR_BAD_FILE, "invalid file name"),
    CLASS(MPI_ERR_BASE, "invalid base address"),
    CLASS(MPI_ERR_CONVERSION, "error in a data conversion function"),
    CLASS(MPI_ERR_DISP, "invalid displacement"),
    CLASS(MPI_ERR_DUP_DATAREP, "data representation already defined"),
    CLASS(MPI_ERR_FILE_EXISTS, "file exists"),
    CLASS(MPI_ERR_FILE_IN_USE, "file is in use"),
    CLASS(MPI_ERR_FILE, "invalid file handle"),
    CLASS(MPI_ERR_INFO_KEY, "invalid info key"),
    CLASS(MPI_ERR_INFO_NOKEY, "info key not defined"),
    CLASS(MPI_ERR_INFO_VALUE, "invalid info value"),
    CLASS(MPI_ERR_INFO, "invalid info object"),
    CLASS(MPI_ERR_IO, "input or output error"),
    CLASS(MPI_ERR_KEYVAL, "invalid attribute key"),
    CLASS(MPI_ERR_LOCKTYPE, "invalid lock type"),
    CLASS(MPI_ERR_NAME, "service name not published"),
    CLASS(MPI_ERR_NO_MEM, "out of memory"),
    CLASS(MPI_ERR_NOT_SAME, "argument differs between processes"),
    CLASS(MPI_ERR_NO_SPACE, "no space left"),
    CLASS(MPI_ERR_NO_SUCH_FILE, "no such file"),
    CLASS(MPI_ERR_PORT, "invalid port name"),
    CLASS(MPI_ERR_QUOTA, "quota exceeded"),
    CLASS(MPI_ERR_READ_ONLY, "read-only file or file system"),
    CLASS(MPI_ERR_RMA_ATTACH, "memory cannot be attached"),
    CLASS(MPI_ERR_RMA_CONFLICT, "conflicting accesses to a window"),
    CLASS(MPI_ERR_RMA_RANGE, "target memory is not part of the window"),
    CLASS(MPI_ERR_RMA_SHARED, "memory cannot be shared"),
    CLASS(MPI_ERR_RMA_SYNC, "wrong synchronisation of a window"),
    CLASS(MPI_ERR_SERVICE, "invalid service name"),
    CLASS(MPI_ERR_SIZE, "invalid size"),
    CLASS(MPI_ERR_SPAWN, "processes could not be spawned"),
    CLASS(MPI_ERR_UNSUPPORTED_DATAREP, "unsupported data representation"),
    CLASS(MPI_ERR_UNSUPPORTED_OPERATION, "unsupported operation"),
    CLASS(MPI_ERR_WIN, "invalid window"),
    CLASS(MPI_ERR_RMA_FLAVOR, "wrong flavor of window"),
    CLASS(MPI_ERR_PROC_ABORTED, "a process has aborted"),
    CLASS(MPI_ERR_VALUE_TOO_LARGE, "value does not fit in the argument's type"),
    CLASS(MPI_ERR_SESSION, "invalid session"),
    CLASS(MPI_ERR_ERRHANDLER, "invalid error handler"),
    CLASS(MPI_ERR_ABI, "invalid use of the ABI's Fortran settings"),
};

/* MPI_T errors, numbered from 1001. */
#define TOOL(c, t) [c - MPI_T_ERR_CANNOT_INIT] = { #c, t }
static const struct class_text tool_classes[] = {
    TOOL(MPI_T_ERR_CANNOT_INIT, "the tool interface cannot be initialised now"),
    TOOL(MPI_T_ERR_NOT_ACCESSIBLE, "the tool information is not accessible"),
    TOOL(MPI_T_ERR_NOT_INITIALIZED, "the tool interface is not initialised"),
    TOOL(MPI_T_ERR_NOT_SUPPORTED, "not supported by the tool interface"),
    TOOL(MPI_T_ERR_MEMORY, "out of memory"),
    TOOL(MPI_T_ERR_INVALID, "invalid use of the tool interface"),
    TOOL(MPI_T_ERR_INVALID_INDEX, "index out of range"),
    TOOL(MPI_T_ERR_INVALID_ITEM, "item index out of range"),
    TOOL(MPI_T_ERR_INVALID_SESSION, "invalid tool session"),
    TOOL(MPI_T_ERR_INVALID_HANDLE, "invalid tool handle"),
    TOOL(MPI_T_ERR_INVALID_NAME, "no variable or category of this name"),
    TOOL(MPI_T_ERR_OUT_OF_HANDLES, "no more tool handles"),
    TOOL(MPI_T_ERR_OUT_OF_SESSIONS, "no more tool sessions"),
    TOOL(MPI_T_ERR_CVAR_SET_NOT_NOW, "the variable cannot be set now"),
    TOOL(MPI_T_ERR_CVAR_SET_NEVER, "the variable cannot be set"),
    TOOL(MPI_T_ERR_PVAR_NO_WRITE, "the variable cannot be written"),
    TOOL(MPI_T_ERR_PVAR_NO_STARTSTOP, "the variable cannot be started or stopped"),
    TOOL(MPI_T_ERR_PVAR_NO_ATOMIC, "the variable cannot be read and reset at once"),
};

/* Fault tolerance, beyond the standard: mpi.h. */
#define FAULT(c, t) [c - MPIX_ERR_PROC_FAILED] = { #c, t }
static const struct class_text fault_classes[] = {
    FAULT(MPIX_ERR_PROC_FAILED, "a process that the operation needs has failed"),
    FAULT(MPIX_ERR_PROC_FAILED_PENDING,
          "a process has failed that might send to this receive, which stays active"),
    FAULT(MPIX_ERR_REVOKED, "the communicator has been revoked"),
};

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const struct class_text *standard_class(int code)
{
    if (code >= 0 && code < COUNT(classes))
        return classes[code].name ? &classes[code] : NULL;
    if (code >= MPI_T_ERR_CANNOT_INIT && code - MPI_T_ERR_CANNOT_INIT < COUNT(tool_classes))
        return &tool_classes[code - MPI_T_ERR_CANNOT_INIT];
    if (code >= MPIX_ERR_PROC_FAILED && code - MPIX_ERR_PROC_FAILED < COUNT(fault_classes))
        return &fault_classes[code - MPIX_ERR_PROC_FAILED];
    return NULL;
}

/* The user's codes: code MPI_ERR_LASTCODE + 1 + i is entry i. Entries of removed codes are
 * reused. */
struct user_code {
    bool used, is_class;
    int cls;    /* the entry's own code if it is a class */
    int ncodes; /* of a class: number of codes that belong to it */
    char *text; /* NULL until MPI_Add_error_string */
};
static struct {
    pthread_mutex_t lock; /* always taken: these calls are usable before MPI_Init */
    struct user_code *code;
    int n, cap;
    int last_used; /* value of MPI_LASTUSEDCODE; only grows */
} user = { .lock = PTHREAD_MUTEX_INITIALIZER, .last_used = MPI_ERR_LASTCODE };

#define USER_FIRST (MPI_ERR_LASTCODE + 1)

/* NULL unless the code is a user code in use; called under the lock. */
static struct user_code *user_find(int code)
{
    if (code < USER_FIRST || code - USER_FIRST >= user.n || !user.code[code - USER_FIRST].used)
        return NULL;
    return &user.code[code - USER_FIRST];
}

/* Allocates an entry; returns its code, or -1 if out of memory.  Called under the lock. */
static int user_add(void)
{
    int i = 0;
    while (i < user.n && user.code[i].used)
        i++;
    if (i == user.cap) {
        int cap = user.cap ? 2 * user.cap : 16;
        struct user_code *more = realloc(user.code, (size_t)cap * sizeof *more);
        if (!more)
            return -1;
        user.code = more;
        user.cap = cap;
    }
    if (i == user.n)
        user.n++;
    user.code[i] = (struct user_code){ .used = true };
    if (USER_FIRST + i > user.last_used)
        user.last_used = USER_FIRST + i;
    return USER_FIRST + i;
}

int *wm_err_lastusedcode(void) { return &user.last_used; }

const char *wm_err_class_name(int errclass)
{
    const struct class_text *t = standard_class(errclass);
    return t ? t->name : NULL;
}

int wm_err_text(int errcode, char *text, int len)
{
    const struct class_text *t = standard_class(errcode);
    if (t)
        return snprintf(text, (size_t)len, "%s: %s", t->name, t->text);
    pthread_mutex_lock(&user.lock);
    const struct user_code *u = user_find(errcode);
    int n = u ? snprintf(text, (size_t)len, "%s", u->text ? u->text : "") : -1;
    pthread_mutex_unlock(&user.lock);
    return n;
}

int wm_err_class_of(int errcode)
{
    if (standard_class(errcode))
        return errcode;
    pthread_mutex_lock(&user.lock);
    const struct user_code *u = user_find(errcode);
    int cls = u ? u->cls : -1;
    pthread_mutex_unlock(&user.lock);
    return cls;
}

static int unknown_code(const char *what, int code)
{
    return wm_err(MPI_ERR_ARG,
                  "%s %d is not in the MPI standard, and this program has not added it", what,
                  code);
}

int wm_api_error_class(int errorcode, int *errorclass)
{
    int cls = wm_err_class_of(errorcode);
    if (cls < 0)
        return unknown_code("error code", errorcode);
    *errorclass = cls;
    return MPI_SUCCESS;
}

int wm_api_error_string(int errorcode, char *string, int *resultlen)
{
    int n = wm_err_text(errorcode, string, MPI_MAX_ERROR_STRING);
    if (n < 0)
        return unknown_code("error code", errorcode);
    *resultlen = (int)strlen(string);
    return MPI_SUCCESS;
}

int wm_api_add_error_class(int *errorclass)
{
    pthread_mutex_lock(&user.lock);
    int code = user_add();
    if (code >= 0) {
        user.code[code - USER_FIRST].is_class = true;
        user.code[code - USER_FIRST].cls = code;
    }
    pthread_mutex_unlock(&user.lock);
    if (code < 0)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another error class");
    *errorclass = code;
    return MPI_SUCCESS;
}

int wm_api_add_error_code(int errorclass, int *errorcode)
{
    int code = -1;
    pthread_mutex_lock(&user.lock);
    struct user_code *u = user_find(errorclass);
    bool known = standard_class(errorclass) || (u && u->is_class);
    if (known)
        code = user_add();
    if (code >= 0) {
        user.code[code - USER_FIRST].cls = errorclass;
        u = user_find(errorclass); /* the table may have moved */
        if (u)
            u->ncodes++;
    }
    pthread_mutex_unlock(&user.lock);
    if (!known)
        return unknown_code("error class", errorclass);
    if (code < 0)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another error code");
    *errorcode = code;
    return MPI_SUCCESS;
}

int wm_api_add_error_string(int errorcode, const char *string)
{
    if (standard_class(errorcode))
        return wm_err(MPI_ERR_ARG, "error code %d is of the standard: its text cannot be changed",
                      errorcode);
    if (strlen(string) >= MPI_MAX_ERROR_STRING)
        return wm_err(MPI_ERR_ARG, "the text has %zu characters, at most %d are allowed",
                      strlen(string), MPI_MAX_ERROR_STRING - 1);
    char *copy = strdup(string);
    if (!copy)
        return wm_err(MPI_ERR_NO_MEM, "no memory for an error string");
    pthread_mutex_lock(&user.lock);
    struct user_code *u = user_find(errorcode);
    if (u) {
        free(u->text);
        u->text = copy;
    }
    pthread_mutex_unlock(&user.lock);
    if (u)
        return MPI_SUCCESS;
    free(copy);
    return unknown_code("error code", errorcode);
}

/* Removal is in reverse order of addition: the text, then the code, then the class. */
static int text_left(const char *what, int errorcode)
{
    return wm_err(MPI_ERR_OTHER,
                  "error %s %d still has a text; remove it first with MPI_Remove_error_string",
                  what, errorcode);
}

int wm_api_remove_error_class(int errorclass)
{
    int ncodes = 0;
    bool has_text = false;
    pthread_mutex_lock(&user.lock);
    struct user_code *u = user_find(errorclass);
    if (u && !u->is_class)
        u = NULL;
    if (u) {
        ncodes = u->ncodes;
        has_text = u->text;
        if (!ncodes && !has_text)
            *u = (struct user_code){ .used = false };
    }
    pthread_mutex_unlock(&user.lock);
    if (!u)
        return wm_err(MPI_ERR_ARG, "error class %d was not added by this program", errorclass);
    if (ncodes)
        return wm_err(MPI_ERR_OTHER, "%d error codes still belong to class %d; remove them first",
                      ncodes, errorclass);
    return has_text ? text_left("class", errorclass) : MPI_SUCCESS;
}

int wm_api_remove_error_code(int errorcode)
{
    bool has_text = false;
    pthread_mutex_lock(&user.lock);
    struct user_code *u = user_find(errorcode);
    if (u && u->is_class)
        u = NULL;
    if (u)
        has_text = u->text;
    if (u && !has_text) {
        struct user_code *cls = user_find(u->cls);
        if (cls)
            cls->ncodes--;
        *u = (struct user_code){ .used = false };
    }
    pthread_mutex_unlock(&user.lock);
    if (!u)
        return wm_err(MPI_ERR_ARG, "error code %d was not added by this program", errorcode);
    return has_text ? text_left("code", errorcode) : MPI_SUCCESS;
}

int wm_api_remove_error_string(int errorcode)
{
    pthread_mutex_lock(&user.lock);
    struct user_code *u = user_find(errorcode);
    bool had = u && u->text;
    if (had) {
        free(u->text);
        u->text = NULL;
    }
    pthread_mutex_unlock(&user.lock);
    if (!had)
        return wm_err(MPI_ERR_ARG, "no text was added for error code %d", errorcode);
    return MPI_SUCCESS;
}
