// SPDX-License-Identifier: BSD-3-Clause
// What cxx.cc needs of Open MPI's C++ bindings, where its own mpi.h is not there: classes with the
// same names, layouts and symbols.  Functions that are inline in Open MPI are inline here.
#ifndef TEST_FOREIGN_CXX_H
#define TEST_FOREIGN_CXX_H

extern "C" {
#include "mpi.h"
typedef void cxx_c_function(void *, void *, int *, MPI_Datatype *);
void ompi_mpi_cxx_op_intercept(void *, void *, int *, MPI_Datatype *, cxx_c_function *);
void ompi_op_set_cxx_callback(MPI_Op, cxx_c_function *);
int ompi_mpi_cxx_grequest_query_fn_intercept(void *, MPI_Status *);
int ompi_mpi_cxx_grequest_free_fn_intercept(void *);
int ompi_mpi_cxx_grequest_cancel_fn_intercept(void *, int);
}

namespace MPI
{
void InitializeIntercepts();
extern int mpi_errno;
extern void *const IN_PLACE;
typedef MPI_Aint Aint;

inline void Init(int &argc, char **&argv)
{
    MPI_Init(&argc, &argv);
    InitializeIntercepts();
}
inline void Finalize() { MPI_Finalize(); }

class Comm_Null
{
  public:
    Comm_Null(MPI_Comm c) : mpi_comm(c) {}
    Comm_Null() : mpi_comm(MPI_COMM_NULL) {}
    virtual ~Comm_Null() {}
    operator MPI_Comm() const { return mpi_comm; }

  protected:
    MPI_Comm mpi_comm;
};

class Errhandler
{
  public:
    Errhandler(MPI_Errhandler e) : mpi_errhandler(e) {}
    Errhandler(const Errhandler &e) : mpi_errhandler(e.mpi_errhandler) {}
    virtual ~Errhandler() {}
    operator MPI_Errhandler() const { return mpi_errhandler; }
    virtual void Free() { MPI_Errhandler_free(&mpi_errhandler); }

  private:
    MPI_Errhandler mpi_errhandler;
};

class Datatype
{
  public:
    Datatype(MPI_Datatype t) : mpi_datatype(t) {}
    Datatype(const Datatype &t) : mpi_datatype(t.mpi_datatype) {}
    virtual ~Datatype() {}
    operator MPI_Datatype() const { return mpi_datatype; }
    virtual Datatype Create_contiguous(int n) const;
    virtual int Get_size() const
    {
        int n;
        MPI_Type_size(mpi_datatype, &n);
        return n;
    }
    virtual void Commit() { MPI_Type_commit(&mpi_datatype); }
    virtual void Free();

  private:
    MPI_Datatype mpi_datatype;
};

// The first virtual function is not inline in its class, but becomes so: each file that uses the
// class then has its virtual functions, and no symbol of Free is needed for them.
inline Datatype Datatype::Create_contiguous(int n) const
{
    MPI_Datatype made;
    MPI_Type_contiguous(n, mpi_datatype, &made);
    return made;
}

class Op
{
  public:
    typedef void User_function(const void *, void *, int, const Datatype &);
    Op(MPI_Op o = MPI_OP_NULL) : mpi_op(o) {}
    Op(const Op &o) : mpi_op(o.mpi_op) {}
    virtual ~Op() {}
    operator MPI_Op() const { return mpi_op; }
    virtual void Init(User_function *user, bool commutes)
    {
        MPI_Op_create((cxx_c_function *)ompi_mpi_cxx_op_intercept, commutes, &mpi_op);
        ompi_op_set_cxx_callback(mpi_op, (cxx_c_function *)user);
    }
    virtual void Free() { MPI_Op_free(&mpi_op); }

