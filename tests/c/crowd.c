/* MPI_THREAD_MULTIPLE: eight threads of each rank send, receive, probe and cancel at once, on communicators of their own and
 * on one that all share. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, MOST = 70000 };
static int rounds = 60;

static MPI_Comm own[THREADS], all;

struct thread {
    int number, left, right;
    MPI_Comm comm;
    uint32_t state;
    unsigned char *out, *in;
};

/* Threads of the same number draw the same numbers in all ranks. */
static uint32_t draw(struct thread *thread, uint32_t end)
{
    thread->state = thread->state * 1664525u + 1013904223u;
    return (thread->state >> 8) % end;
}

static int size_of_message(struct thread *thread)
{
    static const int sizes[] = {0, 8, 17, 900, 33000, MOST};
    return sizes[draw(thread, sizeof sizes / sizeof *sizes)];
}

static void passes_on(struct thread *thread, int round, int tag)
{
    int bytes = size_of_message(thread), way = draw(thread, 3), wild = draw(thread, 2), done = 0;
    MPI_Request requests[2];
    MPI_Status status = {0}, statuses[2];
    fill(thread->out, bytes, me * 10007 + round);
    memset(thread->in, 0, bytes);
    MPI_Irecv(thread->in, bytes, MPI_BYTE, wild ? MPI_ANY_SOURCE : thread->left, tag, thread->comm, &requests[0]);
    MPI_Isend(thread->out, bytes, MPI_BYTE, thread->right, tag, thread->comm, &requests[1]);
    if (way == 0) {
        MPI_Waitall(2, requests, statuses);
        status = statuses[0];
    } else if (way == 1) {
        while (!done)
            MPI_Test(&requests[0], &done, &status);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    } else {
        for (int i = 0, index; i < 2; i++) {
            MPI_Status one;
            MPI_Waitany(2, requests, &index, &one);
            if (index == 0)
                status = one;
        }
    }
    STATUS(status, thread->left, tag, bytes);
    FILLED(thread->in, bytes, thread->left * 10007 + round, "message of a thread");
}

static void probes(struct thread *thread, int round, int tag)
{
    int bytes = size_of_message(thread), way = draw(thread, 4), found = 0;
    MPI_Request request;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    fill(thread->out, bytes, me * 10007 + round);
    memset(thread->in, 0, bytes);
    MPI_Isend(thread->out, bytes, MPI_BYTE, thread->right, tag, thread->comm, &request);
    if (way == 0)
        MPI_Probe(thread->left, tag, thread->comm, &status);
    else if (way == 1)
        MPI_Mprobe(MPI_ANY_SOURCE, tag, thread->comm, &message, &status);
    else
        while (!found)
            if (way == 2)
                MPI_Iprobe(MPI_ANY_SOURCE, tag, thread->comm, &found, &status);
            else
                MPI_Improbe(thread->left, tag, thread->comm, &found, &message, &status);
    STATUS(status, thread->left, tag, bytes);
    if (message != MPI_MESSAGE_NULL)
        MPI_Mrecv(thread->in, bytes, MPI_BYTE, &message, &status);
    else
        MPI_Recv(thread->in, bytes, MPI_BYTE, thread->left, tag, thread->comm, &status);
    STATUS(status, thread->left, tag, bytes);
    FILLED(thread->in, bytes, thread->left * 10007 + round, "message that was probed for");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void cancels_receive(struct thread *thread, int tag)
{
    int cancelled = 0;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(thread->in, 8, MPI_BYTE, thread->left, tag + 1000, thread->comm, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    SAME(cancelled, 1, "a receive that nothing fits is cancelled");
}

/* A send that its receiver does not look for until it has heard whether it was cancelled. */
static void cancels_send(struct thread *thread, int round, int tag)
{
    /* Whoever is ahead may do the same again: each time has a tag of its own. */
    int bytes = size_of_message(thread), once = tag + 2000 + 16 * round, here = 0, there = -1;
    MPI_Request request;
    MPI_Status status;
    fill(thread->out, bytes, me * 10007 + round);
    MPI_Isend(thread->out, bytes, MPI_BYTE, thread->right, once, thread->comm, &request);
    MPI_Cancel(&request);
    if (bytes > 8) {
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &here);
    } else {
        for (int done = 0; !done;)
            MPI_Test(&request, &done, &status);
        MPI_Test_cancelled(&status, &here);
    }
    MPI_Sendrecv(&here, 1, MPI_INT, thread->right, tag + 1100, &there, 1, MPI_INT, thread->left, tag + 1100,
                 thread->comm, MPI_STATUS_IGNORE);
    if (there) {
        MPI_Iprobe(thread->left, once, thread->comm, &there, MPI_STATUS_IGNORE);
        SAME(there, 0, "a cancelled message is there");
    } else {
        memset(thread->in, 0, bytes);
        MPI_Recv(thread->in, bytes, MPI_BYTE, thread->left, once, thread->comm, &status);
        STATUS(status, thread->left, once, bytes);
        FILLED(thread->in, bytes, thread->left * 10007 + round, "message that was not cancelled");
    }
}

static void *work(void *argument)
{
    struct thread *thread = argument;
    int tag = thread->number + 1;
    for (int round = 0; round < rounds; round++)
        switch (draw(thread, 5)) {
        case 0:
            probes(thread, round, tag);
            break;
        case 1:
            cancels_receive(thread, tag);
            break;
        case 2:
            cancels_send(thread, round, tag);
            break;
        default:
            passes_on(thread, round, tag);
        }
    return NULL;
}

int main(int argc, char **argv)
{
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    pthread_t running[THREADS];
    struct thread threads[THREADS];
    if (brief())
        rounds = 15;
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    for (int shared = 0; shared < 2; shared++) {
        for (int i = 0; i < THREADS; i++) {
            threads[i] = (struct thread){.number = i,
                                         .left = (me + ranks - 1) % ranks,
                                         .right = (me + 1) % ranks,
                                         .comm = shared ? all : own[i],
                                         .state = 12345u + i,
                                         .out = allocate(MOST),
                                         .in = allocate(MOST)};
            pthread_create(&running[i], NULL, work, &threads[i]);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(running[i], NULL);
            free(threads[i].out);
            free(threads[i].in);
        }
    }
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&own[i]);
    MPI_Comm_free(&all);
    return end("crowd");
}
