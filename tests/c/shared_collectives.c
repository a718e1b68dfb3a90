/* Blocking collective operations one after the other, of any kind, length and root, on communicators of all ranks and of some, with
 * messages between them and ranks that come late, by more than a wait takes to fall asleep. Communicators share memory from their third
 * operation on.
 *
 * usage: shared_collectives SEED OPERATIONS */
#include "check.h"

#define MOST 70000
#define PACKED 300000

static unsigned long long state;

/* The same on all ranks. */
static unsigned drawn(unsigned below)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % below;
}

/* The last one is for few ranks. */
#define LONG 40000
#define LONGEST 300000
static int counts[] = {0, 1, 2, 5, 11, 100, 511, 1030, 2000, 9000, LONG, LONGEST};
static int *own, *got, *expected;

/* The element `at` of a rank of the communicator in an operation. */
static int element(int rank, int at, int operation)
{
    return (rank + 1) * 1000003 + at * 31 + operation * 7;
}

static void compare(int number, int operation, const char *name)
{
    for (int at = 0; at < number; at++)
        SAME(got[at], expected[at], "operation %d, %s, element %d of %d", operation, name, at, number);
}

/* As many elements from rank a to rank b as back, 0, n / 2 or n. Where they are sent they are `gap` places apart. */
static void blocks_for_each(MPI_Comm comm, int operation, int n, int gap, int in_place, int by_types)
{
    int rank, size, lengths[64], starts[64], bytes[64], sent_bytes[64], end = 0;
    MPI_Datatype apart, types[64], sent_types[64];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Type_create_resized(MPI_INT, 0, gap * (MPI_Aint)sizeof(int), &apart);
    MPI_Type_commit(&apart);
    for (int other = 0; other < size; other++) {
        lengths[other] = n * ((rank + other) % 3) / 2;
        starts[other] = end;
        bytes[other] = end * (int)sizeof(int);
        sent_bytes[other] = gap * bytes[other];
        types[other] = MPI_INT;
        sent_types[other] = apart;
        for (int at = 0; at < lengths[other]; at++) {
            int sent = element(rank, other * n + at, operation);
            expected[end + at] = element(other, rank * n + at, operation);
            own[(end + at) * gap] = sent;
            got[end + at] = in_place ? sent : 0;
        }
        end += lengths[other];
    }
    const void *send = in_place ? MPI_IN_PLACE : own;
    if (by_types)
        MPI_Alltoallw(send, lengths, sent_bytes, sent_types, got, lengths, bytes, types, comm);
    else
        MPI_Alltoallv(send, lengths, starts, apart, got, lengths, starts, MPI_INT, comm);
    compare(end, operation, by_types ? "MPI_Alltoallw" : "MPI_Alltoallv");
    MPI_Type_free(&apart);
}

