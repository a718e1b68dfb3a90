/* Many nonblocking and persistent collective operations at once, on several communicators, with messages between, started in another
 * order on each rank where that is allowed, and completed in any order by any call. The ranks draw the same operations; each draws for
 * itself in which order and how it starts and completes them. With "threads", several threads of each rank do so, each on communicators
 * of its own.
 * usage: many_collectives [ROUNDS] [SEED] [threads]   (a failure names the seed) */
#include "check.h"
#include <pthread.h>

enum { COMMS = 4, KEPT = 10, FRESH = 4, PASSED = 4, ALL = KEPT + FRESH + PASSED, MOST = 64, THREADS = 3, PARTS = 4 };

enum kind { BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, ALLTOALLV, REDUCE, ALLREDUCE, BLOCK, SCAN, EXSCAN, KINDS };

static int seed, rounds;

struct group {
    MPI_Comm comm;
    int rank, size;
    /* Of an intercommunicator: the number of processes and the first of them in the world, of the other side. */
    int inter, there;
};

/* One operation, with its buffers: as many elements as all ranks have at most. */
struct operation {
    enum kind kind;
    const struct group *group;
    int root, count, which;
    int *send, *receive, counts[MOST], displs[MOST];
};

struct world {
    int number;
    uint32_t shared, own;
    struct group groups[COMMS];
    struct operation operations[KEPT + FRESH];
    MPI_Request requests[ALL];
    int out[2], in[2], parts_out[PARTS], parts_in[PARTS];
    int drawn;
};

static uint32_t draw(uint32_t *state, uint32_t end)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 8) * end >> 24);
}

/* Element `i` that the process `from` of a group has for the process `to` in a round. */
static int of(const struct operation *it, int round, int from, int to, int i)
{
    return from * 7919 + to * 641 + i * 13 + round * 101 + it->which * 1009;
}

/* Across an intercommunicator: processes are named by their side as well. */
static int named(const struct group *group, int rank, int theirs)
{
    return group->inter ? rank * 2 + (group->inter % 2 == theirs) : rank;
}

#define MINE(rank) named(g, rank, 0)
#define THEIRS(rank) named(g, rank, g->inter != 0)

/* Draws an operation: the same on all ranks of the communicator. */
static void make(struct world *w, struct operation *it, int which)
{
    static const int counts[] = {1, 1, 7, 100, 3000, 20000};
    it->group = &w->groups[draw(&w->shared, COMMS)];
    it->kind = (enum kind)draw(&w->shared, KINDS);
    it->count = counts[draw(&w->shared, brief() ? 4 : 6)];
    uint32_t root = draw(&w->shared, 1000);
    const struct group *g = it->group;
    if (g->inter)
        /* Of those with a root only the broadcast; prefixes are of one group. */
        it->kind = it->kind == BARRIER || it->kind == BCAST || it->kind == ALLGATHER || it->kind == ALLTOALL ? it->kind : ALLREDUCE;
    it->root = (int)(root % (uint32_t)g->size);
    if (g->inter)
        it->root = g->inter % 2 == 0 ? 0 : g->rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    it->which = which;
    size_t room = (size_t)it->count * MOST;
    it->send = allocate(room * sizeof(int));
    it->receive = allocate(room * sizeof(int));
    for (int i = 0; i < g->size && i < MOST; i++) {
        it->counts[i] = it->count / 2;
        it->displs[i] = (g->size - 1 - i) * it->count;
    }
}

static void unmake(struct operation *it)
{
    free(it->send);
    free(it->receive);
}

static void prepare(const struct operation *it, int round)
{
    const struct group *g = it->group;
    int blocks = it->kind == SCATTER || it->kind == ALLTOALL || it->kind == ALLTOALLV || it->kind == BLOCK ? g->size : 1;
    if (g->inter && it->kind == ALLTOALL)
        blocks = g->there;
    for (int to = 0; to < blocks; to++)
        for (int i = 0; i < it->count; i++)
            it->send[(size_t)to * it->count + i] =
                of(it, round, MINE(g->rank), it->kind == ALLTOALL ? THEIRS(to) : to, i);
    if (it->kind == BCAST && g->rank != it->root && it->root != MPI_ROOT)
        memset(it->send, 0xff, it->count * sizeof(int));
    memset(it->receive, 0xff, (size_t)it->count * (g->inter ? g->there : g->size) * sizeof(int));
}

/* Begins it, or makes a persistent request of it. */
#define BEGIN(Name, name, ...)                                                                                         \
    (kept ? MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, request) : MPI_I##name(__VA_ARGS__, request))

