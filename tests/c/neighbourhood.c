/* Operations among neighbours, blocking, nonblocking and persistent, with counts of int and of MPI_Count, on grids, graphs and
 * distributed graphs: held against messages that the program sends itself, as section 8.6 of the standard says they are. */
#include "check.h"

static MPI_Comm comm;
static int rank, in, out, sources[64], destinations[64];
/* For a block that comes, its tag; for one that goes, likewise. */
static int in_tags[64], out_tags[64];
static enum { NOW, LATER, PERSISTENT, WAYS } way;

static void started(MPI_Request *request)
{
    for (int i = 0; i < 2; i++) {
        OK(MPI_Start(request));
        OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(request));
}

/* Calls MPI_Neighbor_name, MPI_Ineighbor_name or MPI_Neighbor_name_init, with `c` those of large counts. */
#define CALL(name, c, ...)                                                                                             \
    do {                                                                                                               \
        MPI_Request request_;                                                                                          \
        if (way == LATER) {                                                                                            \
            OK(MPI_Ineighbor_##name##c(__VA_ARGS__, comm, &request_));                                                 \
            OK(MPI_Wait(&request_, MPI_STATUS_IGNORE));                                                                \
        } else if (way == PERSISTENT) {                                                                                \
            OK(MPI_Neighbor_##name##_init##c(__VA_ARGS__, comm, MPI_INFO_NULL, &request_));                            \
            started(&request_);                                                                                        \
        } else                                                                                                         \
            OK(MPI_Neighbor_##name##c(__VA_ARGS__, comm));                                                             \
    } while (0)

/* The same by messages: `number` ints from `from + k * step` to destination k, and into `to + k * number`. */
static void exchanged(const int *from, int step, int number, int *to)
{
    MPI_Request requests[128];
    for (int k = 0; k < in; k++)
        OK(MPI_Irecv(to + k * number, number, MPI_INT, sources[k], in_tags[k], comm, &requests[k]));
    for (int k = 0; k < out; k++)
        OK(MPI_Isend(from + k * step, number, MPI_INT, destinations[k], out_tags[k], comm, &requests[in + k]));
    OK(MPI_Waitall(in + out, requests, MPI_STATUSES_IGNORE));
}

static int *ints(int number, int first)
{
    int *memory = allocate(number * sizeof(int));
    for (int i = 0; i < number; i++)
        memory[i] = first < 0 ? -1 : first + i;
    return memory;
}

static void alike(const int *got, const int *expected, int number, const char *what)
{
    for (int i = 0; i < number; i++)
        SAME(got[i], expected[i], "%s of %d in, %d out, element %d", what, in, out, i);
}

/* All five with `n` ints in a block. */
static void all(int n)
{
    int *send = ints(out * n + n, 1000000 * (rank + 1)), *got = ints(in * n, -1), *wanted = ints(in * n, -1);
    int counts[64], starts[64], into[64];
    MPI_Count counts_c[64];
    MPI_Aint starts_c[64], bytes[64], into_bytes[64];
    MPI_Datatype types[64], in_types[64];
    for (int k = 0; k < 64; k++) {
        counts[k] = counts_c[k] = n;
        starts[k] = starts_c[k] = k * n;
        into[k] = (in - 1 - k) * n; /* Backwards. */
        bytes[k] = k * n * sizeof(int);
        into_bytes[k] = k * n * sizeof(int);
        types[k] = k % 2 ? MPI_INT : MPI_INT32_T;
        in_types[k] = MPI_INT;
    }
#define CLEAN memset(got, 0xff, in * n * sizeof(int))
    exchanged(send, 0, n, wanted);
    CALL(allgather, , send, n, MPI_INT, got, n, MPI_INT);
    alike(got, wanted, in * n, "allgather");
    CLEAN;
    CALL(allgather, _c, send, n, MPI_INT, got, n, MPI_INT);
    alike(got, wanted, in * n, "allgather_c");
    CLEAN;
    CALL(allgatherv, , send, n, MPI_INT, got, counts, into, MPI_INT);
    for (int k = 0; k < in; k++)
        alike(got + (in - 1 - k) * n, wanted + k * n, n, "allgatherv");
    CLEAN;
    CALL(allgatherv, _c, send, n, MPI_INT, got, counts_c, starts_c, MPI_INT);
    alike(got, wanted, in * n, "allgatherv_c");
    memset(wanted, 0xff, in * n * sizeof(int));
    exchanged(send, n, n, wanted);
    CLEAN;
    CALL(alltoall, , send, n, MPI_INT, got, n, MPI_INT);
    alike(got, wanted, in * n, "alltoall");
    CLEAN;
    CALL(alltoall, _c, send, n, MPI_INT, got, n, MPI_INT);
    alike(got, wanted, in * n, "alltoall_c");
    CLEAN;
    CALL(alltoallv, , send, counts, starts, MPI_INT, got, counts, into, MPI_INT);
    for (int k = 0; k < in; k++)
        alike(got + (in - 1 - k) * n, wanted + k * n, n, "alltoallv");
    CLEAN;
    CALL(alltoallv, _c, send, counts_c, starts_c, MPI_INT, got, counts_c, starts_c, MPI_INT);
    alike(got, wanted, in * n, "alltoallv_c");
    CLEAN;
    CALL(alltoallw, , send, counts, bytes, types, got, counts, into_bytes, in_types);
    alike(got, wanted, in * n, "alltoallw");
    CLEAN;
    CALL(alltoallw, _c, send, counts_c, bytes, types, got, counts_c, into_bytes, in_types);
    alike(got, wanted, in * n, "alltoallw_c");
    for (int i = 0; i < out * n; i++)
        SAME(send[i], 1000000 * (rank + 1) + i, "what was sent");
    free(send);
    free(got);
    free(wanted);
}

static void each_way(void)
{
    const int lengths[] = {0, 1, 13, brief() ? 3000 : 20000};
    OK(MPI_Comm_rank(comm, &rank));
    for (way = NOW; way < WAYS; way++)
        for (int i = 0; i < 4; i++)
            all(lengths[i]);
}

/* What goes in the negative direction comes from the positive one: the standard's code has tags for that. */
static void grid(int number, const int *dims, const int *periods)
{
    OK(MPI_Cart_create(MPI_COMM_WORLD, number, dims, periods, 1, &comm));
    if (comm == MPI_COMM_NULL)
        return;
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    in = out = 2 * number;
    for (int i = 0; i < number; i++) {
        OK(MPI_Cart_shift(comm, i, 1, &sources[2 * i], &sources[2 * i + 1]));
        destinations[2 * i] = sources[2 * i];
        destinations[2 * i + 1] = sources[2 * i + 1];
        out_tags[2 * i] = in_tags[2 * i + 1] = 2 * i;
        out_tags[2 * i + 1] = in_tags[2 * i] = 2 * i + 1;
    }
    each_way();
    OK(MPI_Comm_free(&comm));
}

static void grids(void)
{
    for (int which = 0; which < 8; which++) {
        int dims[3] = {0, 0, 0}, periods[3] = {which & 1, which >> 1 & 1, which >> 2 & 1};
        OK(MPI_Dims_create(ranks, 3, dims));
        grid(3, dims, periods);
    }
    grid(0, NULL, NULL);
    for (int periodic = 0; periodic < 2; periodic++) {
        grid(1, &(int){ranks}, &periodic);
        grid(2, (const int[]){1, ranks}, (const int[]){1, periodic});
        if (ranks > 2)
            grid(1, &(int){2}, &periodic);
    }
}

/* Edges to the next two processes and to itself, the first one twice. */
static void graphs(void)
{
    int after = (me + 1) % ranks, second = (me + 2) % ranks, before = (me + ranks - 1) % ranks;
    int first = (me + ranks - 2 % ranks) % ranks;
    in = out = 4;
    /* The k-th edge to a process is the k-th one at that process. */
    for (int k = 0; k < 4; k++) {
        destinations[k] = (const int[]){after, me, second, after}[k];
        sources[k] = (const int[]){before, before, first, me}[k];
    }
    for (int k = 0; k < 4; k++) {
        in_tags[k] = out_tags[k] = 0;
        for (int i = 0; i < k; i++) {
            in_tags[k] += sources[i] == sources[k];
            out_tags[k] += destinations[i] == destinations[k];
        }
    }
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, MPI_UNWEIGHTED, out, destinations, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 0, &comm));
    each_way();
    OK(MPI_Comm_free(&comm));

    /* All to rank 0, and it to nobody but itself. */
    in = me == 0 ? ranks : 0;
    out = 1;
    for (int k = 0; k < ranks; k++)
        sources[k] = k, in_tags[k] = 0;
    destinations[0] = out_tags[0] = 0;
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &out, destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    int most = 64, none;
    OK(MPI_Dist_graph_neighbors(comm, most, sources, MPI_UNWEIGHTED, 1, &none, MPI_UNWEIGHTED));
    each_way();
    OK(MPI_Comm_free(&comm));

    /* A ring of edges in both directions, each twice. */
    int index[64], edges[256];
    for (int node = 0; node < ranks; node++) {
        index[node] = 4 * node + 4;
        for (int i = 0; i < 4; i++)
            edges[4 * node + i] = (node + (i % 2 ? 1 : ranks - 1)) % ranks;
    }
    OK(MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &comm));
    in = out = 4;
    for (int k = 0; k < 4; k++) {
        sources[k] = destinations[k] = edges[4 * me + k];
        in_tags[k] = out_tags[k] = 0;
        for (int i = 0; i < k; i++)
            in_tags[k] = out_tags[k] += sources[i] == sources[k];
    }
    each_way();
    OK(MPI_Comm_free(&comm));
}