/* One operation of the communicator. */
static void operate(MPI_Comm comm, int operation)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    unsigned kind = drawn(14), count = (unsigned)counts[drawn(sizeof counts / sizeof *counts)];
    int root = (int)drawn((unsigned)size), in_place = drawn(3) == 0, late = (int)drawn(40);
    if (size > 3 && count > LONG)
        count = LONG / 2;
    int n = (int)count;
    if (late < size && late == rank)
        usleep(1000 * (1 + (unsigned)operation % 7));
    for (int at = 0; at < n * size; at++)
        own[at] = element(rank, at, operation);
    memset(got, 0x55, sizeof *got * (size_t)(n * size + 1));
    switch (kind) {
    case 0:
        MPI_Barrier(comm);
        break;
    case 1:
        for (int at = 0; at < n; at++)
            expected[at] = element(root, at, operation);
        if (rank == root)
            memcpy(got, own, sizeof *got * count);
        MPI_Bcast(got, n, MPI_INT, root, comm);
        compare(n, operation, "MPI_Bcast");
        break;
    case 2:
    case 3: {
        for (int at = 0; at < n; at++) {
            expected[at] = 0;
            for (int other = 0; other < size; other++)
                expected[at] += element(other, at, operation);
        }
        if (in_place)
            memcpy(got, own, sizeof *got * count);
        const void *send = in_place ? MPI_IN_PLACE : own;
        if (kind == 2) {
            MPI_Allreduce(send, got, n, MPI_INT, MPI_SUM, comm);
            compare(n, operation, "MPI_Allreduce");
        } else {
            MPI_Reduce(rank == root ? send : own, rank == root ? got : NULL, n, MPI_INT, MPI_SUM, root, comm);
            if (rank == root)
                compare(n, operation, "MPI_Reduce");
        }
        break;
    }
    case 4:
    case 5: {
        /* Each rank's first elements for all, or its block for each. */
        for (int other = 0; other < size; other++)
            for (int at = 0; at < n; at++)
                expected[other * n + at] = element(other, kind == 4 ? at : rank * n + at, operation);
        if (kind == 4) {
            if (in_place)
                memcpy(got + rank * n, own, sizeof *got * count);
            MPI_Allgather(in_place ? MPI_IN_PLACE : own, n, MPI_INT, got, n, MPI_INT, comm);
        } else {
            if (in_place)
                memcpy(got, own, sizeof *got * (size_t)(n * size));
            MPI_Alltoall(in_place ? MPI_IN_PLACE : own, n, MPI_INT, got, n, MPI_INT, comm);
        }
        compare(n * size, operation, kind == 4 ? "MPI_Allgather" : "MPI_Alltoall");
        break;
    }
    case 6:
        for (int other = 0; other < size; other++)
            for (int at = 0; at < n; at++)
                expected[other * n + at] = element(other, at, operation);
        MPI_Gather(own, n, MPI_INT, rank == root ? got : NULL, n, MPI_INT, root, comm);
        if (rank == root)
            compare(n * size, operation, "MPI_Gather");
        break;
    case 7:
        for (int at = 0; at < n; at++)
            expected[at] = element(root, rank * n + at, operation);
        MPI_Scatter(rank == root ? own : NULL, n, MPI_INT, got, n, MPI_INT, root, comm);
        compare(n, operation, "MPI_Scatter");
        break;
    case 8: {
        for (int at = 0; at < n; at++) {
            expected[at] = 0;
            for (int other = 0; other <= rank; other++)
                expected[at] += element(other, at, operation);
        }
        MPI_Scan(own, got, n, MPI_INT, MPI_SUM, comm);
        compare(n, operation, "MPI_Scan");
        break;
    }
    case 9: {
        for (int at = 0; at < n; at++) {
            expected[at] = 0;
            for (int other = 0; other < size; other++)
                expected[at] += element(other, rank * n + at, operation);
        }
        MPI_Reduce_scatter_block(own, got, n, MPI_INT, MPI_SUM, comm);
        compare(n, operation, "MPI_Reduce_scatter_block");
        break;
    }
    case 10:
    case 11:
        blocks_for_each(comm, operation, n / (2 * size), 1 + (int)drawn(2), in_place, kind == 11);
        break;
    case 12: {
        /* Rank r gets r times so many. */
        int lengths[64], starts[64], end = 0;
        n = n / size;
        for (int other = 0; other < size; other++) {
            lengths[other] = n * other;
            starts[other] = end;
            end += lengths[other];
        }
        for (int at = 0; at < lengths[rank]; at++)
            expected[at] = element(root, starts[rank] + at, operation);
        for (int at = 0; at < end; at++)
            own[at] = element(rank, at, operation);
        MPI_Scatterv(rank == root ? own : NULL, lengths, starts, MPI_INT, got, lengths[rank], MPI_INT, root, comm);
        compare(lengths[rank], operation, "MPI_Scatterv");
        break;
    }
    default: {
        /* Blocks of different lengths: rank r gives r + 1 elements more. */
        int lengths[64], starts[64], end = 0;
        n = n > 2000 ? 2000 : n;
        for (int other = 0; other < size; other++) {
            lengths[other] = n + other + 1;
            starts[other] = end;
            end += lengths[other];
            for (int at = 0; at < lengths[other]; at++)
                expected[starts[other] + at] = element(other, at, operation);
        }
        for (int at = 0; at < lengths[rank]; at++)
            own[at] = element(rank, at, operation);
        if (in_place) {
            MPI_Allgatherv(own, lengths[rank], MPI_INT, got, lengths, starts, MPI_INT, comm);
            compare(end, operation, "MPI_Allgatherv");
        } else {
            MPI_Gatherv(own, lengths[rank], MPI_INT, rank == root ? got : NULL, lengths, starts, MPI_INT, root, comm);
            if (rank == root)
                compare(end, operation, "MPI_Gatherv");
        }
        break;
    }
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int operations = argc > 2 ? atoi(argv[2]) : 300;
    CHECK(ranks <= 64, "for up to 64 ranks");
    size_t elements = 2 * (size_t)PACKED * (size_t)(ranks + 1) + 3 * LONGEST;
    own = malloc(sizeof *own * elements);
    got = malloc(sizeof *got * elements);
    expected = malloc(sizeof *expected * elements);

    MPI_Comm duplicate, half, reverse;
    MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &reverse);
    MPI_Comm comms[] = {MPI_COMM_WORLD, duplicate, half, reverse};
    for (int operation = 0; operation < operations; operation++) {
        /* On communicators of some ranks the others do the same among themselves. */
        MPI_Comm comm = comms[drawn(4)];
        /* A message that ends only after the operation. */
        int with_message = drawn(4) == 0, long_one = (int)drawn(2), length = long_one ? MOST : 10;
        static int sent[MOST], received[MOST];
        MPI_Request requests[2];
        if (with_message) {
            for (int at = 0; at < length; at++)
                sent[at] = me + operation + at;
            MPI_Irecv(received, length, MPI_INT, (me + ranks - 1) % ranks, operation, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(sent, length, MPI_INT, (me + 1) % ranks, operation, MPI_COMM_WORLD, &requests[1]);
        }
        unsigned long long before = state;
        operate(comm, operation);
        /* Ranks of communicators of different sizes have drawn the same number of times, but may not have used the same. */
        state = before + 1;
        if (with_message) {
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            for (int at = 0; at < length; at++)
                SAME(received[at], (me + ranks - 1) % ranks + operation + at, "the message during operation %d", operation);
        }
    }
    /* So long that what is packed for others to read goes in several pieces. */
    for (int operation = 0; operation < 4; operation++)
        blocks_for_each(MPI_COMM_WORLD, operation, PACKED, 2, operation % 2, operation / 2);
    MPI_Comm_free(&reverse);
    MPI_Comm_free(&half);
    MPI_Comm_free(&duplicate);
    return end("shared_collectives");
}