  private:
    MPI_Op mpi_op;
};

class Comm : public Comm_Null
{
  public:
    typedef void Errhandler_function(Comm &, int *, ...);
    typedef int Copy_attr_function(const Comm &, int, void *, void *, void *, bool &);
    typedef int Delete_attr_function(Comm &, int, void *, void *);
    Comm();
    Comm(const Comm_Null &from);
    Comm(const Comm &from) : Comm_Null(from.mpi_comm) {}
    Comm(MPI_Comm c) : Comm_Null(c) {}
    virtual int Get_rank() const
    {
        int rank;
        MPI_Comm_rank(mpi_comm, &rank);
        return rank;
    }
    virtual int Get_size() const
    {
        int n;
        MPI_Comm_size(mpi_comm, &n);
        return n;
    }
    virtual void Send(const void *buf, int n, const Datatype &type, int to, int tag) const
    {
        MPI_Send(buf, n, type, to, tag, mpi_comm);
    }
    virtual void Free() { MPI_Comm_free(&mpi_comm); }
    virtual Comm &Clone() const = 0;
    static Errhandler Create_errhandler(Errhandler_function *user);
    void Set_errhandler(const Errhandler &e) { MPI_Comm_set_errhandler(mpi_comm, e); }
    static int Create_keyval(Copy_attr_function *copy, Delete_attr_function *del, void *extra)
    {
        int key;
        do_create_keyval(0, 0, copy, del, extra, key);
        return key;
    }
    static void Free_keyval(int &key) { MPI_Comm_free_keyval(&key); }
    void Set_attr(int key, const void *value) const
    {
        MPI_Comm_set_attr(mpi_comm, key, (void *)value);
    }
    bool Get_attr(int key, void *value) const
    {
        int flag;
        MPI_Comm_get_attr(mpi_comm, key, value, &flag);
        return flag;
    }

  protected:
    static int do_create_keyval(int (*)(MPI_Comm, int, void *, void *, void *, int *),
                                int (*)(MPI_Comm, int, void *, void *), Copy_attr_function *,
                                Delete_attr_function *, void *, int &);
};

class Intracomm : public Comm
{
  public:
    Intracomm() {}
    Intracomm(MPI_Comm c) : Comm(c) {}
    Intracomm(const Comm_Null &c) : Comm(c) {}
    virtual void Allreduce(const void *in, void *out, int n, const Datatype &type,
                           const Op &op) const
    {
        MPI_Allreduce(in, out, n, type, op, mpi_comm);
    }
    Intracomm Dup() const
    {
        MPI_Comm made;
        MPI_Comm_dup(mpi_comm, &made);
        return Intracomm(made);
    }
    Intracomm &Clone() const { return *new Intracomm(Dup()); }
};
class Intercomm : public Comm
{
    Intercomm &Clone() const { return *new Intercomm; }
};
class Cartcomm : public Intracomm
{
};

class Info
{
  public:
    virtual ~Info() {}
    MPI_Info mpi_info;
};

class Win
{
  public:
    Win(MPI_Win w) : mpi_win(w) {}
    virtual ~Win() {}
    operator MPI_Win() const { return mpi_win; }
    static Win Create(const void *base, Aint size, int unit, const Info &info,
                      const Intracomm &comm)
    {
        MPI_Win made;
        MPI_Win_create((void *)base, size, unit, info.mpi_info, comm, &made);
        return made;
    }
    virtual void Fence(int assertion) const;
    virtual void Free();

  private:
    MPI_Win mpi_win;
};
inline void Win::Fence(int assertion) const { MPI_Win_fence(assertion, mpi_win); }

class Status
{
  public:
    virtual ~Status() {}
    void Set_tag(int tag) { mpi_status.MPI_TAG = tag; }
    int Get_tag() const { return mpi_status.MPI_TAG; }
    MPI_Status mpi_status;
};

class Request
{
  public:
    Request(MPI_Request r) : mpi_request(r) {}
    virtual ~Request() {}
    void Wait(Status &s) { MPI_Wait(&mpi_request, &s.mpi_status); }

  protected:
    MPI_Request mpi_request;
};

class Grequest : public Request
{
  public:
    Grequest(MPI_Request r) : Request(r) {}
    static Grequest Start(int (*query)(void *, Status &), int (*release)(void *),
                          int (*cancel)(void *, bool), void *extra)
    {
        struct data {
            void *extra;
            int (*query)(void *, Status &);
            int (*release)(void *);
            int (*cancel)(void *, bool);
        };
        MPI_Request made;
        MPI_Grequest_start(ompi_mpi_cxx_grequest_query_fn_intercept,
                           ompi_mpi_cxx_grequest_free_fn_intercept,
                           ompi_mpi_cxx_grequest_cancel_fn_intercept,
                           new data{ extra, query, release, cancel }, &made);
        return made;
    }
    void Complete() { MPI_Grequest_complete(mpi_request); }
};

extern Intracomm COMM_WORLD, COMM_SELF;
extern const Datatype INT, DOUBLE;
extern const Op SUM, MAX;
extern const Info INFO_NULL;
extern const Errhandler ERRORS_RETURN, ERRORS_THROW_EXCEPTIONS;
} // namespace MPI

#endif