/* Many at once, on two communicators, with messages between, completed in the opposite order. */
static void at_once(void)
{
    enum { MANY = 12 };
    MPI_Comm comms[2];
    int dims[1] = {ranks}, periods[1] = {1}, send[MANY][2], got[MANY][2], side[2];
    MPI_Request requests[MANY], other[2];
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comms[0]));
    OK(MPI_Comm_dup(comms[0], &comms[1]));
    int before = (me + ranks - 1) % ranks, after = (me + 1) % ranks;
    for (int i = 0; i < MANY; i++) {
        send[i][0] = 100 * me + i;
        send[i][1] = -100 * me - i;
        if (i % 3 == 2) {
            OK(MPI_Neighbor_alltoall_init(send[i], 1, MPI_INT, got[i], 1, MPI_INT, comms[i % 2], MPI_INFO_NULL, &requests[i]));
            OK(MPI_Start(&requests[i]));
        } else
            OK(MPI_Ineighbor_alltoall(send[i], 1, MPI_INT, got[i], 1, MPI_INT, comms[i % 2], &requests[i]));
    }
    OK(MPI_Irecv(&side[0], 1, MPI_INT, before, 0, comms[0], &other[0]));
    OK(MPI_Isend(&me, 1, MPI_INT, after, 0, comms[0], &other[1]));
    for (int i = MANY - 1; i >= 0; i--) {
        OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        SAME(got[i][0], -100 * before - i, "from the negative side");
        SAME(got[i][1], 100 * after + i, "from the positive side");
        if (i % 3 == 2)
            OK(MPI_Request_free(&requests[i]));
    }
    OK(MPI_Waitall(2, other, MPI_STATUSES_IGNORE));
    SAME(side[0], before, "a message between");
    OK(MPI_Comm_free(&comms[0]));
    OK(MPI_Comm_free(&comms[1]));
}

