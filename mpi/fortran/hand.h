/* SPDX-License-Identifier: BSD-3-Clause */
/* The f_x() that are written by hand: the generated entry points call them.  `fn` is the C
 * procedure MPI_X or PMPI_X. */
#ifndef WF_HAND_H
#define WF_HAND_H

#include "mpi/fortran/fort.h"

/* A Fortran procedure that a program passes: called by its real type. */
typedef void wf_procedure(void);

/* Fortran's predefined callbacks are procedures; predefined.c defines them and knows their
 * addresses. */
enum wf_predefined { WF_NULL_COPY, WF_DUP, WF_NULL_DELETE, WF_NO_CONVERSION };
bool wf_is_predefined(wf_procedure *function, enum wf_predefined which);

/* misc.c */
void f_init(__typeof__(MPI_Init) *fn, wf_int *ierror);
void f_init_thread(__typeof__(MPI_Init_thread) *fn, const wf_int *required, wf_int *provided,
                   wf_int *ierror);
void f_session_init(__typeof__(MPI_Session_init) *fn, const wf_int *info, const wf_int *errhandler,
                    wf_int *session, wf_int *ierror);
void f_comm_iagree(__typeof__(MPIX_Comm_iagree) *fn, const wf_int *comm, wf_int *flag,
                   wf_int *request, wf_int *ierror);
void f_abi_get_fortran_booleans(__typeof__(MPI_Abi_get_fortran_booleans) *fn,
                                const wf_int *logical_size, wf_int *logical_true,
                                wf_int *logical_false, wf_int *is_set, wf_int *ierror);
void f_abi_set_fortran_booleans(__typeof__(MPI_Abi_set_fortran_booleans) *fn,
                                const wf_int *logical_size, const wf_int *logical_true,
                                const wf_int *logical_false, wf_int *ierror);
void f_f_sync_reg(void *buf);
void f_status_f2f08(wf_int *f_status, wf_int *f08_status, wf_int *ierror);
void f_status_f082f(wf_int *f08_status, wf_int *f_status, wf_int *ierror);
void f_info_create_env(__typeof__(MPI_Info_create_env) *fn, wf_int *info, wf_int *ierror);
void f_info_get(__typeof__(MPI_Info_get) *fn, const wf_int *info, const char *key,
                const wf_int *valuelen, char *value, wf_int *flag, wf_int *ierror, size_t key_len,
                size_t value_len);
void f_info_get_string(__typeof__(MPI_Info_get_string) *fn, const wf_int *info, const char *key,
                       wf_int *buflen, char *value, wf_int *flag, wf_int *ierror, size_t key_len,
                       size_t value_len);
void f_session_get_nth_pset(__typeof__(MPI_Session_get_nth_pset) *fn, const wf_int *session,
                            const wf_int *info, const wf_int *n, wf_int *pset_len, char *pset_name,
                            wf_int *ierror, size_t pset_name_len);
void f_comm_spawn(__typeof__(MPI_Comm_spawn) *fn, const char *command, const char *argv,
                  const wf_int *maxprocs, const wf_int *info, const wf_int *root,
                  const wf_int *comm, wf_int *intercomm, wf_int *array_of_errcodes, wf_int *ierror,
                  size_t command_len, size_t argv_len);
void f_comm_spawn_multiple(__typeof__(MPI_Comm_spawn_multiple) *fn, const wf_int *count,
                           const char *array_of_commands, const char *array_of_argv,
                           const wf_int *array_of_maxprocs, const wf_int *array_of_info,
                           const wf_int *root, const wf_int *comm, wf_int *intercomm,
                           wf_int *array_of_errcodes, wf_int *ierror, size_t array_of_commands_len,
                           size_t array_of_argv_len);

/* callback.c */
void f_op_create(__typeof__(MPI_Op_create) *fn, wf_procedure *user_fn, const wf_int *commute,
                 wf_int *op, wf_int *ierror);
void f_op_create_c(__typeof__(MPI_Op_create_c) *fn, wf_procedure *user_fn, const wf_int *commute,
                   wf_int *op, wf_int *ierror);
void f_comm_create_errhandler(__typeof__(MPI_Comm_create_errhandler) *fn,
                              wf_procedure *comm_errhandler_fn, wf_int *errhandler, wf_int *ierror);
