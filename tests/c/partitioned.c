/* Partitioned communication (MPI 5.0 chapter 4): any partitions on both sides, early ones seen early, from several threads,
 * found in the order of the init calls and by nothing else. */
#include "check.h"
#include <pthread.h>

static const MPI_Comm world = MPI_COMM_WORLD;
static int next, before;

/* Says so to the rank whose partitions come here, and hears it from the one where this rank's go. */
static void content(void)
{
    MPI_Sendrecv(NULL, 0, MPI_BYTE, before, 900, NULL, 0, MPI_BYTE, next, 900, world, MPI_STATUS_IGNORE);
}

static int arrived(MPI_Request request, int partition)
{
    int flag = -1;
    OK(MPI_Parrived(request, partition, &flag));
    CHECK(flag == 0 || flag == 1, "MPI_Parrived's flag is %d", flag);
    return flag;
}

static void await(MPI_Request request, int partition)
{
    while (!arrived(request, partition))
        ;
}

/* All ready, in several orders and ways. */
static void ready(int partitions, MPI_Request request, int how)
{
    int *list = allocate(partitions * sizeof(int));
    for (int i = 0; i < partitions; i++)
        list[i] = (int)((i * 7919L + how) % partitions);
    switch (how % 4) {
    case 0:
        for (int i = 0; i < partitions; i++)
            OK(MPI_Pready(i, request));
        break;
    case 1:
        for (int i = partitions - 1; i >= 0; i--)
            OK(MPI_Pready(i, request));
        break;
    case 2:
        if (partitions > 1)
            OK(MPI_Pready_range(partitions / 2, partitions - 1, request));
        if (partitions > 0)
            OK(MPI_Pready_range(0, partitions > 1 ? partitions / 2 - 1 : 0, request));
        break;
    default:
        OK(MPI_Pready_list(partitions / 3, list, request));
        OK(MPI_Pready_list(0, NULL, request));
        OK(MPI_Pready_list(partitions - partitions / 3, list + partitions / 3, request));
    }
    free(list);
}

