/* MPI_THREAD_MULTIPLE: threads that are blocked, each in another procedure, for as long as others work. None of them comes
 * back before what it waits for has happened, and none keeps the others from going on. Then threads that wait for what only
 * another thread of their own process does, while no other process says anything. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { WAITERS = 7, WORKERS = 2, MOST = 200000 };
static int rounds = 150;

static MPI_Comm own[WAITERS], busy[WORKERS];
static int other;
static atomic_int released[WAITERS];

static void *waits(void *argument)
{
    int which = (int)(intptr_t)argument, value = -1;
    MPI_Comm comm = own[which];
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    switch (which) {
    case 0:
        MPI_Recv(&value, 1, MPI_INT, other, 1, comm, &status);
        break;
    case 1:
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        break;
    case 2:
        MPI_Probe(other, 1, comm, &status);
        SAME(atomic_load(&released[which]), 1, "MPI_Probe has come back");
        MPI_Recv(&value, 1, MPI_INT, other, 1, comm, &status);
        break;
    case 3:
        MPI_Mprobe(MPI_ANY_SOURCE, 1, comm, &message, &status);
        SAME(atomic_load(&released[which]), 1, "MPI_Mprobe has come back");
        MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
        break;
    case 4:
        MPI_Irecv(&value, 1, MPI_INT, other, 1, comm, &request);
        MPI_Wait(&request, &status);
        break;
    case 5: {
        /* A send whose receive comes late, and the same from the other side. */
        int mine = me * 10 + which;
        MPI_Irecv(&value, 1, MPI_INT, other, 2, comm, &request);
        MPI_Ssend(&mine, 1, MPI_INT, other, 1, comm);
        SAME(atomic_load(&released[which]), 1, "MPI_Ssend has come back");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    }
    default:
        MPI_Barrier(comm);
        value = other * 10 + which;
    }
    SAME(atomic_load(&released[which]), 1, "what thread %d waits for has happened", which);
    SAME(value, other * 10 + which, "the message of thread %d", which);
    return NULL;
}

static void *works(void *argument)
{
    static const int sizes[] = {0, 8, 900, 33000, MOST};
    int which = (int)(intptr_t)argument;
    unsigned char *out = allocate(MOST), *in = allocate(MOST);
    for (int round = 0; round < rounds; round++) {
        int bytes = sizes[round % 5];
        MPI_Status status;
        fill(out, bytes, round);
        memset(in, 0, bytes);
        MPI_Sendrecv(out, bytes, MPI_BYTE, other, which, in, bytes, MPI_BYTE, other, which, busy[which], &status);
        STATUS(status, other, which, bytes);
        FILLED(in, bytes, round, "message while other threads wait");
    }
    free(out);
    free(in);
    return NULL;
}

/* Lets the waiters go, but for the one in the barrier, whom the last rank to come frees. */
static void release(void)
{
    MPI_Request requests[WAITERS];
    int values[WAITERS], taken = -1;
    for (int which = 0; which < WAITERS; which++) {
        values[which] = me * 10 + which;
        requests[which] = MPI_REQUEST_NULL;
        if (which < 5)
            MPI_Isend(&values[which], 1, MPI_INT, other, 1, own[which], &requests[which]);
    }
    MPI_Recv(&taken, 1, MPI_INT, other, 1, own[5], MPI_STATUS_IGNORE);
    SAME(taken, other * 10 + 5, "the synchronous message");
    MPI_Isend(&values[5], 1, MPI_INT, other, 2, own[5], &requests[5]);
    MPI_Waitall(WAITERS, requests, MPI_STATUSES_IGNORE);
}

static MPI_Request generalized;

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int nothing(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int no_cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static void *waits_for_own_thread(void *argument)
{
    int which = (int)(intptr_t)argument, value = -1;
    MPI_Request request;
    switch (which) {
    case 0:
        MPI_Recv(&value, 1, MPI_INT, 0, which, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        SAME(value, 7, "message of another thread");
        break;
    case 1:
        MPI_Probe(0, which, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Irecv(&value, 1, MPI_INT, 0, which, MPI_COMM_SELF, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        SAME(value, 7, "message of another thread");
        break;
    default:
        MPI_Wait(&generalized, MPI_STATUS_IGNORE);
    }
    return NULL;
}

static void own_threads(void)
{
    enum { KINDS = 4 };
    pthread_t threads[KINDS];
    MPI_Request request;
    int value = 7;
    MPI_Grequest_start(query, nothing, no_cancel, NULL, &generalized);
    request = generalized;
    for (intptr_t i = 0; i < KINDS; i++)
        pthread_create(&threads[i], NULL, waits_for_own_thread, (void *)i);
    for (int i = 0; i < KINDS; i++) {
        /* By now they sleep. */
        usleep(80000);
        if (i < 3)
            MPI_Send(&value, 1, MPI_INT, 0, i, MPI_COMM_SELF);
        else
            MPI_Grequest_complete(request);
        pthread_join(threads[i], NULL);
    }
    MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    pthread_t waiters[WAITERS], workers[WORKERS];
    MPI_Comm pair;
    if (brief())
        rounds = 40;
    /* The last of an odd number is alone. Its barrier would be over at once. */
    other = (me ^ 1) < ranks ? 1 - me % 2 : 0;
    int alone = (me ^ 1) >= ranks;
    MPI_Comm_split(MPI_COMM_WORLD, me / 2, me, &pair);
    int members = alone ? WAITERS - 1 : WAITERS;
    MPI_Comm_rank(pair, &me);
    for (int i = 0; i < WAITERS; i++)
        MPI_Comm_dup(pair, &own[i]);
    for (int i = 0; i < WORKERS; i++)
        MPI_Comm_dup(pair, &busy[i]);
    /* Rank 0 of a pair waits in the barrier, rank 1 comes to it at the end. */
    if (!alone && me == 1)
        members--;
    for (intptr_t i = 0; i < members; i++)
        pthread_create(&waiters[i], NULL, waits, (void *)i);
    usleep(30000);
    for (intptr_t i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, works, (void *)i);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    /* Both sides have done all of their work: from now on anything may come back. */
    for (int i = 0; i < WAITERS; i++)
        atomic_store(&released[i], 1);
    together(pair);
    release();
    if (!alone && me == 1)
        MPI_Barrier(own[WAITERS - 1]);
    for (int i = 0; i < members; i++)
        pthread_join(waiters[i], NULL);
    for (int i = 0; i < WAITERS; i++)
        MPI_Comm_free(&own[i]);
    for (int i = 0; i < WORKERS; i++)
        MPI_Comm_free(&busy[i]);
    MPI_Comm_free(&pair);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    together(MPI_COMM_WORLD);
    own_threads();
    return end("blocked");
}
