/* Reordering puts neighbours on one host: pairs of neighbours that share a host are counted before and after. The output has the
 * sums. With WEFT_FAKE_NODES=2, ranks are on two hosts in turn. */
#include "check.h"

static int *worlds; /* The rank in MPI_COMM_WORLD of each process of a communicator. */

static void find(MPI_Comm comm)
{
    int size;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Allgather(&me, 1, MPI_INT, worlds, 1, MPI_INT, comm));
    for (int rank = 0, sum = 0; rank < size; rank++)
        CHECK((sum += worlds[rank]) >= 0 && worlds[rank] < ranks, "a process of the world");
}

static void counted(const char *what, int before, int after, int best)
{
    CHECK(after >= before, "%s: %d pairs shared a host before, %d after", what, before, after);
    if (best >= 0)
        SAME(after, best, "%s: pairs that share a host", what);
    if (me == 0)
        printf("%s: %d pairs of neighbours share a host before, %d after\n", what, before, after);
}

static void grid(int number, const int *dims, int periodic, int best)
{
    int periods[3] = {periodic, periodic, periodic}, before = 0, after = 0, places = 1, mapped, rank = MPI_UNDEFINED;
    MPI_Comm comm, plain;
    OK(MPI_Cart_create(MPI_COMM_WORLD, number, dims, periods, 0, &plain));
    OK(MPI_Cart_create(MPI_COMM_WORLD, number, dims, periods, 1, &comm));
    OK(MPI_Cart_map(MPI_COMM_WORLD, number, dims, periods, &mapped));
    for (int i = 0; i < number; i++)
        places *= dims[i];
    if (comm != MPI_COMM_NULL) {
        OK(MPI_Comm_rank(comm, &rank));
        find(comm);
        for (int at = 0; at < places; at++)
            for (int i = 0; i < number; i++) {
                int coords[3], next;
                OK(MPI_Cart_coords(comm, at, number, coords));
                if (++coords[i] == dims[i] && !periodic)
                    continue;
                OK(MPI_Cart_rank(comm, coords, &next));
                before += at != next && node_of(at) == node_of(next);
                after += at != next && node_of(worlds[at]) == node_of(worlds[next]);
            }
        OK(MPI_Comm_free(&comm));
        OK(MPI_Comm_free(&plain));
    }
    SAME(mapped, rank, "MPI_Cart_map");
    char what[64];
    snprintf(what, sizeof what, "%s of %d × %d × %d", periodic ? "torus" : "grid", dims[0], number > 1 ? dims[1] : 1,
             number > 2 ? dims[2] : 1);
    if (me < places)
        counted(what, before, after, best);
}

/* Pairs of ranks whose distance is half of all, with heavy edges; a ring of light ones. */
static void graphs(int best)
{
    int half = ranks / 2, before = (me + ranks - 1) % ranks, after = (me + 1) % ranks;
    int opposite = me < 2 * half ? (me + half) % (2 * half) : me;
    int ends[3] = {after, before, opposite}, weights[3] = {1, 1, 100};
    MPI_Comm adjacent, others;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, ends, weights, 3, ends, weights, MPI_INFO_NULL, 1, &adjacent));
    /* The process of the other end gives the edges. */
    int sources[3] = {after, before, opposite}, degrees[3] = {1, 1, 1}, to[3] = {me, me, me};
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 3, sources, degrees, to, weights, MPI_INFO_NULL, 1, &others));
    for (int which = 0; which < 2; which++) {
        MPI_Comm comm = which == 0 ? adjacent : others;
        int rank, list[3], from[3], away[3], sum[3] = {0, 0, 0};
        OK(MPI_Comm_rank(comm, &rank));
        find(comm);
        OK(MPI_Dist_graph_neighbors(comm, 3, from, list, 3, away, list));
        for (int i = 0; i < 3; i++) {
            /* The edges are those of the node, whichever process takes it. */
            int expected = away[i] == (rank + 1) % ranks || away[i] == (rank + ranks - 1) % ranks ||
                           away[i] == (rank + half) % (2 * half + (half == 0)) || away[i] == rank;
            CHECK(expected, "node %d has an edge to %d", rank, away[i]);
            if (away[i] != rank && list[i] == 100) {
                sum[0] += node_of(rank) == node_of(away[i]);
                sum[1] += node_of(me) == node_of(worlds[away[i]]);
            }
        }
        OK(MPI_Allreduce(MPI_IN_PLACE, sum, 3, MPI_INT, MPI_SUM, comm));
        counted(which == 0 ? "heavy edges" : "heavy edges given by others", sum[0] / 2, sum[1] / 2, best);
        OK(MPI_Comm_free(&comm));
    }
    int index[64], edges[128], number = 0;
    for (int node = 0; node < ranks; node++) {
        edges[number++] = (node + 1) % ranks;
        edges[number++] = (node + ranks - 1) % ranks;
        index[node] = number;
    }
    MPI_Comm ring;
    int mapped, rank, was = 0, is = 0;
    OK(MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 1, &ring));
    OK(MPI_Graph_map(MPI_COMM_WORLD, ranks, index, edges, &mapped));
    OK(MPI_Comm_rank(ring, &rank));
    SAME(mapped, rank, "MPI_Graph_map");
    find(ring);
    for (int node = 0; node < ranks; node++) {
        was += node_of(node) == node_of((node + 1) % ranks);
        is += node_of(worlds[node]) == node_of(worlds[(node + 1) % ranks]);
    }
    counted("ring", was, is, best < 0 ? -1 : ranks - 2);
    OK(MPI_Comm_free(&ring));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    gather_hosts();
    worlds = allocate(ranks * sizeof *worlds);
    /* For 4 and 8 ranks on two hosts of half of them each the most that there can be is known. */
    const char *nodes = getenv("WEFT_FAKE_NODES");
    int known = nodes != NULL && atoi(nodes) == 2 && (ranks == 4 || ranks == 8);
    for (int number = 1; number <= 3; number++)
        for (int periodic = 0; periodic < 2; periodic++) {
            static const int most[2][3][2] = {{{2, 2}, {2, 4}, {2, 4}}, {{6, 6}, {8, 12}, {8, 16}}};
            int dims[3] = {0, 0, 0};
            OK(MPI_Dims_create(ranks, number, dims));
            grid(number, dims, periodic, known ? most[ranks == 8][number - 1][periodic] : -1);
        }
    if (ranks > 2)
        grid(1, (const int[]){ranks - 1}, 1, -1);
    graphs(known ? ranks / 2 : -1);
    free(worlds);
    return end("reorder");
}