void f_win_create_errhandler(__typeof__(MPI_Win_create_errhandler) *fn,
                             wf_procedure *win_errhandler_fn, wf_int *errhandler, wf_int *ierror);
void f_file_create_errhandler(__typeof__(MPI_File_create_errhandler) *fn,
                              wf_procedure *file_errhandler_fn, wf_int *errhandler, wf_int *ierror);
void f_session_create_errhandler(__typeof__(MPI_Session_create_errhandler) *fn,
                                 wf_procedure *session_errhandler_fn, wf_int *errhandler,
                                 wf_int *ierror);
void f_grequest_start(__typeof__(MPI_Grequest_start) *fn, wf_procedure *query_fn,
                      wf_procedure *free_fn, wf_procedure *cancel_fn, const MPI_Aint *extra_state,
                      wf_int *request, wf_int *ierror);
void f_register_datarep(__typeof__(MPI_Register_datarep) *fn, const char *datarep,
                        wf_procedure *read_conversion_fn, wf_procedure *write_conversion_fn,
                        wf_procedure *dtype_file_extent_fn, const MPI_Aint *extra_state,
                        wf_int *ierror, size_t datarep_len);
void f_register_datarep_c(__typeof__(MPI_Register_datarep_c) *fn, const char *datarep,
                          wf_procedure *read_conversion_fn, wf_procedure *write_conversion_fn,
                          wf_procedure *dtype_file_extent_fn, const MPI_Aint *extra_state,
                          wf_int *ierror, size_t datarep_len);

/* attr.c */
void f_comm_create_keyval(__typeof__(MPI_Comm_create_keyval) *fn, wf_procedure *comm_copy_attr_fn,
                          wf_procedure *comm_delete_attr_fn, wf_int *comm_keyval,
                          const MPI_Aint *extra_state, wf_int *ierror);
void f_type_create_keyval(__typeof__(MPI_Type_create_keyval) *fn, wf_procedure *type_copy_attr_fn,
                          wf_procedure *type_delete_attr_fn, wf_int *type_keyval,
                          const MPI_Aint *extra_state, wf_int *ierror);
void f_win_create_keyval(__typeof__(MPI_Win_create_keyval) *fn, wf_procedure *win_copy_attr_fn,
                         wf_procedure *win_delete_attr_fn, wf_int *win_keyval,
                         const MPI_Aint *extra_state, wf_int *ierror);
void f_keyval_create(__typeof__(MPI_Keyval_create) *fn, wf_procedure *copy_fn,
                     wf_procedure *delete_fn, wf_int *keyval, const wf_int *extra_state,
                     wf_int *ierror);
void f_comm_set_attr(__typeof__(MPI_Comm_set_attr) *fn, const wf_int *comm,
                     const wf_int *comm_keyval, const MPI_Aint *attribute_val, wf_int *ierror);
void f_type_set_attr(__typeof__(MPI_Type_set_attr) *fn, const wf_int *datatype,
                     const wf_int *type_keyval, const MPI_Aint *attribute_val, wf_int *ierror);
void f_win_set_attr(__typeof__(MPI_Win_set_attr) *fn, const wf_int *win, const wf_int *win_keyval,
                    const MPI_Aint *attribute_val, wf_int *ierror);
void f_attr_put(__typeof__(MPI_Attr_put) *fn, const wf_int *comm, const wf_int *keyval,
                const wf_int *attribute_val, wf_int *ierror);
void f_comm_get_attr(__typeof__(MPI_Comm_get_attr) *fn, const wf_int *comm,
                     const wf_int *comm_keyval, MPI_Aint *attribute_val, wf_int *flag,
                     wf_int *ierror);
void f_type_get_attr(__typeof__(MPI_Type_get_attr) *fn, const wf_int *datatype,
                     const wf_int *type_keyval, MPI_Aint *attribute_val, wf_int *flag,
                     wf_int *ierror);
void f_win_get_attr(__typeof__(MPI_Win_get_attr) *fn, const wf_int *win, const wf_int *win_keyval,
                    MPI_Aint *attribute_val, wf_int *flag, wf_int *ierror);
void f_attr_get(__typeof__(MPI_Attr_get) *fn, const wf_int *comm, const wf_int *keyval,
                wf_int *attribute_val, wf_int *flag, wf_int *ierror);

#endif
