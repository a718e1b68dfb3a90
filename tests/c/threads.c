/* MPI_THREAD_MULTIPLE: four threads of each rank send and receive at once, on communicators of their own and on one
 * communicator with tags of their own, and take part in collective operations on their own communicators. */
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

enum { THREADS = 4 };
static int rounds = 300;

static MPI_Comm own[THREADS];
static int shared;

static void ping_pong(MPI_Comm comm, int tag, int thread)
{
    static const int sizes[] = {0, 8, 900, 20000};
    int other = me ^ 1;
    if (other >= ranks)
        other = me;
    unsigned char *out = allocate(20000), *in = allocate(20000);
    for (int round = 0; round < rounds; round++) {
        int bytes = sizes[round % 4];
        MPI_Request requests[2];
        MPI_Status status;
        fill(out, bytes, thread * 1000 + round);
        memset(in, 0, bytes);
        if (other == me || round % 3 == 0) {
            MPI_Irecv(in, bytes, MPI_BYTE, other, tag, comm, &requests[0]);
            MPI_Isend(out, bytes, MPI_BYTE, other, tag, comm, &requests[1]);
            MPI_Wait(&requests[0], &status);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        } else if (me < other) {
            MPI_Send(out, bytes, MPI_BYTE, other, tag, comm);
            MPI_Recv(in, bytes, MPI_BYTE, other, tag, comm, &status);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, other, tag, comm, &status);
            MPI_Send(out, bytes, MPI_BYTE, other, tag, comm);
        }
        STATUS(status, other, tag, bytes);
        FILLED(in, bytes, thread * 1000 + round, "message of a thread");
    }
    free(out);
    free(in);
}

/* Each thread probes for what is its own, and takes it. */
static void probes(int thread)
{
    int next = (me + 1) % ranks;
    for (int round = 0; round < 50; round++) {
        int out = me * 100000 + thread * 1000 + round, in = -1;
        MPI_Request request;
        MPI_Message message;
        MPI_Status status;
        MPI_Isend(&out, 1, MPI_INT, next, 100 + thread, MPI_COMM_WORLD, &request);
        MPI_Mprobe(MPI_ANY_SOURCE, 100 + thread, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(&in, 1, MPI_INT, &message, &status);
        SAME(in, status.MPI_SOURCE * 100000 + thread * 1000 + round, "probed message of thread %d", thread);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument, main_thread;
    MPI_Is_thread_main(&main_thread);
    SAME(main_thread, 0, "MPI_Is_thread_main in another thread");
    if (shared) {
        ping_pong(MPI_COMM_WORLD, 10 + thread, thread);
        probes(thread);
    } else {
        ping_pong(own[thread], 10, thread);
        for (int round = 0; round < 50; round++) {
            int sum, one = me + thread + round;
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, own[thread]);
            SAME(sum, ranks * (thread + round) + ranks * (ranks - 1) / 2, "sum of thread %d", thread);
        }
    }
    return NULL;
}

/* One thread waits for a message that another thread of the same rank sends. */
static void *wait_for_other(void *unused)
{
    int value = -1;
    (void)unused;
    MPI_Recv(&value, 1, MPI_INT, 0, 77, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    SAME(value, 123, "message of another thread");
    return NULL;
}

/* Before MPI_Init: later, with threads, the system would take some ten milliseconds to register the process. What can be asked
 * of membarrier is not in the headers of every system that the test is built on. */
static void is_registered_with_membarrier(void)
{
    enum { REGISTER_GLOBAL_EXPEDITED = 1 << 2, GET_REGISTRATIONS = 1 << 9 };
    long registered = syscall(SYS_membarrier, GET_REGISTRATIONS, 0, 0);
    CHECK(registered < 0 || (registered & REGISTER_GLOBAL_EXPEDITED) != 0,
          "loading the library has not registered the process with membarrier");
}

int main(int argc, char **argv)
{
    is_registered_with_membarrier();
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    pthread_t threads[THREADS];
    int level, main_thread, value = 123;
    if (brief())
        rounds = 60;
    MPI_Query_thread(&level);
    SAME(level, MPI_THREAD_MULTIPLE, "MPI_Query_thread");
    MPI_Is_thread_main(&main_thread);
    SAME(main_thread, 1, "MPI_Is_thread_main in the main thread");
    pthread_create(&threads[0], NULL, wait_for_other, NULL);
    usleep(20000);
    MPI_Send(&value, 1, MPI_INT, 0, 77, MPI_COMM_SELF);
    pthread_join(threads[0], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    for (shared = 0; shared < 2; shared++) {
        for (intptr_t i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, work, (void *)i);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&own[i]);
    return end("threads");
}
