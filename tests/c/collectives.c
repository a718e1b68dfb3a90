/* The collective operations, blocking, nonblocking and persistent, with each root, in place, on the world, its halves and a
 * duplicate, from nothing to sizes where algorithms change. */
#include "check.h"

static int rank, size;
static MPI_Comm comm;
/* Which procedures are called: blocking, nonblocking or persistent ones. */
static enum { NOW, LATER, PERSISTENT, WAYS } way;

static void started(MPI_Request *request)
{
    OK(MPI_Start(request));
    OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(request));
}

/* Calls MPI_Name, MPI_Iname or MPI_Name_init. */
#define CALL(Name, name, ...)                                                                                          \
    do {                                                                                                               \
        MPI_Request request_;                                                                                          \
        if (way == LATER) {                                                                                            \
            OK(MPI_I##name(__VA_ARGS__, &request_));                                                                   \
            OK(MPI_Wait(&request_, MPI_STATUS_IGNORE));                                                                \
        } else if (way == PERSISTENT) {                                                                                \
            OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_));                                              \
            started(&request_);                                                                                        \
        } else                                                                                                         \
            OK(MPI_##Name(__VA_ARGS__));                                                                               \
    } while (0)

/* Element `i` of what rank `from` has for rank `to`. */
static int of(int from, int to, int i)
{
    return from * 1000003 + to * 5003 + i;
}

static int *ints(size_t n)
{
    int *memory = allocate(n * sizeof(int));
    for (size_t i = 0; i < n; i++)
        memory[i] = -1;
    return memory;
}

#define ELEMENTS(got, n, from, to, what)                                                                               \
    for (int i_ = 0; i_ < (n); i_++)                                                                                   \
    SAME((got)[i_], of(from, to, i_), "%s, %d elements, part of rank %d, element %d", what, (n), (from), i_)

static void bcast(int n)
{
    int *buffer = ints(n);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < n; i++)
            buffer[i] = rank == root ? of(root, 0, i) : -1;
        CALL(Bcast, bcast, buffer, n, MPI_INT, root, comm);
        ELEMENTS(buffer, n, root, 0, "bcast");
    }
    free(buffer);
}

static void gather(int n)
{
    int *mine = ints(n), *all = ints((size_t)n * size);
    for (int i = 0; i < n; i++)
        mine[i] = of(rank, 0, i);
    for (int root = 0; root < size; root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            memset(all, 0xff, sizeof(int) * n * size);
            if (in_place && rank == root)
                memcpy(all + (size_t)n * rank, mine, sizeof(int) * n);
            CALL(Gather, gather, in_place && rank == root ? MPI_IN_PLACE : mine, n, MPI_INT, rank == root ? all : NULL, n,
                 MPI_INT, root, comm);
            if (rank == root)
                for (int from = 0; from < size; from++)
                    ELEMENTS(all + (size_t)n * from, n, from, 0, "gather");
        }
    free(mine);
    free(all);
}

static void scatter(int n)
{
    int *mine = ints(n), *all = ints((size_t)n * size);
    for (int root = 0; root < size; root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            memset(mine, 0xff, sizeof(int) * n);
            if (rank == root)
                for (int to = 0; to < size; to++)
                    for (int i = 0; i < n; i++)
                        all[(size_t)n * to + i] = of(root, to, i);
            int kept = in_place && rank == root;
            CALL(Scatter, scatter, rank == root ? all : NULL, n, MPI_INT, kept ? MPI_IN_PLACE : mine, n, MPI_INT, root, comm);
            ELEMENTS(kept ? all + (size_t)n * rank : mine, n, root, rank, "scatter");
        }
    free(mine);
    free(all);
}

