# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/datatype/type.h mpi/datatype/predef.h mpi/datatype/f90.h mpi/datatype/recipe.h
core_sources += mpi/datatype/make.h mpi/datatype/make.c mpi/datatype/array.c mpi/datatype/predef.c mpi/datatype/recipe.c mpi/datatype/type.c
core_sources += mpi/datatype/darray.c mpi/datatype/f90.c mpi/datatype/signature.h mpi/datatype/signature.c
dist_man_MANS += mpi/datatype/MPIX_FLOAT16.3
core_sources += mpi/op/op.h mpi/op/op.c