static void errors(void)
{
    int buffer[4] = {0}, counts[2] = {1, 1}, displs[2] = {0, 1}, dims[1] = {ranks}, periods[1] = {1};
    MPI_Comm plain, cart;
    MPI_Request request;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &plain));
    OK(MPI_Comm_set_errhandler(plain, MPI_ERRORS_RETURN));
    ERROR(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(buffer, 1, MPI_INT, buffer + 1, 1, MPI_INT, plain), "no topology");
    ERROR(MPI_ERR_TOPOLOGY, MPI_Ineighbor_alltoall(buffer, 1, MPI_INT, buffer + 1, 1, MPI_INT, plain, &request),
          "no topology");
    ERROR(MPI_ERR_TOPOLOGY,
          MPI_Neighbor_alltoall_init(buffer, 1, MPI_INT, buffer + 1, 1, MPI_INT, plain, MPI_INFO_NULL, &request),
          "no topology");
    OK(MPI_Cart_create(plain, 1, dims, periods, 0, &cart));
    ERROR(MPI_ERR_BUFFER, MPI_Neighbor_allgather(MPI_IN_PLACE, 1, MPI_INT, buffer, 1, MPI_INT, cart), "MPI_IN_PLACE");
    ERROR(MPI_ERR_COUNT, MPI_Neighbor_allgather(buffer, -1, MPI_INT, buffer + 1, 1, MPI_INT, cart), "sendcount", "-1");
    ERROR(MPI_ERR_TYPE, MPI_Neighbor_alltoall(buffer, 1, MPI_INT, buffer + 2, 1, MPI_DATATYPE_NULL, cart), "recvbuf");
    ERROR(MPI_ERR_ARG, MPI_Neighbor_alltoallv(buffer, counts, NULL, MPI_INT, buffer, counts, displs, MPI_INT, cart),
          "sdispls");
    ERROR(MPI_ERR_ARG, MPI_Ineighbor_allgather(buffer, 1, MPI_INT, buffer + 1, 1, MPI_INT, cart, NULL), "request");
    /* Buffers that overlap. */
    ERROR(MPI_ERR_BUFFER, MPI_Neighbor_alltoall(buffer, 1, MPI_INT, buffer + 1, 1, MPI_INT, cart), "overlap");
    /* Too much. */
    counts[0] = counts[1] = 2;
    int long_displs[2] = {0, 2}, longer[4] = {0};
    int code = MPI_Neighbor_alltoallv(longer, counts, long_displs, MPI_INT, buffer, (int[]){1, 1}, displs, MPI_INT, cart);
    SAME(class_of(code), MPI_ERR_TRUNCATE, "class");
    OK(MPI_Comm_free(&cart));
    if (ranks > 1) {
        int index[64], edges[1] = {1};
        for (int node = 0; node < ranks; node++)
            index[node] = 1;
        OK(MPI_Graph_create(plain, ranks, index, edges, 0, &cart));
        ERROR(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(buffer, 1, MPI_INT, buffer + 1, 1, MPI_INT, cart), "edge", "back");
        OK(MPI_Comm_free(&cart));
    }
    OK(MPI_Comm_free(&plain));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    grids();
    graphs();
    at_once();
    errors();
    return end("neighbourhood");
}
