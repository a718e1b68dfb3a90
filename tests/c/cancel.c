/* Cancelling receives and sends: exactly one of "cancelled" and "happened", and the wait always returns. */
#include "check.h"

static int cancelled_after_wait(MPI_Request *request)
{
    MPI_Status status;
    int cancelled;
    MPI_Wait(request, &status);
    CHECK(*request == MPI_REQUEST_NULL, "the handle of a cancelled request is left");
    MPI_Test_cancelled(&status, &cancelled);
    return cancelled;
}

/* A receive that nothing matches is cancelled; one that has its message is not. */
static void receives(void)
{
    int value = -1, next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    MPI_Request requests[3];
    MPI_Irecv(&value, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    SAME(cancelled_after_wait(&requests[0]), 1, "cancelled receive without a message");
    /* On a communicator of its own: a faster rank's message of `together` would match. */
    MPI_Comm silent;
    MPI_Comm_dup(MPI_COMM_WORLD, &silent);
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, silent, &requests[0]);
    MPI_Cancel(&requests[0]);
    SAME(cancelled_after_wait(&requests[0]), 1, "cancelled wildcard receive without a message");
    MPI_Comm_free(&silent);
    together(MPI_COMM_WORLD);
    /* The message is for the receive that was not cancelled. */
    MPI_Irecv(&value, 1, MPI_INT, before, 2, MPI_COMM_WORLD, &requests[0]);
    int second = -1;
    MPI_Irecv(&second, 1, MPI_INT, before, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Cancel(&requests[0]);
    MPI_Send(&me, 1, MPI_INT, next, 2, MPI_COMM_WORLD);
    int first_cancelled = cancelled_after_wait(&requests[0]);
    if (!first_cancelled) {
        /* It came first: then the second has none. */
        SAME(value, before, "value of a receive that was cancelled too late");
        MPI_Cancel(&requests[1]);
        SAME(cancelled_after_wait(&requests[1]), 1, "cancelled second receive");
    } else {
        SAME(cancelled_after_wait(&requests[1]), 0, "receive that was not cancelled");
        SAME(second, before, "value of the receive that was not cancelled");
        SAME(value, -1, "buffer of the cancelled receive");
    }
    /* After the message is in, Cancel changes nothing. */
    MPI_Irecv(&value, 1, MPI_INT, before, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Send(&me, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
    int flag;
    do
        MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
    while (!flag);
    MPI_Cancel(&requests[0]);
    SAME(cancelled_after_wait(&requests[0]), 0, "receive cancelled after its message came");
    SAME(value, before, "its value");
}

/* Of a message to oneself it is known at once whether it was cancelled. */
static void to_oneself(void)
{
    MPI_Request request;
    MPI_Status status;
    int flag, cancelled;
    MPI_Issend(&me, 1, MPI_INT, me, 4, MPI_COMM_WORLD, &request);
    MPI_Probe(me, 4, MPI_COMM_WORLD, &status);
    MPI_Cancel(&request);
    MPI_Request_get_status(request, &flag, &status);
    SAME(flag, 1, "MPI_Request_get_status of a cancelled message to oneself");
    MPI_Test_cancelled(&status, &cancelled);
    SAME(cancelled, 1, "MPI_Test_cancelled of it");
    MPI_Request_free(&request);
    MPI_Iprobe(me, 4, MPI_COMM_WORLD, &flag, &status);
    SAME(flag, 0, "MPI_Iprobe of a cancelled message to oneself");
}

/* A send that nobody receives is cancelled, also when its message has arrived. */
static void sends(int bytes)
{
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks, flag;
    MPI_Request request;
    fill(out, bytes, me);
    MPI_Isend(out, bytes, MPI_BYTE, next, 10, MPI_COMM_WORLD, &request);
    together(MPI_COMM_WORLD);
    MPI_Iprobe(before, 11, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    SAME(flag, 0, "MPI_Iprobe of another tag");
    together(MPI_COMM_WORLD);
    MPI_Cancel(&request);
    SAME(cancelled_after_wait(&request), 1, "cancelled send of %d bytes that nobody received", bytes);
    together(MPI_COMM_WORLD);
    MPI_Iprobe(before, 10, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    SAME(flag, 0, "MPI_Iprobe of a cancelled message of %d bytes", bytes);
    together(MPI_COMM_WORLD);
    /* A message that was received can't be called back. */
    MPI_Isend(out, bytes, MPI_BYTE, next, 12, MPI_COMM_WORLD, &request);
    MPI_Recv(in, bytes, MPI_BYTE, before, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    together(MPI_COMM_WORLD);
    MPI_Cancel(&request);
    SAME(cancelled_after_wait(&request), 0, "send of %d bytes cancelled after its receive", bytes);
    FILLED(in, bytes, before, "message cancelled too late");
    free(out);
    free(in);
}

/* Receiver and canceller race: both must agree about what happened. */
static void race(int bytes)
{
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    int other = me ^ 1;
    if (other < ranks)
        for (int round = 0; round < 50; round++) {
            MPI_Request request;
            if (me < other) {
                fill(out, bytes, round);
                MPI_Issend(out, bytes, MPI_BYTE, other, 20, MPI_COMM_WORLD, &request);
                for (int i = 0; i < round % 10; i++)
                    MPI_Iprobe(other, 22, MPI_COMM_WORLD, &(int){0}, MPI_STATUS_IGNORE);
                MPI_Cancel(&request);
                int cancelled = cancelled_after_wait(&request);
                MPI_Send(&cancelled, 1, MPI_INT, other, 21, MPI_COMM_WORLD);
                MPI_Recv(NULL, 0, MPI_BYTE, other, 23, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                int cancelled;
                MPI_Irecv(in, bytes, MPI_BYTE, other, 20, MPI_COMM_WORLD, &request);
                MPI_Recv(&cancelled, 1, MPI_INT, other, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (cancelled)
                    MPI_Cancel(&request);
                SAME(cancelled_after_wait(&request), cancelled, "receiver's view in round %d, %d bytes", round, bytes);
                MPI_Send(NULL, 0, MPI_BYTE, other, 23, MPI_COMM_WORLD);
                if (!cancelled)
                    FILLED(in, bytes, round, "message that was not cancelled");
            }
        }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const int sizes[] = {0, 8, 2000, 30000, 100000, 128 << 10, 1 << 20};
    to_oneself();
    receives();
    int receives_only = argc > 1 && strcmp(argv[1], "receives") == 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !receives_only; i++) {
        sends(sizes[i]);
        race(sizes[i]);
    }
    return end("cancel");
}