static void begin_it(struct operation *it, int kept, MPI_Request *request)
{
    MPI_Comm comm = it->group->comm;
    int n = it->count, root = it->root;
    void *s = it->send, *r = it->receive;
    switch (it->kind) {
    case BARRIER: OK(BEGIN(Barrier, barrier, comm)); break;
    case BCAST: OK(BEGIN(Bcast, bcast, s, n, MPI_INT, root, comm)); break;
    case GATHER: OK(BEGIN(Gather, gather, s, n, MPI_INT, r, n, MPI_INT, root, comm)); break;
    case SCATTER: OK(BEGIN(Scatter, scatter, s, n, MPI_INT, r, n, MPI_INT, root, comm)); break;
    case ALLGATHER: OK(BEGIN(Allgather, allgather, s, n, MPI_INT, r, n, MPI_INT, comm)); break;
    case ALLTOALL: OK(BEGIN(Alltoall, alltoall, s, n, MPI_INT, r, n, MPI_INT, comm)); break;
    case ALLTOALLV:
        OK(BEGIN(Alltoallv, alltoallv, s, it->counts, it->displs, MPI_INT, r, it->counts, it->displs, MPI_INT, comm));
        break;
    case REDUCE: OK(BEGIN(Reduce, reduce, s, r, n, MPI_INT, MPI_SUM, root, comm)); break;
    case ALLREDUCE: OK(BEGIN(Allreduce, allreduce, s, r, n, MPI_INT, MPI_SUM, comm)); break;
    case BLOCK: OK(BEGIN(Reduce_scatter_block, reduce_scatter_block, s, r, n, MPI_INT, MPI_SUM, comm)); break;
    case SCAN: OK(BEGIN(Scan, scan, s, r, n, MPI_INT, MPI_SUM, comm)); break;
    case EXSCAN: OK(BEGIN(Exscan, exscan, s, r, n, MPI_INT, MPI_SUM, comm)); break;
    case KINDS: FAIL("no such operation");
    }
}

/* The sum of what the ranks from `first` to `end - 1` have for `to`. */
static int sum_of(const struct operation *it, int round, int first, int end, int to, int i)
{
    const struct group *g = it->group;
    unsigned sum = 0;
    for (int from = first; from < end; from++)
        sum += (unsigned)of(it, round, THEIRS(from), to, i);
    return (int)sum;
}

static void verify(const struct operation *it, int round)
{
    const struct group *g = it->group;
    int size = g->inter ? g->there : g->size, n = it->count, *r = it->receive;
    char what[128];
    snprintf(what, sizeof what, "seed %d, round %d, operation %d of kind %d", seed, round, it->which, it->kind);
#define EACH(blocks, expected)                                                                                         \
    for (int b = 0; b < (blocks); b++)                                                                                 \
        for (int i = 0; i < n; i++)                                                                                    \
    SAME(r[(size_t)b * n + i], expected, "%s, block %d, element %d", what, b, i)
    switch (it->kind) {
    case BARRIER: break;
    case BCAST:
        for (int i = 0; i < n && it->root != MPI_PROC_NULL; i++)
            SAME(it->send[i], of(it, round, it->root == MPI_ROOT ? MINE(g->rank) : THEIRS(it->root), 0, i), "%s, element %d", what, i);
        break;
    case GATHER:
        if (g->rank == it->root)
            EACH(size, of(it, round, b, 0, i));
        break;
    case SCATTER: EACH(1, of(it, round, it->root, g->rank, i)); break;
    case ALLGATHER: EACH(size, of(it, round, THEIRS(b), 0, i)); break;
    case ALLTOALL: EACH(size, of(it, round, THEIRS(b), MINE(g->rank), i)); break;
    case ALLTOALLV:
        /* Block `b` lies where that of the mirrored rank would, and the sender takes it from there. */
        EACH(size, i < n / 2 ? of(it, round, size - 1 - b, size - 1 - g->rank, i) : -1);
        break;
    case REDUCE:
        if (g->rank == it->root)
            EACH(1, sum_of(it, round, 0, size, 0, i));
        break;
    case ALLREDUCE: EACH(1, sum_of(it, round, 0, size, 0, i)); break;
    case BLOCK: EACH(1, sum_of(it, round, 0, size, g->rank, i)); break;
    case SCAN: EACH(1, sum_of(it, round, 0, g->rank + 1, 0, i)); break;
    case EXSCAN: EACH(1, g->rank == 0 ? -1 : sum_of(it, round, 0, g->rank, 0, i)); break;
    case KINDS: break;
    }
}

