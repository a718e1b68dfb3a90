/* Reordering puts neighbours on one host, and there into one package: pairs of neighbours that share these are counted before and after. The
 * output has the sums. With WEFT_FAKE_NODES=2, ranks are on two hosts in turn; with WEFT_FAKE_PACKAGES=2, those of a host on two packages. */
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

enum { HOST, PACKAGE, LEVELS };

static int setting(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : 0;
}

/* The package of a rank of MPI_COMM_WORLD: a number that no other host has. Without pretended ones, its host. */
static int package_of(int rank)
{
    int nodes = setting("WEFT_FAKE_NODES"), packages = setting("WEFT_FAKE_PACKAGES");
    return packages > 0 ? node_of(rank) * packages + rank / (nodes > 0 ? nodes : 1) % packages : node_of(rank);
}

/* Counts two processes as neighbours. */
static void add(int sums[LEVELS], int one, int other)
{
    sums[HOST] += node_of(one) == node_of(other);
    sums[PACKAGE] += package_of(one) == package_of(other);
}

/* best: of pairs that share a package. */
static void counted(const char *what, const int before[LEVELS], const int after[LEVELS], int best)
{
    CHECK(after[HOST] > before[HOST] || (after[HOST] == before[HOST] && after[PACKAGE] >= before[PACKAGE]),
          "%s: %d pairs shared a host and %d a package before, %d and %d after", what, before[HOST], before[PACKAGE],
          after[HOST], after[PACKAGE]);
    if (best >= 0)
        SAME(after[PACKAGE], best, "%s: pairs that share a package", what);
    if (me == 0)
        printf("%s: %d pairs of neighbours share a host and %d a package before, %d and %d after\n", what, before[HOST],
               before[PACKAGE], after[HOST], after[PACKAGE]);
}

/* mapped: the place that this process is given, or MPI_UNDEFINED. */
static void each_place_once(const char *what, int mapped, int places)
{
    int given[64], times[64] = {0};
    OK(MPI_Allgather(&mapped, 1, MPI_INT, given, 1, MPI_INT, MPI_COMM_WORLD));
    for (int rank = 0; rank < ranks; rank++)
        if (given[rank] >= 0 && given[rank] < places)
            times[given[rank]]++;
    for (int place = 0; place < places; place++)
        SAME(times[place], 1, "%s: processes at place %d", what, place);
}

static void grid(int number, const int *dims, int periodic, int best)
{
    int periods[3] = {periodic, periodic, periodic}, places = 1, mapped, rank = MPI_UNDEFINED;
    int before[LEVELS] = {0, 0}, after[LEVELS] = {0, 0};
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
                if (at != next) {
                    add(before, at, next);
                    add(after, worlds[at], worlds[next]);
                }
            }
        CHECK(mapped >= 0 && mapped < places, "MPI_Cart_map gives %d of %d places", mapped, places);
        /* It knows hosts alone. */
        if (mapped >= 0 && mapped < places)
            SAME(node_of(worlds[mapped]), node_of(me), "the host of the place that MPI_Cart_map gives");
        OK(MPI_Comm_free(&comm));
        OK(MPI_Comm_free(&plain));
    }
    SAME(mapped == MPI_UNDEFINED, rank == MPI_UNDEFINED, "MPI_Cart_map gives no place");
    each_place_once("MPI_Cart_map", mapped, places);
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
        int rank, list[3], from[3], away[3], sums[2][LEVELS] = {{0, 0}, {0, 0}};
        OK(MPI_Comm_rank(comm, &rank));
        find(comm);
        OK(MPI_Dist_graph_neighbors(comm, 3, from, list, 3, away, list));
        for (int i = 0; i < 3; i++) {
            /* The edges are those of the node, whichever process takes it. */
            int expected = away[i] == (rank + 1) % ranks || away[i] == (rank + ranks - 1) % ranks ||
                           away[i] == (rank + half) % (2 * half + (half == 0)) || away[i] == rank;
            CHECK(expected, "node %d has an edge to %d", rank, away[i]);
            if (away[i] != rank && list[i] == 100) {
                add(sums[0], rank, away[i]);
                add(sums[1], me, worlds[away[i]]);
            }
        }
        OK(MPI_Allreduce(MPI_IN_PLACE, sums, 2 * LEVELS, MPI_INT, MPI_SUM, comm));
        /* Both ends have counted. */
        counted(which == 0 ? "heavy edges" : "heavy edges given by others", sums[0], sums[1], 2 * best);
        OK(MPI_Comm_free(&comm));
    }
    int index[64], edges[128], number = 0;
    for (int node = 0; node < ranks; node++) {
        edges[number++] = (node + 1) % ranks;
        edges[number++] = (node + ranks - 1) % ranks;
        index[node] = number;
    }
    MPI_Comm ring;
    int mapped, rank, was[LEVELS] = {0, 0}, is[LEVELS] = {0, 0};
    OK(MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 1, &ring));
    OK(MPI_Graph_map(MPI_COMM_WORLD, ranks, index, edges, &mapped));
    OK(MPI_Comm_rank(ring, &rank));
    find(ring);
    CHECK(mapped >= 0 && mapped < ranks, "MPI_Graph_map gives %d of %d nodes", mapped, ranks);
    if (mapped >= 0 && mapped < ranks)
        SAME(node_of(worlds[mapped]), node_of(me), "the host of the node that MPI_Graph_map gives");
    each_place_once("MPI_Graph_map", mapped, ranks);
    for (int node = 0; node < ranks; node++) {
        add(was, node, (node + 1) % ranks);
        add(is, worlds[node], worlds[(node + 1) % ranks]);
    }
    counted("ring", was, is, best < 0 ? -1 : ranks - 2);
    OK(MPI_Comm_free(&ring));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    gather_hosts();
    worlds = allocate(ranks * sizeof *worlds);
    /* For 4 and 8 ranks on two hosts, or two packages, of half of them each the most that there can be is known. */
    int nodes = setting("WEFT_FAKE_NODES"), packages = setting("WEFT_FAKE_PACKAGES");
    int two = (nodes == 2 && packages == 0) || (nodes == 0 && packages == 2);
    int known = two && (ranks == 4 || ranks == 8);
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
