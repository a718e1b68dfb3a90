/* Sessions in many threads at once, before, while and after the World Model comes and goes. Each thread of a process
 * talks to the thread of the same number in the others. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 12, BARE = 25 };

static atomic_int stage;

static void bare(void)
{
    MPI_Session sessions[BARE];
    for (int at = 0; at < BARE; at++)
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &sessions[at]));
    for (int at = 0; at < BARE; at++) {
        OK(MPI_Session_finalize(&sessions[at]));
        CHECK(sessions[at] == MPI_SESSION_NULL, "the handle of a finalized session is not null");
    }
}

static void talk(int thread, int round)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    char tag[64];
    int rank, size, got = -1;

    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    snprintf(tag, sizeof tag, "weft.tests.thread.%d", thread);
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    int mine = thread * 1000 + round;
    OK(MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, comm,
                    MPI_STATUS_IGNORE));
    SAME(got, mine, "what thread %d got in round %d", thread, round);
    if (round % 3 == 0)
        OK(MPI_Comm_disconnect(&comm));
    else if (round % 3 == 1)
        OK(MPI_Comm_free(&comm));
    OK(MPI_Session_finalize(&session));
}

static void *work(void *number)
{
    int thread = (int)(intptr_t)number;
    for (int round = 0; round < ROUNDS; round++) {
        bare();
        talk(thread, round);
        atomic_fetch_add(&stage, 1);
    }
    return NULL;
}

/* Waits until the threads have done so much together. */
static void until(int done)
{
    while (atomic_load(&stage) < done)
        usleep(100);
}

int main(void)
{
    pthread_t threads[THREADS];
    int sum, provided;

    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_create(&threads[at], NULL, work, (void *)(intptr_t)at) == 0, "no thread");
    until(THREADS);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    SAME(provided, MPI_THREAD_MULTIPLE, "the thread level");
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    until(THREADS * ROUNDS / 3);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    SAME(sum, ranks * (ranks - 1) / 2, "the sum of the ranks");
    until(THREADS * ROUNDS / 2);
    MPI_Finalize();
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    talk(THREADS, 0);
    if (me == 0)
        printf("session_threads: ok with %d ranks\n", ranks);
    return 0;
}