static void allgather(int n)
{
    int *mine = ints(n), *all = ints((size_t)n * size);
    for (int i = 0; i < n; i++)
        mine[i] = of(rank, 0, i);
    for (int in_place = 0; in_place < 2; in_place++) {
        memset(all, 0xff, sizeof(int) * n * size);
        if (in_place)
            memcpy(all + (size_t)n * rank, mine, sizeof(int) * n);
        CALL(Allgather, allgather, in_place ? MPI_IN_PLACE : mine, n, MPI_INT, all, n, MPI_INT, comm);
        for (int from = 0; from < size; from++)
            ELEMENTS(all + (size_t)n * from, n, from, 0, "allgather");
    }
    free(mine);
    free(all);
}

static void alltoall(int n)
{
    int *out = ints((size_t)n * size), *in = ints((size_t)n * size);
    for (int to = 0; to < size; to++)
        for (int i = 0; i < n; i++)
            out[(size_t)n * to + i] = of(rank, to, i);
    CALL(Alltoall, alltoall, out, n, MPI_INT, in, n, MPI_INT, comm);
    for (int from = 0; from < size; from++)
        ELEMENTS(in + (size_t)n * from, n, from, rank, "alltoall");
    CALL(Alltoall, alltoall, MPI_IN_PLACE, n, MPI_INT, out, n, MPI_INT, comm);
    for (int from = 0; from < size; from++)
        ELEMENTS(out + (size_t)n * from, n, from, rank, "alltoall in place");
    free(out);
    free(in);
}

/* Parts of different lengths, some empty, laid out backwards with gaps. */
static int length_of(int of_rank, int n)
{
    return n == 0 ? 0 : (of_rank * 7 + 3) % (n + 1);
}

static void parts(int n, int *counts, int *places)
{
    int at = 2;
    for (int i = size - 1; i >= 0; i--) {
        counts[i] = length_of(i, n);
        places[i] = at;
        at += counts[i] + 3;
    }
}

static void gatherv_scatterv_allgatherv(int n)
{
    int counts[64], places[64], own = length_of(rank, n);
    size_t room = (size_t)(n + 3) * size + 2;
    int *mine = ints(n), *all = ints(room);
    parts(n, counts, places);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < own; i++)
            mine[i] = of(rank, 0, i);
        memset(all, 0xff, sizeof(int) * room);
        CALL(Gatherv, gatherv, mine, own, MPI_INT, all, counts, places, MPI_INT, root, comm);
        if (rank == root) {
            for (int from = 0; from < size; from++) {
                ELEMENTS(all + places[from], counts[from], from, 0, "gatherv");
                SAME(all[places[from] - 1], -1, "gatherv, gap before the part of rank %d", from);
            }
            for (int to = 0; to < size; to++)
                for (int i = 0; i < counts[to]; i++)
                    all[places[to] + i] = of(root, to, i);
        }
        memset(mine, 0xff, sizeof(int) * n);
        CALL(Scatterv, scatterv, all, counts, places, MPI_INT, mine, own, MPI_INT, root, comm);
        ELEMENTS(mine, own, root, rank, "scatterv");
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        memset(all, 0xff, sizeof(int) * room);
        for (int i = 0; i < own; i++)
            (in_place ? all + places[rank] : mine)[i] = of(rank, 0, i);
        CALL(Allgatherv, allgatherv, in_place ? MPI_IN_PLACE : mine, own, MPI_INT, all, counts, places, MPI_INT, comm);
        for (int from = 0; from < size; from++) {
            ELEMENTS(all + places[from], counts[from], from, 0, "allgatherv");
            SAME(all[places[from] - 1], -1, "allgatherv, gap before the part of rank %d", from);
        }
    }
    free(mine);
    free(all);
}

