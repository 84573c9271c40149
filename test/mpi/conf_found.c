/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults that programs of others found (docs/PROGRAMS.md), a case each, written from the rule of
 * MPI-5.0 that was broken. */
#include "test/mpi/mpitest.h"

/* MPI-5.0 section 7.8: the name of a null handle is the name of the constant. */
static void null_handles_have_names(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int len = -1;

    OK(MPI_Comm_get_name(MPI_COMM_NULL, name, &len));
    CHECK_STR(name, "MPI_COMM_NULL");
    CHECK_EQ(len, (int)strlen(name));
    OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &len));
    CHECK_STR(name, "MPI_DATATYPE_NULL");
    CHECK_EQ(len, (int)strlen(name));
}

/* MPI-5.0 section 5.1.12: absolute addresses with MPI_BOTTOM.  Both buffers of a collective are
 * then the same pointer without being the same memory. */
static MPI_Datatype absolute(const int *v)
{
    int one = 1;
    MPI_Aint at;
    MPI_Datatype type = MPI_INT, made;

    OK(MPI_Get_address(v, &at));
    OK(MPI_Type_create_struct(1, &one, &at, &type, &made));
    OK(MPI_Type_commit(&made));
    return made;
}

static void collectives_from_bottom(void)
{
    enum { MAX_RANKS = 64 };
    int in[MAX_RANKS], out[MAX_RANKS], n[MAX_RANKS], at[MAX_RANKS], i;
    MPI_Datatype from[MAX_RANKS], to[MAX_RANKS];

    if (mt_size > MAX_RANKS)
        return;
    for (i = 0; i < mt_size; i++) {
        in[i] = 100 * mt_rank + i;
        out[i] = -1;
        n[i] = 1;
        at[i] = 0;
        from[i] = absolute(&in[i]);
        to[i] = absolute(&out[i]);
    }
    OK(MPI_Alltoallw(MPI_BOTTOM, n, at, from, MPI_BOTTOM, n, at, to, mt_comm));
    for (i = 0; i < mt_size; i++)
        CHECK_EQ(out[i], 100 * i + mt_rank);
    if (mt_size == 1) { /* elsewhere blocks of these types would overlap */
        out[0] = -1;
        OK(MPI_Allgather(MPI_BOTTOM, 1, from[0], MPI_BOTTOM, 1, to[0], mt_comm));
        CHECK_EQ(out[0], in[0]);
    }
    for (i = 0; i < mt_size; i++) {
        OK(MPI_Type_free(&from[i]));
        OK(MPI_Type_free(&to[i]));
    }
}

/* MPI-5.0 section 8.6.5: displacements in bytes, which may be absolute addresses too. */
static void neighbours_at_addresses(void)
{
    int in[2] = { 2 * mt_rank, 2 * mt_rank + 1 }, out[2] = { -1, -1 }, n[2] = { 1, 1 }, i;
    int periodic = 1, left = (mt_rank + mt_size - 1) % mt_size, right = (mt_rank + 1) % mt_size;
    MPI_Aint from[2], to[2];
    MPI_Datatype types[2] = { MPI_INT, MPI_INT };
    MPI_Comm ring;

    for (i = 0; i < 2; i++) {
        OK(MPI_Get_address(&in[i], &from[i]));
        OK(MPI_Get_address(&out[i], &to[i]));
    }
    OK(MPI_Cart_create(mt_comm, 1, &mt_size, &periodic, 0, &ring));
    OK(MPI_Neighbor_alltoallw(MPI_BOTTOM, n, from, types, MPI_BOTTOM, n, to, types, ring));
    CHECK_EQ(out[0], 2 * left + 1);
    CHECK_EQ(out[1], 2 * right);
    OK(MPI_Comm_free(&ring));
}

/* MPI-5.0 section 19.3.4; without these procedures a program that Fortran calls does not
 * compile. */
static void fortran_handles(void)
{
    MPI_Fint comm = MPI_Comm_c2f(mt_comm), type = MPI_Type_c2f(MPI_INT), f[MPI_F_STATUS_SIZE];
    MPI_Status in, out;
    char got[32];
    int count = 0;

    CHECK(MPI_Comm_f2c(comm) == mt_comm);
    CHECK(MPI_Type_f2c(type) == MPI_INT);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_NULL)) == MPI_COMM_NULL);
    CHECK(PMPI_Comm_c2f(mt_comm) == comm && PMPI_Type_f2c(type) == MPI_INT);
    OK(MPI_Sendrecv("five", 5, MPI_CHAR, mt_rank, 7, got, 32, MPI_CHAR, mt_rank, 7, mt_comm, &out));
    OK(MPI_Status_c2f(&out, f));
    CHECK_EQ(f[MPI_F_SOURCE], mt_rank);
    CHECK_EQ(f[MPI_F_TAG], 7);
    OK(PMPI_Status_f2c(f, &in));
    OK(MPI_Get_count(&in, MPI_CHAR, &count));
    CHECK_EQ(count, 5);
}

