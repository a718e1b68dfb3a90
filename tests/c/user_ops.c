/* Operations of the user's: commutative ones, and ones whose order matters, on basic and derived types. */
#include "check.h"

/* Matrices modulo a prime: associative, not commutative. */
typedef struct {
    int64_t m[2][2];
} matrix;

static matrix times(matrix a, matrix b)
{
    matrix c;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            c.m[i][j] = (a.m[i][0] * b.m[0][j] + a.m[i][1] * b.m[1][j]) % 1000003;
    return c;
}

static matrix of(int rank, int i)
{
    return (matrix){{{rank + 2, i % 7 + 1}, {rank % 3 + 1, i % 5 + rank}}};
}

static int calls;
static MPI_Datatype matrix_type;

static void multiply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    CHECK(*type == matrix_type, "the operation was called with another datatype");
    matrix *a = in, *b = inout;
    for (int i = 0; i < *count; i++)
        b[i] = times(a[i], b[i]);
    calls++;
}

static void multiply_c(void *in, void *inout, MPI_Count *count, MPI_Datatype *type)
{
    int n = (int)*count;
    multiply(in, inout, &n, type);
}

/* Commutative: greatest common divisor. */
static void divisor(void *in, void *inout, int *count, MPI_Datatype *type)
{
    CHECK(*type == MPI_UINT32_T, "the operation was called with another datatype");
    uint32_t *a = in, *b = inout;
    for (int i = 0; i < *count; i++) {
        uint32_t x = a[i], y = b[i];
        while (y) {
            uint32_t r = x % y;
            x = y;
            y = r;
        }
        b[i] = x;
    }
}

static void same_matrix(const char *what, int i, matrix got, matrix expected)
{
    for (int j = 0; j < 4; j++)
        SAME(got.m[j / 2][j % 2], expected.m[j / 2][j % 2], "%s: element %d, entry %d", what, i, j);
}

static void ordered(int n, MPI_Op op)
{
    matrix *mine = allocate(n * sizeof *mine), *got = allocate(n * sizeof *got), *all = allocate(n * sizeof *all),
           *prefix = allocate(n * sizeof *prefix), *before = allocate(n * sizeof *before);
    for (int i = 0; i < n; i++) {
        mine[i] = of(me, i);
        matrix product = of(0, i);
        prefix[i] = product;
        for (int rank = 1; rank < ranks; rank++) {
            if (rank == me)
                before[i] = product;
            product = times(product, of(rank, i));
            if (rank == me)
                prefix[i] = product;
        }
        all[i] = product;
    }
    MPI_Allreduce(mine, got, n, matrix_type, op, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        same_matrix("MPI_Allreduce", i, got[i], all[i]);
    for (int root = 0; root < ranks; root++) {
        memset(got, 0, n * sizeof *got);
        MPI_Reduce(mine, got, n, matrix_type, op, root, MPI_COMM_WORLD);
        if (me == root)
            for (int i = 0; i < n; i++)
                same_matrix("MPI_Reduce", i, got[i], all[i]);
    }
    MPI_Scan(mine, got, n, matrix_type, op, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        same_matrix("MPI_Scan", i, got[i], prefix[i]);
    MPI_Exscan(mine, got, n, matrix_type, op, MPI_COMM_WORLD);
    if (me > 0)
        for (int i = 0; i < n; i++)
            same_matrix("MPI_Exscan", i, got[i], before[i]);
    /* inout = in op inout, in this order */
    for (int i = 0; i < n; i++)
        got[i] = of(5, i);
    MPI_Reduce_local(mine, got, n, matrix_type, op);
    for (int i = 0; i < n; i++)
        same_matrix("MPI_Reduce_local", i, got[i], times(mine[i], of(5, i)));
    free(mine);
    free(got);
    free(all);
    free(prefix);
    free(before);
}

static void commutative(void)
{
    enum { N = 1000 };
    static uint32_t mine[N], got[N];
    MPI_Op op;
    int commute;
    MPI_Op_create(divisor, 1, &op);
    MPI_Op_commutative(op, &commute);
    SAME(commute, 1, "MPI_Op_commutative");
    for (int i = 0; i < N; i++)
        mine[i] = (uint32_t)((me + 2) * 60 * (i + 1));
    MPI_Allreduce(mine, got, N, MPI_UINT32_T, op, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) {
        uint32_t expected = ranks == 1 ? 2 * 60 * (uint32_t)(i + 1) : 60 * (uint32_t)(i + 1);
        SAME(got[i], expected, "greatest common divisor of element %d", i);
    }
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL, "MPI_Op_free left the handle");
}

/* A function may ask for the type that it is called with, also where the user has freed that meanwhile. */
static void measure(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int size;
    MPI_Aint lb, extent;
    MPI_Type_size(*type, &size);
    MPI_Type_get_extent(*type, &lb, &extent);
    SAME(size, 4, "size of the freed type");
    SAME(extent, 16, "extent of the freed type");
    for (int i = 0; i < *count; i++)
        *(int *)((char *)inout + i * extent) += *(int *)((char *)in + i * extent);
}

static void freed(void)
{
    enum { N = 3000 };
    static int mine[4 * N], got[4 * N];
    MPI_Datatype spaced;
    MPI_Op op;
    MPI_Request request;
    MPI_Type_create_resized(MPI_INT, 0, 16, &spaced);
    MPI_Type_commit(&spaced);
    MPI_Op_create(measure, 1, &op);
    for (int i = 0; i < 4 * N; i++) {
        mine[i] = i + me;
        got[i] = -1;
    }
    MPI_Iallreduce(mine, got, N, spaced, op, MPI_COMM_WORLD, &request);
    MPI_Type_free(&spaced);
    MPI_Op_free(&op);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 4 * N; i++)
        SAME(got[i], i % 4 ? -1 : ranks * i + ranks * (ranks - 1) / 2, "element %d of the freed type", i);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Op op, large;
    int commute;
    MPI_Type_contiguous(4, MPI_INT64_T, &matrix_type);
    MPI_Type_commit(&matrix_type);
    MPI_Op_create(multiply, 0, &op);
    MPI_Op_create_c(multiply_c, 0, &large);
    MPI_Op_commutative(op, &commute);
    SAME(commute, 0, "MPI_Op_commutative");
    ordered(1, op);
    ordered(13, op);
    ordered(5000, op);
    ordered(13, large);
    CHECK(calls > 0, "the operation was not called");
    commutative();
    freed();
    MPI_Op_free(&op);
    MPI_Op_free(&large);
    MPI_Type_free(&matrix_type);
    return end("user_ops");
}
