/* Blocking operations among neighbours, many on one communicator: rank 0 has several edges to each other rank, and each of these one back,
 * so the blocks of rank 0 are longer together than those of the others, and may take another way. A barrier comes between now and then. */
#include "check.h"

#define EDGES 24
#define LONGEST 9000

static char *out, *in;

static char byte_of(int from, int block, int turn, int at)
{
    return (char)(from * 31 + block * 7 + turn * 3 + at);
}

static void prepare(int blocks, int len, int turn)
{
    for (int block = 0; block < blocks; block++)
        for (int at = 0; at < len; at++)
            out[(size_t)block * len + at] = byte_of(me, block, turn, at);
}

/* Block `place` is `block` of rank `from`. */
static void compare(int place, int from, int block, int len, int turn)
{
    for (int at = 0; at < len; at++)
        SAME(in[(size_t)place * len + at], byte_of(from, block, turn, at), "turn %d, byte %d of block %d", turn, at, place);
}

int main(int argc, char **argv)
{
    static const int lengths[] = {8, 100, 1000, 170, LONGEST};
    int number, *neighbours;
    MPI_Comm comm;

    begin(&argc, &argv);
    number = me == 0 ? (ranks - 1) * EDGES : EDGES;
    neighbours = malloc((number + 1) * sizeof *neighbours);
    out = malloc((size_t)(number + 1) * LONGEST);
    in = malloc((size_t)(number + 1) * LONGEST);
    for (int at = 0; at < number; at++)
        neighbours[at] = me == 0 ? at / EDGES + 1 : 0;
    /* To rank 0 only one block goes. */
    int *sources = malloc(ranks * sizeof *sources);
    for (int from = 1; from < ranks; from++)
        sources[from - 1] = from;
    if (me == 0)
        OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, ranks - 1, sources, MPI_UNWEIGHTED, number, neighbours,
                                          MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    else
        OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, number, neighbours, MPI_UNWEIGHTED, 1, neighbours,
                                          MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    for (int turn = 0; turn < 120; turn++) {
        int len = lengths[turn % 5], sends = me == 0 ? number : 1;
        prepare(sends, len, turn);
        memset(in, 0, (size_t)(number + 1) * LONGEST);
        if (turn % 3 == 0)
            OK(MPI_Neighbor_allgather(out, len, MPI_BYTE, in, len, MPI_BYTE, comm));
        else
            OK(MPI_Neighbor_alltoall(out, len, MPI_BYTE, in, len, MPI_BYTE, comm));
        if (me == 0)
            for (int from = 1; from < ranks; from++)
                compare(from - 1, from, 0, len, turn);
        else
            for (int at = 0; at < EDGES; at++)
                compare(at, 0, turn % 3 == 0 ? 0 : (me - 1) * EDGES + at, len, turn);
        if (turn % 17 == 5)
            OK(MPI_Barrier(comm));
    }
    OK(MPI_Comm_free(&comm));
    return end("neighbour_forms");
}
