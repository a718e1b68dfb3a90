/* Send and receive buffers that overlap, on one rank or on all: the rank gets MPI_ERR_BUFFER, at once or from its request, the others
 * get their results, and nobody waits forever. What is sent is what the buffer held before. */
#include "check.h"

enum { N = 40, MOST = 9 };

static MPI_Comm comm;
/* Room for all blocks; the ranks that overlap use `both` for both. */
static int both[2 * N * MOST], out[N * MOST], in[N * MOST];
static int guilty, shift;

static int value(int from, int to, int i)
{
    return 1000000 * from + 1000 * to + i;
}

/* `blocks` blocks of what this rank has for others, in the buffer that it sends from. */
static int *given(int blocks)
{
    int *at = guilty ? both : out;
    for (int block = 0; block < blocks; block++)
        for (int i = 0; i < N; i++)
            at[block * N + i] = value(me, block, i);
    return at;
}

/* The buffer to receive into, `shift` elements behind the one to send from. */
static int *taken(void)
{
    if (guilty)
        return both + shift;
    memset(in, 0xff, sizeof in);
    return in;
}

static void ended(int line, int code, int expected)
{
    same(__FILE__, line, class_of(code), expected ? MPI_ERR_BUFFER : MPI_SUCCESS, "class with shift %d", shift);
    if (expected) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        if (strstr(text, "overlap") == NULL || strstr(text, "MPI_IN_PLACE") == NULL)
            fail(__FILE__, line, "the text does not say why: %s", text);
    }
}

/* A call and its nonblocking twin; `fails`: whether this rank's buffers overlap. Then `check`, whether they do or not. */
#define BOTH(fails, check, name, iname, ...)                                                                           \
    do {                                                                                                               \
        int *send = SEND, *receive = taken();                                                                          \
        ended(__LINE__, MPI_##name(__VA_ARGS__, comm), fails);                                                         \
        check;                                                                                                         \
        MPI_Request request;                                                                                           \
        send = SEND, receive = taken();                                                                                \
        int code = MPI_##iname(__VA_ARGS__, comm, &request);                                                           \
        ended(__LINE__, code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE), fails);                    \
        check;                                                                                                         \
    } while (0)

static void holds(int line, const int *at, int from, int block)
{
    for (int i = 0; i < N; i++)
        same(__FILE__, line, at[i], value(from, block, i), "element %d of %d's block", i, from);
}

/* The elements of rank `from`'s block for this rank, or for all. */
#define BLOCKS(block)                                                                                                  \
    for (int from = 0; from < ranks; from++)                                                                           \
    holds(__LINE__, receive + from * N, from, block)

/* The sum over the ranks of block `block`. */
static void sums(int line, const int *at, int block, int upto)
{
    for (int i = 0; i < N; i++) {
        int expected = 0;
        for (int from = 0; from < upto; from++)
            expected += value(from, block, i);
        same(__FILE__, line, at[i], expected, "element %d of a sum", i);
    }
}

static void all(void)
{
    int counts[MOST], places[MOST], bytes[MOST];
    MPI_Datatype types[MOST];
    for (int rank = 0; rank < ranks; rank++) {
        counts[rank] = N;
        places[rank] = rank * N;
        bytes[rank] = rank * N * (int)sizeof(int);
        types[rank] = MPI_INT;
    }
#define SEND given(1)
    BOTH(guilty, BLOCKS(0), Allgather, Iallgather, send, N, MPI_INT, receive, N, MPI_INT);
    BOTH(guilty, BLOCKS(0), Allgatherv, Iallgatherv, send, N, MPI_INT, receive, counts, places, MPI_INT);
    BOTH(guilty, sums(__LINE__, receive, 0, ranks), Allreduce, Iallreduce, send, receive, N, MPI_INT, MPI_SUM);
    BOTH(guilty, sums(__LINE__, receive, 0, me + 1), Scan, Iscan, send, receive, N, MPI_INT, MPI_SUM);
    BOTH(guilty && me > 0, if (me > 0) sums(__LINE__, receive, 0, me), Exscan, Iexscan, send, receive, N, MPI_INT, MPI_SUM);
    for (int root = 0; root < ranks; root++) {
        int at = me == root;
        BOTH(
            guilty &&at, if (at) BLOCKS(0), Gather, Igather, send, N, MPI_INT, receive, N, MPI_INT, root);
        BOTH(
            guilty &&at, if (at) BLOCKS(0), Gatherv, Igatherv, send, N, MPI_INT, receive, counts, places, MPI_INT, root);
        BOTH(
            guilty &&at, if (at) sums(__LINE__, receive, 0, ranks), Reduce, Ireduce, send, receive, N, MPI_INT, MPI_SUM,
            root);
    }
#undef SEND
#define SEND given(ranks)
    BOTH(guilty, BLOCKS(me), Alltoall, Ialltoall, send, N, MPI_INT, receive, N, MPI_INT);
    BOTH(guilty, BLOCKS(me), Alltoallv, Ialltoallv, send, counts, places, MPI_INT, receive, counts, places, MPI_INT);
    BOTH(guilty, BLOCKS(me), Alltoallw, Ialltoallw, send, counts, bytes, types, receive, counts, bytes, types);
    BOTH(guilty, sums(__LINE__, receive, me, ranks), Reduce_scatter_block, Ireduce_scatter_block, send, receive, N, MPI_INT,
         MPI_SUM);
    BOTH(guilty, sums(__LINE__, receive, me, ranks), Reduce_scatter, Ireduce_scatter, send, receive, counts, MPI_INT,
         MPI_SUM);
    for (int root = 0; root < ranks; root++) {
        int at = me == root;
        BOTH(guilty &&at, holds(__LINE__, receive, root, me), Scatter, Iscatter, send, N, MPI_INT, receive, N, MPI_INT, root);
        BOTH(guilty &&at, holds(__LINE__, receive, root, me), Scatterv, Iscatterv, send, counts, places, MPI_INT, receive, N,
             MPI_INT, root);
    }
#undef SEND
}

