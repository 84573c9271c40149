/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --tool: the variables, events and categories of the tool information interface, read
 * through that interface as by any tool.  One thread. */
#include "launcher/info/info.h"
#include "mpi.h"

#include <string.h>

#define NAME 64
#define TEXT 1024

static const char *const scopes[] = { "",      "constant", "readonly", "local",
                                      "group", "group_eq", "all",      "all_eq" };
static const char *const classes[] = { "",           "state",          "level",         "size",
                                       "percentage", "high_watermark", "low_watermark", "counter",
                                       "aggregate",  "timer",          "generic" };

static const char *type_name(MPI_Datatype t)
{
    return t == MPI_CHAR                 ? "char"
           : t == MPI_INT                ? "int"
           : t == MPI_COUNT              ? "count"
           : t == MPI_DOUBLE             ? "double"
           : t == MPI_UNSIGNED_LONG_LONG ? "unsigned long long"
                                         : "?";
}

static void explain(bool verbose, const char *desc)
{
    if (verbose)
        printf("      %s\n", desc);
}

/* The value as text; for an enumeration, the name of the item. */
static void cvar_value(int i, MPI_Datatype type, MPI_T_enum e, char *text, int len)
{
    MPI_T_cvar_handle h;
    MPI_Count wide;
    int n, count;
    if (MPI_T_cvar_handle_alloc(i, NULL, &h, &count) != MPI_SUCCESS)
        return;
    if (type == MPI_CHAR && count <= len) {
        MPI_T_cvar_read(h, text);
    } else if (type == MPI_COUNT) {
        MPI_T_cvar_read(h, &wide);
        snprintf(text, (size_t)len, "%lld", (long long)wide);
    } else {
        MPI_T_cvar_read(h, &n);
        snprintf(text, (size_t)len, "%d", n);
        if (e != MPI_T_ENUM_NULL)
            MPI_T_enum_get_item(e, n, NULL, text, &len);
    }
    MPI_T_cvar_handle_free(&h);
}

static void show_cvars(bool verbose)
{
    int n = 0;
    MPI_T_cvar_get_num(&n);
    printf("Control variables\n");
    for (int i = 0; i < n; i++) {
        char name[NAME], desc[TEXT], text[TEXT] = "";
        int name_len = NAME, desc_len = TEXT, scope = 0;
        MPI_Datatype type;
        MPI_T_enum e;
        MPI_T_cvar_get_info(i, name, &name_len, NULL, &type, &e, desc, &desc_len, NULL, &scope);
        cvar_value(i, type, e, text, TEXT);
        printf("  %-24s %-20s %-8s %s\n", name, type_name(type), scopes[scope], text);
        explain(verbose, desc);
    }
}

static void show_pvars(bool verbose)
{
    int n = 0;
    MPI_T_pvar_get_num(&n);
    printf("\nPerformance variables\n");
    for (int i = 0; i < n; i++) {
        char name[NAME], desc[TEXT];
        int name_len = NAME, desc_len = TEXT, cls, bind, readonly;
        MPI_Datatype type;
        MPI_T_pvar_get_info(i, name, &name_len, NULL, &cls, &type, NULL, desc, &desc_len, &bind,
                            &readonly, NULL, NULL);
        printf("  %-24s %-20s %-14s%s%s\n", name, type_name(type), classes[cls],
               readonly ? " read-only" : "",
               bind == MPI_T_BIND_MPI_COMM ? ", of a communicator" : "");
        explain(verbose, desc);
    }
}

static void show_events(bool verbose)
{
    int n = 0;
    MPI_T_event_get_num(&n);
    printf("\nEvents\n");
    for (int i = 0; i < n; i++) {
        char name[NAME], desc[TEXT];
        int name_len = NAME, desc_len = TEXT, elements = 0;
        MPI_T_enum e;
        MPI_T_event_get_info(i, name, &name_len, NULL, NULL, NULL, &elements, &e, NULL, desc,
                             &desc_len, NULL);
        printf("  %-24s", name);
        for (int k = 0; k < elements; k++) {
            char item[NAME];
            int len = NAME;
            MPI_T_enum_get_item(e, k, NULL, item, &len);
            printf(" %s", item);
        }
        printf("\n");
        explain(verbose, desc);
    }
}

static void show_category(int cat, int depth)
{
    char name[NAME], desc[TEXT];
    int name_len = NAME, desc_len = TEXT, cvars, pvars, children, events, list[NAME];
    MPI_T_category_get_info(cat, name, &name_len, desc, &desc_len, &cvars, &pvars, &children);
    MPI_T_category_get_num_events(cat, &events);
    printf("  %*s%-*s %2d control, %2d performance, %d events  %s\n", 2 * depth, "", 24 - 2 * depth,
           name, cvars, pvars, events, desc);
    children = children < NAME ? children : NAME;
    MPI_T_category_get_categories(cat, children, list);
    for (int i = 0; i < children; i++)
        show_category(list[i], depth + 1);
}

int info_tool(bool verbose)
{
    int root;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, NULL) != MPI_SUCCESS)
        return 1;
    show_cvars(verbose);
    show_pvars(verbose);
    show_events(verbose);
    printf("\nCategories\n");
    if (MPI_T_category_get_index("weft", &root) == MPI_SUCCESS)
        show_category(root, 0);
    return MPI_T_finalize() == MPI_SUCCESS ? 0 : 1;
}
