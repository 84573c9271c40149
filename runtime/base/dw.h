/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of libdw (elfutils) that find the source lines and variables of a process and walk
 * its stack.
 * The library is opened at run time, so neither a build nor an installation needs it. */
#ifndef RT_BASE_DW_H
#define RT_BASE_DW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RT_DW_SO "libdw.so.1"

/* Objects of the library; only it looks inside. */
struct dwfl;        /* a process */
struct dwfl_module; /* a file that the process maps */
struct dwfl_frame;
struct dwarf_line;

/* A unit, function, variable, type (Dwarf_Die), and an attribute of one (Dwarf_Attribute). */
struct dwarf_die {
    void *addr, *unit, *abbrev;
    long padding;
};
struct dwarf_attr {
    unsigned code, form;
    unsigned char *value;
    void *unit;
};
struct dwarf_op { /* of an expression (Dwarf_Op) */
    uint8_t atom;
    uint64_t number, number2, offset;
};

typedef int dw_find_elf(struct dwfl_module *mod, void **userdata, const char *name, uint64_t base,
                        char **file_p, void **elf_p);
typedef int dw_find_debuginfo(struct dwfl_module *mod, void **userdata, const char *name,
                              uint64_t base, const char *file, const char *link, uint32_t crc,
                              char **file_p);
typedef int dw_each_module(struct dwfl_module *mod, void **userdata, const char *name,
                           uint64_t base, void *arg);
typedef int dw_each_frame(struct dwfl_frame *frame, void *arg);

struct dw_callbacks { /* Dwfl_Callbacks */
    dw_find_elf *find_elf;
    dw_find_debuginfo *find_debuginfo;
    void *section_address; /* for relocatable files only */
    char **debuginfo_path;
};

/* F(name, result, parameters) */
#define DW_FUNCTIONS(F) \
    F(dwfl_begin, struct dwfl *, (const struct dw_callbacks *)) \
    F(dwfl_end, void, (struct dwfl *)) \
    F(dwfl_errmsg, const char *, (int)) \
    F(dwfl_linux_proc_report, int, (struct dwfl *, pid_t)) \
    F(dwfl_report_end, int, (struct dwfl *, void *, void *)) \
    F(dwfl_linux_proc_find_elf, int, \
      (struct dwfl_module *, void **, const char *, uint64_t, char **, void **)) \
    F(dwfl_build_id_find_debuginfo, int, \
      (struct dwfl_module *, void **, const char *, uint64_t, const char *, const char *, \
       uint32_t, char **)) \
    F(dwfl_getmodules, ptrdiff_t, (struct dwfl *, dw_each_module *, void *, ptrdiff_t)) \
    F(dwfl_addrmodule, struct dwfl_module *, (struct dwfl *, uint64_t)) \
    F(dwfl_module_info, const char *, \
      (struct dwfl_module *, void ***, uint64_t *, uint64_t *, uint64_t *, uint64_t *, \
       const char **, const char **)) \
    F(dwfl_module_addrname, const char *, (struct dwfl_module *, uint64_t)) \
    F(dwfl_module_nextcu, struct dwarf_die *, \
      (struct dwfl_module *, struct dwarf_die *, uint64_t *)) \
    F(dwarf_haspc, int, (struct dwarf_die *, uint64_t)) \
    F(dwarf_getscopes, int, (struct dwarf_die *, uint64_t, struct dwarf_die **)) \
    F(dwarf_child, int, (struct dwarf_die *, struct dwarf_die *)) \
    F(dwarf_siblingof, int, (struct dwarf_die *, struct dwarf_die *)) \
    F(dwarf_tag, int, (struct dwarf_die *)) \
    F(dwarf_diename, const char *, (struct dwarf_die *)) \
    F(dwarf_attr_integrate, struct dwarf_attr *, \
      (struct dwarf_die *, unsigned, struct dwarf_attr *)) \
    F(dwarf_formref_die, struct dwarf_die *, (struct dwarf_attr *, struct dwarf_die *)) \
    F(dwarf_formudata, int, (struct dwarf_attr *, uint64_t *)) \
    F(dwarf_getlocation, int, (struct dwarf_attr *, struct dwarf_op **, size_t *)) \
    F(dwarf_peel_type, int, (struct dwarf_die *, struct dwarf_die *)) \
    F(dwarf_aggregate_size, int, (struct dwarf_die *, uint64_t *)) \
    F(dwarf_getsrc_die, struct dwarf_line *, (struct dwarf_die *, uint64_t)) \
    F(dwarf_linesrc, const char *, (struct dwarf_line *, uint64_t *, uint64_t *)) \
    F(dwarf_lineno, int, (struct dwarf_line *, int *)) \
    F(dwfl_linux_proc_attach, int, (struct dwfl *, pid_t, bool)) \
    F(dwfl_getthread_frames, int, (struct dwfl *, pid_t, dw_each_frame *, void *)) \
    F(dwfl_frame_pc, bool, (struct dwfl_frame *, uint64_t *, bool *))

struct rt_dw {
#define DW_FIELD(name, result, params) result(*name) params;
    DW_FUNCTIONS(DW_FIELD)
#undef DW_FIELD
};

/* Opens the library `so`, which stays open until this process ends, and fills the table.  False:
 * `why` says which package has it. */
bool rt_dw_open(const char *so, struct rt_dw *out, char *why, size_t len);

#endif