/* MPI-5.0 section 19.3.5: a status through all three languages, and the constants that Fortran
 * passes, which no status of C is. */
static void fortran_statuses(void)
{
    int (*const to_f08[])(const MPI_Status *, MPI_F08_status *) = { MPI_Status_c2f08,
                                                                    PMPI_Status_c2f08 };
    MPI_Fint f[MPI_F_STATUS_SIZE];
    MPI_F08_status f08, again;
    MPI_Status in, out;
    char got[32];
    int count = 0;

    OK(MPI_Sendrecv("five", 5, MPI_CHAR, mt_rank, 7, got, 32, MPI_CHAR, mt_rank, 7, mt_comm, &out));
    for (int i = 0; i < 2; i++) {
        memset(&f08, 0, sizeof f08);
        memset(&in, 0, sizeof in);
        OK(to_f08[i](&out, &f08));
        CHECK_EQ(f08.MPI_SOURCE, mt_rank);
        CHECK_EQ(f08.MPI_TAG, 7);
        OK(MPI_Status_f082f(&f08, f));
        OK(PMPI_Status_f2f08(f, &again));
        OK(MPI_Status_f082c(&again, &in));
        OK(MPI_Get_count(&in, MPI_CHAR, &count));
        CHECK_EQ(count, 5);
    }
    CHECK(MPI_F_STATUS_IGNORE && MPI_F_STATUS_IGNORE != f && MPI_F_STATUSES_IGNORE != f);
    CHECK(MPI_F_STATUSES_IGNORE && MPI_F_STATUSES_IGNORE != MPI_F_STATUS_IGNORE);
    CHECK(MPI_F08_STATUS_IGNORE && MPI_F08_STATUS_IGNORE != &f08);
    CHECK(MPI_F08_STATUSES_IGNORE && MPI_F08_STATUSES_IGNORE != MPI_F08_STATUS_IGNORE);
}

/* MPI-5.0 section 9.5: user-defined errors are removed in the reverse order of their making. */
static void error_texts_go_first(void)
{
    int cls, code, len;
    char text[MPI_MAX_ERROR_STRING];

    OK(MPI_Add_error_class(&cls));
    OK(MPI_Add_error_string(cls, "torn"));
    OK(MPI_Add_error_code(cls, &code));
    OK(MPI_Add_error_string(code, "frayed"));
    FAILS(MPI_Remove_error_code(code), MPI_ERR_OTHER);
    OK(MPI_Error_string(code, text, &len));
    CHECK_STR(text, "frayed");
    OK(MPI_Remove_error_string(code));
    OK(MPI_Remove_error_code(code));
    FAILS(MPI_Remove_error_class(cls), MPI_ERR_OTHER);
    OK(MPI_Remove_error_string(cls));
    OK(MPI_Remove_error_class(cls));
}

static void check_type_name(MPI_Datatype t, const char *want)
{
    char name[MPI_MAX_OBJECT_NAME];
    int len = -1;

    OK(MPI_Type_get_name(t, name, &len));
    CHECK_STR(name, want);
}

/* One handle with two names: the first one of the standard's tables. */
static void synonyms_have_the_usual_name(void)
{
    check_type_name(MPI_C_FLOAT_COMPLEX, "MPI_C_COMPLEX");
    check_type_name(MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX");
    check_type_name(MPI_LONG_LONG, "MPI_LONG_LONG_INT");
}

/* Not in MPI-5.0 section 6.9.2, but other libraries do it: MPI_CHAR is the machine's char. */
static void characters_are_numbers(void)
{
    char in[3] = { (char)-2, 1, 3 }, sum[3], max[3];
    int i;

    OK(MPI_Allreduce(in, sum, 3, MPI_CHAR, MPI_SUM, mt_comm));
    for (i = 0; i < 3; i++)
        CHECK_EQ(sum[i], (char)(in[i] * mt_size));
    if (mt_rank % 2)
        in[0] = 1;
    OK(MPI_Allreduce(in, max, 3, MPI_CHAR, MPI_MAX, mt_comm));
    CHECK_EQ(max[0], mt_size > 1 && (char)-2 < 1 ? 1 : (char)-2);
    CHECK(max[1] == 1 && max[2] == 3);
    FAILS(MPI_Allreduce(in, max, 3, MPI_BYTE, MPI_SUM, mt_comm), MPI_ERR_OP);
    FAILS(MPI_Allreduce(in, max, 3, MPI_CHARACTER, MPI_SUM, mt_comm), MPI_ERR_OP);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(null_handles_have_names);
    MT_RUN(collectives_from_bottom);
    MT_RUN(neighbours_at_addresses);
    MT_RUN(fortran_handles);
    MT_RUN(fortran_statuses);
    MT_RUN(error_texts_go_first);
    MT_RUN(synonyms_have_the_usual_name);
    MT_RUN(characters_are_numbers);
    return mt_end();
}
