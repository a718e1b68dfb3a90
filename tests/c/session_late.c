/* Sessions that threads open while MPI_Finalize is under way, the first of the job among them: whenever it comes, the
 * threads of all processes find each other (MPI 5.0, sections 11.2.2 and 11.3.1). */
#include "check.h"

#include <pthread.h>

enum { THREADS = 2, ROUNDS = 3, LATEST_NS = 600000 };

/* Lets up to so much time pass, another time each time. */
static void dawdle(int number)
{
    int64_t start = now_ns(), until = start + (start / 100 * 7919 + number * 31337) % LATEST_NS;
    while (now_ns() < until)
        ;
}

static void *talk(void *number)
{
    int thread = (int)(intptr_t)number;
    char tag[64];

    snprintf(tag, sizeof tag, "weft.tests.late.%d", thread);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        int rank, size, mine = 100 * round + thread, got = -1;
        dawdle(thread);
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
        OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
        OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
        OK(MPI_Group_free(&group));
        OK(MPI_Comm_rank(comm, &rank));
        OK(MPI_Comm_size(comm, &size));
        OK(MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, comm,
                        MPI_STATUS_IGNORE));
        SAME(got, mine, "what thread %d got in round %d", thread, round);
        OK(MPI_Comm_disconnect(&comm));
        OK(MPI_Session_finalize(&session));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];

    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_create(&threads[at], NULL, talk, (void *)(intptr_t)at) == 0, "no thread");
    dawdle(me);
    MPI_Finalize();
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    if (me == 0)
        printf("session_late: ok with %d ranks\n", ranks);
    return 0;
}