/* Different partitions on the two sides, which are started again and again. */
static void shapes(void)
{
    /* Partitions and bytes of each, of the send and of the receive. */
    static const int shapes[][4] = {
        {1, 4, 1, 4},           {4, 8, 4, 8},         {6, 4, 4, 6},           {4, 6, 6, 4},      {1, 5000, 5, 1000},
        {7, 30000, 1, 210000},  {100, 10, 10, 100},   {10, 100, 100, 10},     {1000, 3, 300, 10}, {1000, 4, 64, 63},
        {3, 100000, 4, 75000},  {0, 7, 0, 9},         {3, 0, 5, 0},           {0, 100, 2, 0},    {7000, 1, 3, 2333},
    };
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
        const int *s = shapes[shape];
        /* The receive may be larger. */
        int bytes = s[0] * s[1], room = s[2] * s[3] > bytes ? s[2] * s[3] : bytes;
        if (s[2] * s[3] < bytes)
            bytes = s[2] * s[3];
        unsigned char *out = allocate(s[0] * s[1]), *in = allocate(room);
        MPI_Request requests[2];
        MPI_Status statuses[2];
        /* One side with large counts. */
        OK(MPI_Psend_init_c(out, s[0], s[1], MPI_BYTE, next, 5, world, MPI_INFO_NULL, &requests[0]));
        OK(MPI_Precv_init(in, s[2], s[3], MPI_BYTE, before, 5, world, MPI_INFO_NULL, &requests[1]));
        const MPI_Request copies[2] = {requests[0], requests[1]};
        for (int round = 0; round < (brief() ? 2 : 4); round++) {
            fill(out, s[0] * s[1], 100 * me + round);
            memset(in, 0, room);
            if (round == 0) {
                OK(MPI_Start(&requests[0]));
                ready(s[0], requests[0], round);
                OK(MPI_Start(&requests[1]));
            } else {
                OK(MPI_Startall(2, requests));
                ready(s[0], requests[0], round);
            }
            if (s[0] * s[1] > s[2] * s[3]) {
                OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
                SAME(class_of(MPI_Wait(&requests[1], MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE, "too small a receive");
                continue;
            }
            if (round == 1)
                for (int i = s[2] - 1; i >= 0; i--)
                    await(requests[1], i);
            if (round % 2 == 0)
                OK(MPI_Waitall(2, requests, statuses));
            else
                for (int flag = 0; !flag;)
                    OK(MPI_Testall(2, requests, &flag, statuses));
            CHECK(requests[0] == copies[0] && requests[1] == copies[1], "a handle has changed");
            STATUS_EMPTY(statuses[0]);
            STATUS(statuses[1], before, 5, bytes);
            FILLED(in, bytes, 100 * before + round, "partitioned message");
        }
        if (s[2] > 0)
            SAME(arrived(requests[1], 0), 1, "MPI_Parrived of an inactive request");
        for (int i = 0; i < 2; i++) {
            OK(MPI_Request_free(&requests[i]));
            CHECK(requests[i] == MPI_REQUEST_NULL, "a freed request is not null");
        }
        free(out);
        free(in);
    }
}

/* A partition arrives as soon as it is ready, and no other with it. */
static void early(int bytes)
{
    enum { N = 8 };
    unsigned char *out = allocate(N * bytes), *in = allocate(N * bytes);
    MPI_Request send, receive;
    OK(MPI_Psend_init(out, N, bytes, MPI_BYTE, next, 6, world, MPI_INFO_NULL, &send));
    /* A receive partition is two of the sender's. */
    OK(MPI_Precv_init(in, N / 2, 2 * bytes, MPI_BYTE, before, 6, world, MPI_INFO_NULL, &receive));
    for (int round = 0; round < 2; round++) {
        OK(MPI_Start(&receive));
        for (int i = 0; i < N / 2; i++)
            SAME(arrived(receive, i), 0, "MPI_Parrived before the send is started");
        content();
        OK(MPI_Start(&send));
        for (int step = 0; step < N / 2; step++) {
            int pair = (step * 3 + round) % (N / 2);
            fill(out + 2 * pair * bytes, 2 * bytes, 10 * me + pair + round);
            OK(MPI_Pready(2 * pair + 1, send));
            content();
            SAME(arrived(receive, pair), 0, "MPI_Parrived of half a partition");
            content();
            OK(MPI_Pready(2 * pair, send));
            await(receive, pair);
            SAME(arrived(receive, pair), 1, "MPI_Parrived again");
            FILLED(in + 2 * pair * bytes, 2 * bytes, 10 * before + pair + round, "early partition");
            for (int later = step + 1; later < N / 2; later++)
                SAME(arrived(receive, (later * 3 + round) % (N / 2)), 0, "MPI_Parrived of a later partition");
            content();
        }
        OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    free(out);
    free(in);
}

/* Holes, of which the parts of messages know nothing: a message of the sender ends within an element of the receiver. */
static void types(void)
{
    enum { INTS = 30 };
    int out[2 * INTS], in[2 * INTS];
    MPI_Datatype every_other, pair;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    OK(MPI_Type_vector(5, 1, 2, MPI_INT, &every_other));
    OK(MPI_Type_create_resized(every_other, 0, 10 * sizeof(int), &every_other));
    OK(MPI_Type_commit(&every_other));
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &pair));
    OK(MPI_Type_commit(&pair));
    for (int swap = 0; swap < 2; swap++) {
        int sends = swap ? 6 : 10, receives = swap ? 10 : 6;
        OK(MPI_Psend_init(out, sends, swap ? 1 : 3, swap ? every_other : pair, next, 7, world, MPI_INFO_NULL,
                          &requests[0]));
        OK(MPI_Precv_init(in, receives, swap ? 3 : 1, swap ? pair : every_other, before, 7, world, MPI_INFO_NULL,
                          &requests[1]));
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 2 * INTS; i++)
                out[i] = 1000 * me + i + round, in[i] = -1;
            OK(MPI_Startall(2, requests));
            ready(sends, requests[0], round);
            OK(MPI_Waitall(2, requests, statuses));
            STATUS(statuses[1], before, 7, (int)(INTS * sizeof(int)));
            int count;
            OK(MPI_Get_count(&statuses[1], MPI_INT, &count));
            SAME(count, INTS, "MPI_Get_count");
            for (int i = 0; i < 2 * INTS; i++)
                SAME(in[i], i % 2 ? -1 : 1000 * before + i + round, "integer %d", i);
        }
        OK(MPI_Request_free(&requests[0]));
        OK(MPI_Request_free(&requests[1]));
    }
    OK(MPI_Type_free(&every_other));
    OK(MPI_Type_free(&pair));
}

