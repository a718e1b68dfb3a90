/* What a match costs in a long queue. Everything in the queue is from one source and has a tag of its own; of n, the
   last one is taken, and another one comes behind the other n - 1, which stay.
   usage: matching unexpected MILLISECONDS N...   prints: matching N MICROSECONDS   of a receive of a message that is
                                                  there, as the n-th of those that nobody has received
          matching posted MILLISECONDS N...       prints: matching N MICROSECONDS   half the round trip of messages for
                                                  the n-th of the posted receives, on both sides */
#include "bench.h"

enum { LAST, WANTED, SENT, OTHERS };
/* So many messages are received between two looks at the clock, unless each takes long. */
enum { AT_ONCE = 16 };
/* The queue is filled with so many at a time: that a library takes long for a flood of messages is not the question here. */
enum { SLICE = 500 };

static int rank, waiting;

static void exchange(long count)
{
    MPI_Request request;
    int word = 0, answer;
    if (rank == 1)
        MPI_Irecv(&answer, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD, &request);
    for (; count > 0; count--) {
        if (rank == 0) {
            MPI_Irecv(&answer, 1, MPI_INT, 1, LAST, MPI_COMM_WORLD, &request);
            MPI_Send(&word, 1, MPI_INT, 1, LAST, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (count > 1)
                MPI_Irecv(&answer, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD, &request);
            MPI_Send(&word, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD);
        }
    }
}

/* Rank 1 sends as many messages as rank 0 wants, until it wants none. */
static void serve(void)
{
    MPI_Request requests[AT_ONCE];
    int wanted, word = 0, i;
    for (;;) {
        MPI_Recv(&wanted, 1, MPI_INT, 0, WANTED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (wanted == 0)
            return;
        for (i = 0; i < wanted; i++)
            MPI_Isend(&word, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD, &requests[i]);
        MPI_Send(&word, 1, MPI_INT, 0, SENT, MPI_COMM_WORLD);
        MPI_Waitall(wanted, requests, MPI_STATUSES_IGNORE);
    }
}

/* Seconds that it took to receive so many messages. They are there: what was sent behind them has come. */
static double receive_some(int wanted)
{
    double start;
    int word, i;
    MPI_Send(&wanted, 1, MPI_INT, 1, WANTED, MPI_COMM_WORLD);
    MPI_Recv(&word, 1, MPI_INT, 1, SENT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    start = MPI_Wtime();
    for (i = 0; i < wanted; i++)
        MPI_Recv(&word, 1, MPI_INT, 1, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return MPI_Wtime() - start;
}

/* Microseconds of one receive: the median of batches, as many as there is time for. */
static double receive(double milliseconds)
{
    double times[BATCHES_MAX], each = milliseconds * 1e-3 / BATCHES_MAX, begun;
    int batches = 0, none = 0, wanted = receive_some(1) < each / AT_ONCE ? AT_ONCE : 1;
    begun = MPI_Wtime();
    do {
        double start = MPI_Wtime(), took = 0;
        long count = 0;
        do {
            took += receive_some(wanted);
            count += wanted;
        } while (MPI_Wtime() - start < each);
        times[batches++] = took / count * 1e6;
    } while (batches < BATCHES_MIN || (batches < BATCHES_MAX && MPI_Wtime() - begun < milliseconds * 1e-3));
    MPI_Send(&none, 1, MPI_INT, 1, WANTED, MPI_COMM_WORLD);
    qsort(times, batches, sizeof *times, by_value);
    return times[batches / 2];
}

/* The others must be what they are, or the time is of no interest. */
static void check(const int *words)
{
    int i;
    for (i = 0; i < waiting; i++) {
        if (words[i] != i) {
            fprintf(stderr, "rank %d: the message with tag %d has %d\n", rank, OTHERS + i, words[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static double unexpected(double milliseconds, int *words, MPI_Request *requests)
{
    double time = 0;
    int i;
    for (i = 0; i < waiting && rank == 1; i++) {
        words[i] = i;
        MPI_Isend(&words[i], 1, MPI_INT, 0, OTHERS + i, MPI_COMM_WORLD, &requests[i]);
        if (i % SLICE == SLICE - 1) {
            MPI_Send(&i, 1, MPI_INT, 0, SENT, MPI_COMM_WORLD);
            MPI_Recv(&i, 1, MPI_INT, 0, WANTED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    for (i = SLICE - 1; i < waiting && rank == 0; i += SLICE) {
        MPI_Recv(&i, 1, MPI_INT, 1, SENT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&i, 1, MPI_INT, 1, WANTED, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        time = receive(milliseconds);
        for (i = 0; i < waiting; i++)
            MPI_Recv(&words[i], 1, MPI_INT, 1, OTHERS + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        serve();
        MPI_Waitall(waiting, requests, MPI_STATUSES_IGNORE);
    }
    return time;
}

static double posted(double milliseconds, int *words, MPI_Request *requests)
{
    double time;
    int i;
    for (i = 0; i < waiting && rank < 2; i++)
        MPI_Irecv(&words[i], 1, MPI_INT, !rank, OTHERS + i, MPI_COMM_WORLD, &requests[i]);
    time = microseconds(exchange, milliseconds) / 2;
    for (i = 0; i < waiting && rank < 2; i++)
        MPI_Send(&i, 1, MPI_INT, !rank, OTHERS + i, MPI_COMM_WORLD);
    if (rank < 2)
        MPI_Waitall(waiting, requests, MPI_STATUSES_IGNORE);
    return time;
}

int main(int argc, char **argv)
{
    int i, arrived;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    arrived = argc > 1 && strcmp(argv[1], "unexpected") == 0;
    for (i = 3; i < argc; i++) {
        double time;
        int *words;
        MPI_Request *requests;
        waiting = atoi(argv[i]) - 1;
        words = (int *)buffer_of((waiting + 1) * sizeof *words);
        requests = (MPI_Request *)buffer_of((waiting + 1) * sizeof *requests);
        time = (arrived ? unexpected : posted)(atof(argv[2]), words, requests);
        if (rank == 0 || (rank == 1 && !arrived))
            check(words);
        if (rank == 0)
            print("matching", argv[i], time);
        free(words);
        free(requests);
    }
    MPI_Finalize();
    return 0;
}
