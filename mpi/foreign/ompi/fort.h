/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of Open MPI's ABI in Fortran; mpi/fortran/fort.h includes this. */
#ifndef WX_OMPI_FORT_H
#define WX_OMPI_FORT_H

#include "mpi/foreign/fortran.h"
#include "mpi/foreign/ompi/handles.h"

#define WX_TABLE_MPI_Comm wx_comm_of_fortran
#define WX_TABLE_MPI_Datatype wx_type_of_fortran
#define WX_TABLE_MPI_Errhandler wx_errh_of_fortran
#define WX_TABLE_MPI_File wx_file_of_fortran
#define WX_TABLE_MPI_Group wx_group_of_fortran
#define WX_TABLE_MPI_Info wx_info_of_fortran
#define WX_TABLE_MPI_Message wx_message_of_fortran
#define WX_TABLE_MPI_Op wx_op_of_fortran
#define WX_TABLE_MPI_Request wx_request_of_fortran
#define WX_TABLE_MPI_Session wx_session_of_fortran
#define WX_TABLE_MPI_Win wx_win_of_fortran

#define wf_h(type, x) ((type)wx_of_fortran(WX_TABLE_##type, x))
#define wf_i(handle) wx_to_fortran(handle)
#define wf_keyval(x) (x)

/* Its module mpi_f08 has procedures of its own as predefined callbacks. */
#define WF_CALLBACK(function, name) \
    extern __typeof__(function) wx_f08_##name __asm__("__mpi_f08_callbacks_MOD_" #name) \
        __attribute__((alias(#function), visibility("default")));

#endif