/* By the order of the init calls, whatever the order of the starts; neither with ordinary messages nor seen by probes. */
static void matching(void)
{
    enum { N = 3, PARTITIONS = 4 };
    MPI_Comm comm;
    OK(MPI_Comm_dup(world, &comm));
    int out[N][PARTITIONS], in[N][PARTITIONS], ordinary = -1, flag;
    MPI_Request sends[N], receives[N], request, wild;
    MPI_Status status;
    /* A pair that is freed without a start still counts. */
    OK(MPI_Psend_init(out[0], PARTITIONS, 1, MPI_INT, next, 8, comm, MPI_INFO_NULL, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_Precv_init(in[0], PARTITIONS, 1, MPI_INT, before, 8, comm, MPI_INFO_NULL, &request));
    OK(MPI_Request_free(&request));
    for (int i = 0; i < N; i++) {
        OK(MPI_Psend_init(out[i], PARTITIONS, 1, MPI_INT, next, 8, comm, MPI_INFO_NULL, &sends[i]));
        OK(MPI_Precv_init(in[i], PARTITIONS, 1, MPI_INT, before, 8, comm, MPI_INFO_NULL, &receives[i]));
    }
    OK(MPI_Irecv(&ordinary, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &wild));
    for (int round = 0; round < 3; round++) {
        for (int i = N - 1; i >= 0; i--) {
            for (int k = 0; k < PARTITIONS; k++)
                out[i][k] = 1000 * me + 100 * i + 10 * k + round, in[i][k] = -1;
            OK(MPI_Start(&sends[i]));
            OK(MPI_Pready_range(0, PARTITIONS - 1, sends[i]));
        }
        content();
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0, "a probe sees a partitioned message");
        OK(MPI_Startall(N, receives));
        for (int left = N; left > 0; left--) {
            int index;
            OK(MPI_Waitany(N, receives, &index, &status));
            CHECK(index >= 0 && index < N, "MPI_Waitany's index is %d", index);
            STATUS(status, before, 8, (int)sizeof in[0]);
            for (int k = 0; k < PARTITIONS; k++)
                SAME(in[index][k], 1000 * before + 100 * index + 10 * k + round, "partition %d of pair %d", k, index);
        }
        OK(MPI_Waitall(N, sends, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Test(&wild, &flag, &status));
    SAME(flag, 0, "an ordinary receive has matched partitioned communication");
    together(world);
    OK(MPI_Send(&me, 1, MPI_INT, next, 8, comm));
    OK(MPI_Wait(&wild, &status));
    STATUS(status, before, 8, (int)sizeof(int));
    SAME(ordinary, before, "ordinary message of the same tag");
    /* The requests outlive the communicator's handle. */
    OK(MPI_Comm_free(&comm));
    OK(MPI_Startall(N, sends));
    OK(MPI_Startall(N, receives));
    for (int i = 0; i < N; i++)
        OK(MPI_Pready_range(0, PARTITIONS - 1, sends[i]));
    OK(MPI_Waitall(N, receives, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(N, sends, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++) {
        OK(MPI_Request_free(&sends[i]));
        OK(MPI_Request_free(&receives[i]));
    }
}

enum { THREADS = 4, PER_THREAD = 40 };

struct work {
    MPI_Request send, receive;
    unsigned char *out, *in;
    int thread, bytes, round;
};

/* Each thread fills its partitions, says that they are ready, and waits for those of the other side's same thread. */
static void *work(void *argument)
{
    const struct work *work = argument;
    for (int i = 0; i < PER_THREAD; i++) {
        int partition = work->thread + i * THREADS;
        fill(work->out + partition * work->bytes, work->bytes, 1000 * me + partition + work->round);
        OK(MPI_Pready(partition, work->send));
    }
    for (int i = PER_THREAD - 1; i >= 0; i--) {
        int partition = work->thread + i * THREADS;
        await(work->receive, partition);
        FILLED(work->in + partition * work->bytes, work->bytes, 1000 * before + partition + work->round,
               "partition of a thread");
    }
    return NULL;
}

static void *wait_for(void *request)
{
    OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    return NULL;
}

static void threads(int bytes, int rounds)
{
    const int partitions = THREADS * PER_THREAD;
    unsigned char *out = allocate(partitions * bytes), *in = allocate(partitions * bytes);
    MPI_Request send, receive;
    OK(MPI_Psend_init(out, partitions, bytes, MPI_BYTE, next, 9, world, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, partitions, bytes, MPI_BYTE, before, 9, world, MPI_INFO_NULL, &receive));
    for (int round = 0; round < rounds; round++) {
        struct work works[THREADS];
        pthread_t ids[THREADS], waiter;
        memset(in, 0, partitions * bytes);
        OK(MPI_Start(&receive));
        OK(MPI_Start(&send));
        MPI_Request copy = send;
        /* It sleeps, perhaps, until the last partition is ready. */
        pthread_create(&waiter, NULL, wait_for, &send);
        for (int i = 0; i < THREADS; i++) {
            works[i] = (struct work){copy, receive, out, in, i, bytes, round};
            pthread_create(&ids[i], NULL, work, &works[i]);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(ids[i], NULL);
        pthread_join(waiter, NULL);
        OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    free(out);
    free(in);
}

static void nobody(void)
{
    int value[4] = {1, 2, 3, 4};
    MPI_Request send, receive;
    MPI_Status status;
    OK(MPI_Psend_init(value, 4, 1, MPI_INT, MPI_PROC_NULL, 0, world, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init_c(value, 4, 1, MPI_INT, MPI_PROC_NULL, 0, world, MPI_INFO_NULL, &receive));
    for (int round = 0; round < 3; round++) {
        OK(MPI_Start(&send));
        OK(MPI_Start(&receive));
        if (round > 0)
            OK(MPI_Pready_range(0, 3, send));
        SAME(arrived(receive, 3), 1, "MPI_Parrived of MPI_PROC_NULL");
        OK(MPI_Wait(&send, &status));
        STATUS_EMPTY(status);
        OK(MPI_Wait(&receive, &status));
        STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
        SAME(value[3], 4, "buffer of a receive from MPI_PROC_NULL");
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
}

/* Between two groups, where ranks name the others. */
static void between(void)
{
    if (ranks < 2)
        return;
    MPI_Comm half, inter;
    OK(MPI_Comm_split(world, me % 2, me, &half));
    OK(MPI_Intercomm_create(half, 0, world, 1 - me % 2, 11, &inter));
    int others, out[3], in[3] = {0};
    OK(MPI_Comm_remote_size(inter, &others));
    if (me / 2 < others) {
        /* Rank 2k and rank 2k + 1 of the world. */
        int other = me ^ 1;
        MPI_Request requests[2];
        OK(MPI_Psend_init(out, 3, 1, MPI_INT, me / 2, 1, inter, MPI_INFO_NULL, &requests[0]));
        OK(MPI_Precv_init(in, 1, 3, MPI_INT, me / 2, 1, inter, MPI_INFO_NULL, &requests[1]));
        OK(MPI_Startall(2, requests));
        for (int i = 0; i < 3; i++) {
            out[i] = 10 * me + i;
            OK(MPI_Pready(i, requests[0]));
        }
        MPI_Status statuses[2];
        OK(MPI_Waitall(2, requests, statuses));
        STATUS(statuses[1], me / 2, 1, (int)sizeof in);
        for (int i = 0; i < 3; i++)
            SAME(in[i], 10 * other + i, "partition of the remote group");
        OK(MPI_Request_free(&requests[0]));
        OK(MPI_Request_free(&requests[1]));
    }
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

static void errors(void)
{
    int value[4] = {0}, in[4], flag, list[3] = {0, 4, 1}, twice[2] = {1, 1};
    char beyond[32];
    MPI_Request request, send, receive, ordinary, persistent, null = MPI_REQUEST_NULL;
    snprintf(beyond, sizeof beyond, "%d", ranks);
    ERROR(MPI_ERR_COUNT, MPI_Psend_init(value, -2, 1, MPI_INT, 0, 0, world, MPI_INFO_NULL, &request), "partitions", "-2");
    ERROR(MPI_ERR_COUNT, MPI_Precv_init(value, -3, 1, MPI_INT, 0, 0, world, MPI_INFO_NULL, &request), "partitions", "-3");
    ERROR(MPI_ERR_COUNT, MPI_Psend_init(value, 1, -4, MPI_INT, 0, 0, world, MPI_INFO_NULL, &request), "count", "-4");
    ERROR(MPI_ERR_COUNT, MPI_Precv_init_c(value, 1, -5, MPI_INT, 0, 0, world, MPI_INFO_NULL, &request), "count", "-5");
    ERROR(MPI_ERR_COUNT,
          MPI_Psend_init_c(value, 1000, INT64_MAX / 100, MPI_INT, 0, 0, world, MPI_INFO_NULL, &request), "bytes");
    ERROR(MPI_ERR_TYPE, MPI_Psend_init(value, 1, 1, MPI_DATATYPE_NULL, 0, 0, world, MPI_INFO_NULL, &request),
          "MPI_DATATYPE_NULL");
    ERROR(MPI_ERR_RANK, MPI_Psend_init(value, 1, 1, MPI_INT, ranks, 0, world, MPI_INFO_NULL, &request), "destination",
          beyond);
    ERROR(MPI_ERR_RANK, MPI_Precv_init(value, 1, 1, MPI_INT, ranks, 0, world, MPI_INFO_NULL, &request), "source", beyond);
    ERROR(MPI_ERR_RANK, MPI_Precv_init(value, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, world, MPI_INFO_NULL, &request),
          "MPI_ANY_SOURCE");
    ERROR(MPI_ERR_TAG, MPI_Precv_init(value, 1, 1, MPI_INT, 0, MPI_ANY_TAG, world, MPI_INFO_NULL, &request),
          "MPI_ANY_TAG");
    ERROR(MPI_ERR_TAG, MPI_Psend_init(value, 1, 1, MPI_INT, 0, -7, world, MPI_INFO_NULL, &request), "tag", "-7");
    ERROR(MPI_ERR_COMM, MPI_Psend_init(value, 1, 1, MPI_INT, 0, 0, MPI_COMM_NULL, MPI_INFO_NULL, &request),
          "MPI_COMM_NULL");
    ERROR(MPI_ERR_INFO, MPI_Precv_init(value, 1, 1, MPI_INT, 0, 0, world, (MPI_Info)value, &request), "info");
    ERROR(MPI_ERR_BUFFER, MPI_Psend_init(NULL, 2, 3, MPI_INT, 0, 0, world, MPI_INFO_NULL, &request), "buf");
    ERROR(MPI_ERR_ARG, MPI_Psend_init(value, 1, 1, MPI_INT, 0, 0, world, MPI_INFO_NULL, NULL), "request");
    ERROR(MPI_ERR_ARG, MPI_Precv_init(value, 1, 1, MPI_INT, 0, 0, world, MPI_INFO_NULL, NULL), "request");

    OK(MPI_Psend_init(value, 4, 1, MPI_INT, next, 10, world, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, 4, 1, MPI_INT, before, 10, world, MPI_INFO_NULL, &receive));
    OK(MPI_Recv_init(in, 1, MPI_INT, before, 12, world, &persistent));
    OK(MPI_Irecv(in, 1, MPI_INT, before, 12, world, &ordinary));
    ERROR(MPI_ERR_REQUEST, MPI_Pready(0, send), "inactive", hex((uintptr_t)send));
    ERROR(MPI_ERR_REQUEST, MPI_Pready_range(0, 1, send), "inactive");
    ERROR(MPI_ERR_REQUEST, MPI_Pready_list(1, list, send), "inactive");
    ERROR(MPI_ERR_REQUEST, MPI_Cancel(&send), "inactive");
    OK(MPI_Start(&send));
    OK(MPI_Start(&receive));
    ERROR(MPI_ERR_REQUEST, MPI_Start(&send), "active", hex((uintptr_t)send));
    ERROR(MPI_ERR_REQUEST, MPI_Start(&receive), "active", hex((uintptr_t)receive));
    ERROR(MPI_ERR_REQUEST, MPI_Pready(0, receive), "receive", hex((uintptr_t)receive));
    ERROR(MPI_ERR_REQUEST, MPI_Pready(0, ordinary), "not of partitioned", hex((uintptr_t)ordinary));
    ERROR(MPI_ERR_REQUEST, MPI_Pready_range(0, 0, persistent), "not of partitioned", hex((uintptr_t)persistent));
    ERROR(MPI_ERR_REQUEST, MPI_Pready(0, null), "MPI_REQUEST_NULL");
    ERROR(MPI_ERR_REQUEST, MPI_Pready_list(1, list, (MPI_Request)value), "not valid");
    ERROR(MPI_ERR_REQUEST, MPI_Parrived(send, 0, &flag), "send", hex((uintptr_t)send));
    ERROR(MPI_ERR_REQUEST, MPI_Parrived(ordinary, 0, &flag), "not of partitioned");
    ERROR(MPI_ERR_ARG, MPI_Parrived(receive, 4, &flag), "partition", "4");
    ERROR(MPI_ERR_ARG, MPI_Parrived(receive, -1, &flag), "partition", "-1");
    ERROR(MPI_ERR_ARG, MPI_Parrived(receive, 0, NULL), "flag");
    SAME(arrived(null, 5), 1, "MPI_Parrived of MPI_REQUEST_NULL");
    ERROR(MPI_ERR_ARG, MPI_Pready(4, send), "partition", "4");
    ERROR(MPI_ERR_ARG, MPI_Pready(-1, send), "partition", "-1");
    ERROR(MPI_ERR_ARG, MPI_Pready_range(0, 4, send), "partition_high", "4");
    ERROR(MPI_ERR_ARG, MPI_Pready_range(-2, 2, send), "partition_low", "-2");
    ERROR(MPI_ERR_ARG, MPI_Pready_range(2, 1, send), "partition_low", "partition_high");
    ERROR(MPI_ERR_ARG, MPI_Pready_list(3, list, send), "array_of_partitions[1]", "4");
    ERROR(MPI_ERR_COUNT, MPI_Pready_list(-1, list, send), "length", "-1");
    ERROR(MPI_ERR_ARG, MPI_Pready_list(1, NULL, send), "array_of_partitions");
    ERROR(MPI_ERR_REQUEST, MPI_Cancel(&send), "cancelled", "partitioned");
    ERROR(MPI_ERR_REQUEST, MPI_Cancel(&receive), "cancelled", "partitioned");
    request = send;
    ERROR(MPI_ERR_REQUEST, MPI_Request_free(&request), "freed", "partitioned");
    CHECK(request == send, "a request that could not be freed has changed");
    /* None of these has marked any. */
    OK(MPI_Pready(0, send));
    ERROR(MPI_ERR_ARG, MPI_Pready(0, send), "partition 0", "before");
    ERROR(MPI_ERR_ARG, MPI_Pready_list(2, twice, send), "partition 1", "before");
    ERROR(MPI_ERR_ARG, MPI_Pready_range(0, 3, send), "partition 0", "before");
    OK(MPI_Pready_range(2, 3, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    ERROR(MPI_ERR_REQUEST, MPI_Pready(0, send), "inactive");
    OK(MPI_Cancel(&ordinary));
    OK(MPI_Wait(&ordinary, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&persistent));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    ERROR(MPI_ERR_REQUEST, MPI_Pready(0, request), "not valid");
}

int main(int argc, char **argv)
{
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    next = (me + 1) % ranks;
    before = (me + ranks - 1) % ranks;
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    shapes();
    early(8);
    early(30000);
    types();
    matching();
    threads(1, brief() ? 1 : 4);
    threads(3000, brief() ? 1 : 2);
    nobody();
    between();
    errors();
    return end("partitioned");
}