/* What only looks like it: columns of one matrix, one half of an array and the other, nothing. */
static void apart(void)
{
    int matrix[N][2 + MOST], counts[MOST], here[MOST], there[MOST];
    MPI_Datatype column, wide;
    OK(MPI_Type_vector(N, 1, 2 + MOST, MPI_INT, &column));
    OK(MPI_Type_create_resized(column, 0, sizeof(int), &wide));
    OK(MPI_Type_commit(&wide));
    for (int i = 0; i < N; i++)
        matrix[i][0] = value(me, 0, i);
    OK(MPI_Allgather(&matrix[0][0], 1, wide, &matrix[0][1], 1, wide, comm));
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < N; i++)
            SAME(matrix[i][1 + from], value(from, 0, i), "row %d of the column of %d", i, from);
    ended(__LINE__, MPI_Allgather(&matrix[0][1], 1, wide, &matrix[0][1], 1, wide, comm), 1);
    /* Blocks to be sent and blocks to be received in turn, in one array. */
    for (int rank = 0; rank < ranks; rank++) {
        counts[rank] = N;
        here[rank] = 2 * rank * N;
        there[rank] = (2 * rank + 1) * N;
        for (int i = 0; i < N; i++)
            both[here[rank] + i] = value(me, rank, i);
    }
    OK(MPI_Alltoallv(both, counts, here, MPI_INT, both, counts, there, MPI_INT, comm));
    for (int from = 0; from < ranks; from++)
        holds(__LINE__, both + there[from], from, me);
    OK(MPI_Allgather(both, 0, MPI_INT, both, 0, MPI_INT, comm));
    OK(MPI_Allreduce(both, both, 0, MPI_INT, MPI_SUM, comm));
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&wide));
}

static void local(void)
{
    int one[N], other[N];
    for (int i = 0; i < N; i++)
        one[i] = i, other[i] = 2 * i;
    ERROR(MPI_ERR_BUFFER, MPI_Reduce_local(MPI_IN_PLACE, one, N, MPI_INT, MPI_SUM), "inbuf", "MPI_IN_PLACE");
    ERROR(MPI_ERR_BUFFER, MPI_Reduce_local(one, MPI_IN_PLACE, N, MPI_INT, MPI_SUM), "inoutbuf", "MPI_IN_PLACE");
    ERROR(MPI_ERR_BUFFER, MPI_Reduce_local(one, one, N, MPI_INT, MPI_SUM), "inbuf", "inoutbuf", "overlap");
    ERROR(MPI_ERR_BUFFER, MPI_Reduce_local_c(one, one + 1, N - 1, MPI_INT, MPI_SUM), "overlap");
    for (int i = 0; i < N; i++)
        SAME(one[i], i, "element of a refused reduction");
    OK(MPI_Reduce_local(one, one, 0, MPI_INT, MPI_SUM));
    OK(MPI_Reduce_local(one, one + N / 2, N / 2, MPI_INT, MPI_SUM));
    OK(MPI_Reduce_local(one, other, N, MPI_INT, MPI_SUM));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(ranks <= MOST, "too many ranks");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    local();
    apart();
    /* The same address, or a part in common; all ranks, or one of them. */
    for (shift = 0; shift < N; shift += N - 1)
        for (int who = 0; who < 4; who++) {
            guilty = who == 3 || me == who % ranks;
            all();
        }
    OK(MPI_Comm_free(&comm));
    return end("aliased");
}
