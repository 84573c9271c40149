# SPDX-License-Identifier: BSD-3-Clause
"""What MPI-3.0 removed, for mpi.h: functions over those of the ABI for programs that define WEFT_MPI1
(mpicc -mpi1), and declarations whose use stops the compiler with the way out for all others.

The ABI has none of these names.  So the functions are in the header: a program that uses them runs
with each library of the ABI."""

import re

from table import wrap

# Handles of the range that the ABI keeps for datatypes and has not assigned.  The library refuses them:
# MPI_Type_struct() of the header replaces them by bounds.
MARKERS = {"MPI_LB": 0x2BE, "MPI_UB": 0x2BF}
REPLACED = {
    "MPI_LB": "MPI_Type_create_resized",
    "MPI_UB": "MPI_Type_create_resized",
    "MPI_COMBINER_HVECTOR_INTEGER": "MPI_COMBINER_HVECTOR",
    "MPI_COMBINER_HINDEXED_INTEGER": "MPI_COMBINER_HINDEXED",
    "MPI_COMBINER_STRUCT_INTEGER": "MPI_COMBINER_STRUCT",
    "MPI_Handler_function": "MPI_Comm_errhandler_function",
}
# Bodies by name; any other calls what replaces it, with the same arguments.
BODIES = {
    "MPI_Type_extent": """    MPI_Aint lb;
    return MPI_Type_get_extent(datatype, &lb, extent);
""",
    "MPI_Type_lb": """    MPI_Aint extent;
    return MPI_Type_get_extent(datatype, displacement, &extent);
""",
    "MPI_Type_ub": """    MPI_Aint lb;
    int err = MPI_Type_get_extent(datatype, &lb, displacement);
    if (!err)
        *displacement += lb;
    return err;
""",
    "MPI_Type_struct": """    return WEFT_Type_struct(count, array_of_blocklengths, array_of_displacements, array_of_types,
        newtype);
""",
}
TOP = """
/* What MPI-3.0 removed.  "mpicc -mpi1" defines WEFT_MPI1. */
#if defined(WEFT_MPI1)
#if defined(__GNUC__)
#define WEFT_REMOVED(use) __attribute__((deprecated("removed in MPI-3.0; use " use)))
#else
#define WEFT_REMOVED(use)
#endif
typedef WEFT_REMOVED("MPI_Comm_errhandler_function")
    MPI_Comm_errhandler_function MPI_Handler_function;
"""
STRUCT = """
/* A struct whose members may be MPI_LB and MPI_UB, which the ABI does not have: the bounds of a
 * resized type replace them. */
WEFT_INLINE int WEFT_Type_struct(int count, const int lengths[], const MPI_Aint displs[],
    const MPI_Datatype types[], MPI_Datatype *newtype)
{
    MPI_Datatype inner, *t;
    MPI_Aint lb = 0, ub = 0, first, extent, *d;
    int i, n = 0, has_lb = 0, has_ub = 0, err = MPI_ERR_NO_MEM, *l;

    for (i = 0; types && i < count; i++)
        n += types[i] != MPI_LB && types[i] != MPI_UB;
    if (count < 0 || n == count || !lengths || !displs || !types || !newtype)
        return MPI_Type_create_struct(count, lengths, displs, types, newtype);
    l = MPI_H_VALUE(int *, malloc(MPI_H_VALUE(size_t, n) * sizeof *l + 1));
    d = MPI_H_VALUE(MPI_Aint *, malloc(MPI_H_VALUE(size_t, n) * sizeof *d + 1));
    t = MPI_H_VALUE(MPI_Datatype *, malloc(MPI_H_VALUE(size_t, n) * sizeof *t + 1));
    n = 0;
    for (i = 0; l && d && t && i < count; i++) {
        if (types[i] == MPI_LB) {
            lb = has_lb && lb < displs[i] ? lb : displs[i];
            has_lb = 1;
        } else if (types[i] == MPI_UB) {
            ub = has_ub && ub > displs[i] ? ub : displs[i];
            has_ub = 1;
        } else {
            l[n] = lengths[i];
            d[n] = displs[i];
            t[n++] = types[i];
        }
    }
    if (l && d && t)
        err = MPI_Type_create_struct(n, l, d, t, &inner);
    free(l);
    free(d);
    free(t);
    if (err)
        return err;
    err = MPI_Type_get_extent(inner, &first, &extent);
    if (!has_lb)
        lb = first;
    if (!has_ub)
        ub = first + extent;
    if (!err)
        err = MPI_Type_create_resized(inner, lb, ub - lb, newtype);
    MPI_Type_free(&inner);
    return err;
}
"""
BETWEEN = """/* Programs of MPI-2 use the markers here, too. */
#define MPI_Type_create_struct WEFT_Type_struct

#elif defined(__has_attribute)
#define WEFT_REMOVED(use) "removed in MPI-3.0; use " use ", or compile with mpicc -mpi1"
"""
GONE = """#endif
/* No macros: programs ask for the constants with #ifdef.  Compilers that know no such attribute warn,
 * and the linker does not find the variables. */
#if __has_attribute(unavailable)
#define WEFT_GONE(use) __attribute__((unavailable(WEFT_REMOVED(use))))
#else
#define WEFT_GONE(use) __attribute__((deprecated(WEFT_REMOVED(use))))
#endif
"""


def replacement(proc):
    return REPLACED.get(proc.name) or re.search(r"replacement: (\w+)", proc.notes).group(1)


def prototype(proc):
    # The type's own name would raise its warning here.
    return proc.prototype().replace("MPI_Handler_function", "MPI_Comm_errhandler_function")


def functions(procs):
    out = ""
    for p in procs:
        args = ", ".join(q.name for q in p.params)
        call = wrap("    return %s(%s);" % (replacement(p), args)) + "\n"
        out += 'WEFT_REMOVED("%s")\n' % replacement(p)
        out += wrap("WEFT_INLINE " + prototype(p)) + "\n{\n%s}\n" % BODIES.get(p.name, call)
        out += "#define P%s %s\n" % (p.name, p.name)
    return out


def text(procs, constants):
    """procs, constants: those that the tables call removed."""
    names = [c["name"] for c in constants if c["name"] not in MARKERS]
    out = TOP
    for name, value in MARKERS.items():
        out += "#define %s MPI_H_ADDRESS(MPI_Datatype, 0x%x)\n" % (name, value)
    for i, name in enumerate(names):  # no datatype has these
        out += "#define %s (%d)\n" % (name, -1 - i)
    out += STRUCT + functions(procs) + BETWEEN
    out += "#if __has_attribute(error)\n"
    for p in procs:
        use = '__attribute__((error(WEFT_REMOVED("%s"))))' % replacement(p)
        out += "%s\n    %s;\n" % (wrap(prototype(p)), use)
    out += GONE
    gone = 'WEFT_GONE("%s")'
    for name in MARKERS:
        out += "extern MPI_Datatype %s %s;\n" % (name, gone % REPLACED[name])
    out += "enum {\n%s\n};\n" % ",\n".join(
        "    %s\n        %s = %d" % (name, gone % REPLACED[name], -1 - i) for i, name in enumerate(names)
    )
    name = "MPI_Handler_function"
    out += "typedef %s %s\n    %s;\n" % (REPLACED[name], name, gone % REPLACED[name])
    return out + "#endif\n"