static void alltoallv(int n)
{
    int out_counts[64], out_places[64], in_counts[64], in_places[64], out_bytes[64], in_bytes[64];
    MPI_Datatype types[64];
    size_t room = (size_t)(n + 3) * size + 2;
    int *out = ints(room), *in = ints(room), at = 0, into = 1;
    for (int peer = 0; peer < size; peer++) {
        out_counts[peer] = length_of(rank * 3 + peer, n);
        in_counts[peer] = length_of(peer * 3 + rank, n);
        out_places[peer] = at;
        in_places[peer] = into;
        out_bytes[peer] = at * (int)sizeof(int);
        in_bytes[peer] = into * (int)sizeof(int);
        types[peer] = MPI_INT;
        for (int i = 0; i < out_counts[peer]; i++)
            out[at + i] = of(rank, peer, i);
        at += out_counts[peer];
        into += in_counts[peer] + 2;
    }
    CALL(Alltoallv, alltoallv, out, out_counts, out_places, MPI_INT, in, in_counts, in_places, MPI_INT, comm);
    for (int from = 0; from < size; from++) {
        ELEMENTS(in + in_places[from], in_counts[from], from, rank, "alltoallv");
        SAME(in[in_places[from] - 1], -1, "alltoallv, gap before the part of rank %d", from);
    }
    memset(in, 0xff, sizeof(int) * room);
    CALL(Alltoallw, alltoallw, out, out_counts, out_bytes, types, in, in_counts, in_bytes, types, comm);
    for (int from = 0; from < size; from++)
        ELEMENTS(in + in_places[from], in_counts[from], from, rank, "alltoallw");
    free(out);
    free(in);
}

static void reductions(int n)
{
    int64_t *mine = allocate(sizeof *mine * n * size), *got = allocate(sizeof *got * n * size);
    int counts[64], before = 0, total = 0;
    int64_t all = (int64_t)size * (size - 1) / 2, upto = (int64_t)rank * (rank + 1) / 2;
#define MINE(count)                                                                                                    \
    for (int i = 0; i < (count); i++)                                                                                  \
        mine[i] = (int64_t)rank * 1000 + i, got[i] = -1
    for (int in_place = 0; in_place < 2; in_place++) {
        MINE(n);
        int64_t *result = in_place ? mine : got;
        CALL(Allreduce, allreduce, in_place ? MPI_IN_PLACE : mine, result, n, MPI_INT64_T, MPI_SUM, comm);
        for (int i = 0; i < n; i++)
            SAME(result[i], all * 1000 + (int64_t)i * size, "allreduce of %d, element %d", n, i);
        for (int root = 0; root < size; root++) {
            MINE(n);
            int kept = in_place && rank == root;
            CALL(Reduce, reduce, kept ? MPI_IN_PLACE : mine, kept ? mine : got, n, MPI_INT64_T, MPI_MAX, root, comm);
            for (int i = 0; i < n && rank == root; i++)
                SAME(result[i], (int64_t)(size - 1) * 1000 + i, "reduce of %d to %d, element %d", n, root, i);
        }
        MINE(n);
        CALL(Scan, scan, in_place ? MPI_IN_PLACE : mine, result, n, MPI_INT64_T, MPI_SUM, comm);
        for (int i = 0; i < n; i++)
            SAME(result[i], upto * 1000 + (int64_t)i * (rank + 1), "scan of %d, element %d", n, i);
        MINE(n);
        CALL(Exscan, exscan, in_place ? MPI_IN_PLACE : mine, result, n, MPI_INT64_T, MPI_SUM, comm);
        for (int i = 0; i < n && rank > 0; i++)
            SAME(result[i], (upto - rank) * 1000 + (int64_t)i * rank, "exscan of %d, element %d", n, i);
        MINE(n * size);
        CALL(Reduce_scatter_block, reduce_scatter_block, in_place ? MPI_IN_PLACE : mine, result, n, MPI_INT64_T, MPI_SUM, comm);
        for (int i = 0; i < n; i++)
            SAME(result[i], all * 1000 + ((int64_t)rank * n + i) * size, "reduce_scatter_block of %d, element %d", n,
                 i);
        before = total = 0;
        for (int i = 0; i < size; i++) {
            counts[i] = length_of(i, n);
            before += i < rank ? counts[i] : 0;
            total += counts[i];
        }
        MINE(total);
        CALL(Reduce_scatter, reduce_scatter, in_place ? MPI_IN_PLACE : mine, result, counts, MPI_INT64_T, MPI_SUM, comm);
        for (int i = 0; i < counts[rank]; i++)
            SAME(result[i], all * 1000 + ((int64_t)before + i) * size, "reduce_scatter of %d, element %d", n, i);
    }
    free(mine);
    free(got);
}