/* Messages that go round: a persistent receive and send, and a partitioned send and receive. */
static void make_passed(struct world *w)
{
    const struct group *g = &w->groups[0];
    int next = (g->rank + 1) % g->size, before = (g->rank + g->size - 1) % g->size;
    OK(MPI_Recv_init(w->in, 2, MPI_INT, before, 5, g->comm, &w->requests[KEPT + FRESH]));
    OK(MPI_Send_init(w->out, 2, MPI_INT, next, 5, g->comm, &w->requests[KEPT + FRESH + 1]));
    OK(MPI_Psend_init(w->parts_out, PARTS, 1, MPI_INT, next, 6, g->comm, MPI_INFO_NULL, &w->requests[KEPT + FRESH + 2]));
    OK(MPI_Precv_init(w->parts_in, PARTS, 1, MPI_INT, before, 6, g->comm, MPI_INFO_NULL, &w->requests[KEPT + FRESH + 3]));
}

static void completed(struct world *w, int at, int round)
{
    const struct group *g = &w->groups[0];
    if (at < KEPT + FRESH)
        verify(&w->operations[at], round);
    else if (at == KEPT + FRESH)
        SAME(w->in[0], ((g->rank + g->size - 1) % g->size) * 1000 + round, "seed %d, round %d: message", seed, round);
    else if (at == KEPT + FRESH + 3)
        for (int i = 0; i < PARTS; i++)
            SAME(w->parts_in[i], (g->rank + g->size - 1) % g->size * 100 + i + round, "seed %d, round %d: partition %d", seed,
                 round, i);
}

/* Completes all that is active, in any order; the array has null and inactive requests as well. */
static void complete(struct world *w, int active, int round)
{
    int done = 0;
    while (done < active) {
        int flag = 0, at, count, which[ALL];
        MPI_Status status, statuses[ALL];
        MPI_Request *all = w->requests;
        switch (draw(&w->own, 7)) {
        case 0:
            OK(MPI_Waitany(ALL, all, &at, &status));
            CHECK(at != MPI_UNDEFINED, "seed %d: %d of %d have ended, and none is active", seed, done, active);
            completed(w, at, round);
            done++;
            break;
        case 1:
            OK(MPI_Testany(ALL, all, &at, &flag, MPI_STATUS_IGNORE));
            if (flag) {
                completed(w, at, round);
                done++;
            }
            break;
        case 2:
        case 3:
            if (draw(&w->own, 2))
                OK(MPI_Waitsome(ALL, all, &count, which, statuses));
            else
                OK(MPI_Testsome(ALL, all, &count, which, MPI_STATUSES_IGNORE));
            CHECK(count != MPI_UNDEFINED, "seed %d: %d of %d have ended, and none is active", seed, done, active);
            for (int i = 0; i < count; i++)
                completed(w, which[i], round);
            done += count;
            break;
        case 4:
            OK(MPI_Testall(ALL, all, &flag, MPI_STATUSES_IGNORE));
            if (flag)
                done = active;
            break;
        case 5:
            at = (int)draw(&w->own, ALL);
            OK(MPI_Request_get_status(all[at], &flag, &status));
            break;
        default:
            if (draw(&w->own, 20) == 0) {
                OK(MPI_Waitall(ALL, all, statuses));
                done = active;
            }
        }
    }
    /* Those of which the calls above have not told. */
    for (int at = 0; at < ALL; at++)
        if (at < KEPT ? w->drawn >> at & 1 : 1)
            completed(w, at, round);
}

static void shuffle(struct world *w, int *list, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int other = (int)draw(&w->own, (uint32_t)i + 1), kept = list[i];
        list[i] = list[other];
        list[other] = kept;
    }
}

