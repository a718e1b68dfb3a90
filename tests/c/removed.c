/* The procedures of MPI-1 that MPI 3.0 removed and programs still call (HPL: MPI_Type_struct, MPI_Address), and handles as Fortran
 * has them (LAMMPS): they do what the ones that came after them do. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "check.h"

static int seen;

static void handler(MPI_Comm *comm, int *code, ...)
{
    if (*comm == MPI_COMM_SELF)
        seen = class_of(*code);
}

static void types(void)
{
    struct {
        char c;
        double d;
        int i[3];
    } in = {'x', 2.5, {1, 2, 3}}, out = {0};
    MPI_Aint start, at[3], lb, ub, extent;
    MPI_Datatype parts[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, type, of[2];
    int lengths[3] = {1, 1, 3}, combiner, counts[3];
    OK(MPI_Address(&in, &start));
    OK(MPI_Address(&in.c, &at[0]));
    OK(MPI_Address(&in.d, &at[1]));
    OK(MPI_Address(in.i, &at[2]));
    for (int i = 0; i < 3; i++)
        at[i] -= start;
    OK(MPI_Type_struct(3, lengths, at, parts, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_extent(type, &extent));
    OK(MPI_Type_lb(type, &lb));
    OK(MPI_Type_ub(type, &ub));
    SAME(extent, sizeof in, "extent");
    SAME(lb, 0, "lower bound");
    SAME(ub, sizeof in, "upper bound");
    OK(MPI_Sendrecv(&in, 1, type, 0, 0, &out, 1, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK(out.c == 'x' && out.d == 2.5 && out.i[2] == 3, "the struct did not arrive");
    OK(MPI_Type_free(&type));

    OK(MPI_Type_hvector(2, 3, 20, MPI_INT, &of[0]));
    OK(MPI_Type_hindexed(2, (int[]){2, 1}, (MPI_Aint[]){8, -4}, MPI_INT, &of[1]));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Type_get_envelope(of[i], &counts[0], &counts[1], &counts[2], &combiner));
        SAME(combiner, i == 0 ? MPI_COMBINER_HVECTOR : MPI_COMBINER_HINDEXED, "combiner");
    }
    OK(MPI_Type_ub(of[0], &ub));
    SAME(ub, 32, "upper bound of a vector");
    OK(MPI_Type_lb(of[1], &lb));
    SAME(lb, -4, "lower bound of blocks");
    OK(MPI_Type_free(&of[0]));
    OK(MPI_Type_free(&of[1]));
    ERROR(MPI_ERR_COUNT, MPI_Type_struct(-1, lengths, at, parts, &type), "-1");
    ERROR(MPI_ERR_TYPE, MPI_Type_extent(MPI_DATATYPE_NULL, &extent));
}

static void error_handlers(void)
{
    MPI_Errhandler before, mine, got;
    OK(MPI_Errhandler_get(MPI_COMM_SELF, &before));
    OK(MPI_Errhandler_create(handler, &mine));
    OK(MPI_Errhandler_set(MPI_COMM_SELF, mine));
    OK(MPI_Errhandler_get(MPI_COMM_SELF, &got));
    CHECK(got == mine, "another handler: %s, %s", hex((uintptr_t)got), hex((uintptr_t)mine));
    SAME(class_of(MPI_Send(NULL, 0, MPI_INT, 7, 0, MPI_COMM_SELF)), MPI_ERR_RANK, "class of the error");
    SAME(seen, MPI_ERR_RANK, "class that the handler saw");
    OK(MPI_Errhandler_set(MPI_COMM_SELF, before));
    OK(MPI_Errhandler_free(&mine));
    OK(MPI_Errhandler_free(&got));
    ERROR(MPI_ERR_ERRHANDLER, MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRHANDLER_NULL));
}

static void fortran(void)
{
    MPI_Comm dup;
    MPI_Fint number = MPI_Comm_c2f(MPI_COMM_WORLD);
    int result;
    CHECK(MPI_Comm_f2c(number) == MPI_COMM_WORLD, "MPI_COMM_WORLD became another by way of Fortran");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    OK(MPI_Comm_compare(MPI_Comm_f2c(MPI_Comm_c2f(dup)), dup, &result));
    SAME(result, MPI_IDENT, "a communicator by way of Fortran");
    OK(MPI_Comm_free(&dup));
    CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_INT)) == MPI_INT, "MPI_INT became another by way of Fortran");

    MPI_Status status, back;
    MPI_Fint numbers[MPI_F_STATUS_SIZE];
    char sent[5] = "four";
    int count;
    OK(MPI_Sendrecv(sent, 5, MPI_CHAR, 0, 9, sent, 0, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    OK(MPI_Probe(0, 9, MPI_COMM_SELF, &status));
    OK(MPI_Status_c2f(&status, numbers));
    SAME(numbers[MPI_F_TAG], 9, "tag in Fortran's status");
    OK(MPI_Status_f2c(numbers, &back));
    OK(MPI_Get_count(&back, MPI_CHAR, &count));
    SAME(count, 5, "count by way of Fortran's status");
    OK(MPI_Recv(sent, 5, MPI_CHAR, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    types();
    error_handlers();
    fortran();
    return end("removed");
}