/* Nobody leaves before the last has come: by the clock that all share. */
static void barrier(void)
{
    int64_t *times = allocate(sizeof *times * size), came, left;
    for (int slow = 0; slow < size && slow < 3; slow++) {
        if (rank == slow)
            usleep(3000);
        came = now_ns();
        if (way == NOW)
            MPI_Barrier(comm);
        else {
            MPI_Request request;
            int flag = 0;
            if (way == LATER)
                MPI_Ibarrier(comm, &request);
            else {
                MPI_Barrier_init(comm, MPI_INFO_NULL, &request);
                MPI_Start(&request);
            }
            while (!flag)
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            if (way == PERSISTENT)
                MPI_Request_free(&request);
        }
        left = now_ns();
        MPI_Allgather(&came, 1, MPI_INT64_T, times, 1, MPI_INT64_T, comm);
        for (int i = 0; i < size; i++)
            CHECK(times[i] <= left, "the barrier was left %lld ns before rank %d came", (long long)(times[i] - left), i);
    }
    free(times);
}

/* Several at once, ended in another order than begun, with messages in between. */
static void at_once(void)
{
    enum { N = 10 };
    MPI_Request requests[N];
    int sums[N], ones[N], roots[N];
    for (int i = 0; i < N; i++) {
        ones[i] = i + rank;
        roots[i] = rank == i % size ? 77 + i : -1;
        if (i % 2)
            MPI_Iallreduce(&ones[i], &sums[i], 1, MPI_INT, MPI_SUM, comm, &requests[i]);
        else
            MPI_Ibcast(&roots[i], 1, MPI_INT, i % size, comm, &requests[i]);
    }
    int out = rank, in = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 9, &in, 1, MPI_INT, (rank + size - 1) % size, 9, comm,
                 MPI_STATUS_IGNORE);
    SAME(in, (rank + size - 1) % size, "message amid collectives");
    MPI_Barrier(comm);
    for (int i = N - 1; i >= N / 2; i--)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    MPI_Waitall(N / 2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++)
        if (i % 2)
            SAME(sums[i], size * i + size * (size - 1) / 2, "sum %d of several", i);
        else
            SAME(roots[i], 77 + i, "broadcast %d of several", i);
}

static void everything(MPI_Comm on, int most)
{
    const int counts[] = {0, 1, 5, 100, 3000, 50000};
    comm = on;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    CHECK(size <= 64, "at most 64 ranks, not %d", size);
    barrier();
    for (size_t i = 0; i < sizeof counts / sizeof *counts && counts[i] <= most; i++) {
        bcast(counts[i]);
        gather(counts[i]);
        scatter(counts[i]);
        allgather(counts[i]);
        alltoall(counts[i]);
        gatherv_scatterv_allgatherv(counts[i]);
        alltoallv(counts[i]);
        reductions(counts[i]);
    }
    at_once();
}

int main(int argc, char **argv)
{
    MPI_Comm half, copy;
    begin(&argc, &argv);
    for (way = NOW; way < WAYS; way++) {
        if (brief()) {
            everything(MPI_COMM_WORLD, 3000);
            continue;
        }
        everything(MPI_COMM_WORLD, 50000);
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        everything(copy, 100);
        MPI_Comm_split(copy, me % 2, -me, &half);
        everything(half, 3000);
        MPI_Comm_free(&half);
        MPI_Comm_free(&copy);
        everything(MPI_COMM_SELF, 100);
    }
    return end("collectives");
}