static void one_round(struct world *w, int round)
{
    int order[ALL], count = 0, fresh = 0;
    w->drawn = 0;
    for (int at = 0; at < KEPT; at++)
        if (draw(&w->shared, 3) > 0) {
            w->drawn |= 1 << at;
            order[count++] = at;
        }
    for (int at = KEPT + FRESH; at < ALL; at++)
        order[count++] = at;
    for (int at = 0; at < count; at++)
        if (order[at] < KEPT)
            prepare(&w->operations[order[at]], round);
    for (int at = KEPT; at < KEPT + FRESH; at++) {
        make(w, &w->operations[at], 100 + at);
        prepare(&w->operations[at], round);
    }
    const struct group *g = &w->groups[0];
    w->out[0] = g->rank * 1000 + round;
    w->out[1] = w->in[0] = -1;
    for (int i = 0; i < PARTS; i++)
        w->parts_out[i] = g->rank * 100 + i + round;
    shuffle(w, order, count);
    for (int at = 0; at < count;) {
        /* Nonblocking operations begin in the same order everywhere, the starts between them do not. */
        while (fresh < FRESH && draw(&w->own, 3) == 0) {
            begin_it(&w->operations[KEPT + fresh], 0, &w->requests[KEPT + fresh]);
            fresh++;
        }
        int some = 1 + (int)draw(&w->own, 4);
        if (some > count - at)
            some = count - at;
        if (some == 1)
            OK(MPI_Start(&w->requests[order[at]]));
        else {
            MPI_Request together[ALL];
            for (int i = 0; i < some; i++)
                together[i] = w->requests[order[at + i]];
            OK(MPI_Startall(some, together));
        }
        at += some;
    }
    for (; fresh < FRESH; fresh++)
        begin_it(&w->operations[KEPT + fresh], 0, &w->requests[KEPT + fresh]);
    OK(MPI_Pready_range(0, PARTS - 1, w->requests[KEPT + FRESH + 2]));
    if (draw(&w->shared, 4) == 0)
        OK(MPI_Barrier(w->groups[0].comm));
    complete(w, count + FRESH, round);
    for (int at = KEPT; at < KEPT + FRESH; at++) {
        SAME(w->requests[at], MPI_REQUEST_NULL, "a request that has ended");
        unmake(&w->operations[at]);
    }
}

static void set(struct group *group, MPI_Comm comm)
{
    group->comm = comm;
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(comm, &group->rank));
    OK(MPI_Comm_size(comm, &group->size));
    OK(MPI_Comm_test_inter(comm, &group->inter));
}

/* Collective over the world. */
static void open_world(struct world *w, int number)
{
    MPI_Comm comm;
    w->number = number;
    w->shared = (uint32_t)(seed * 31 + number * 1009);
    w->own = w->shared + (uint32_t)(me + 1) * 7919;
    for (int i = 0; i < 2; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        set(&w->groups[i], comm);
    }
    OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &comm));
    set(&w->groups[2], comm);
    if (ranks == 1)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    else
        OK(MPI_Intercomm_create(w->groups[2].comm, 0, MPI_COMM_WORLD, me % 2 ? (ranks - 1) / 2 * 2 : (ranks / 2 * 2) - 1, 7, &comm));
    set(&w->groups[3], comm);
    if (w->groups[3].inter) {
        w->groups[3].inter = 1 + (me % 2 == 0);
        OK(MPI_Comm_remote_size(comm, &w->groups[3].there));
    }
    for (int at = 0; at < ALL; at++)
        w->requests[at] = MPI_REQUEST_NULL;
    for (int at = 0; at < KEPT; at++) {
        make(w, &w->operations[at], at);
        begin_it(&w->operations[at], 1, &w->requests[at]);
    }
    make_passed(w);
}

/* The persistent requests, before or after their communicators. */
static void close_world(struct world *w)
{
    for (int turn = 0; turn < 2; turn++)
        if (turn == w->number % 2)
            for (int i = 0; i < COMMS; i++)
                OK(MPI_Comm_free(&w->groups[i].comm));
        else
            for (int at = 0; at < ALL; at++)
                if (w->requests[at] != MPI_REQUEST_NULL)
                    OK(MPI_Request_free(&w->requests[at]));
    for (int at = 0; at < KEPT; at++)
        unmake(&w->operations[at]);
}

static struct world worlds[THREADS];

static void *work(void *world)
{
    for (int round = 0; round < rounds; round++)
        one_round(world, round);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 3 && strcmp(argv[3], "threads") == 0 ? THREADS : 1;
    pthread_t others[THREADS];
    rounds = argc > 1 ? atoi(argv[1]) : 30;
    seed = argc > 2 ? atoi(argv[2]) : 1;
    begin_with(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    CHECK(ranks <= MOST, "at most %d ranks, not %d", MOST, ranks);
    for (int i = 0; i < threads; i++)
        open_world(&worlds[i], i + seed);
    for (int i = 1; i < threads; i++)
        SAME(pthread_create(&others[i], NULL, work, &worlds[i]), 0, "pthread_create");
    work(&worlds[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    for (int i = 0; i < threads; i++)
        close_world(&worlds[i]);
    return end("many_collectives");
}
