/* Streams of short messages from threads of rank 0 to as many of rank 1, all at once: each thread has its partner, and the two do
   what stream.c does one way. With a communicator for each pair, or one for all, in which tags tell the pairs apart.
   usage: threads own|shared MILLISECONDS PAIRS...   prints: threads PAIRS MICROSECONDS_PER_MESSAGE   of all pairs together */
#include <pthread.h>

#include "bench.h"

enum { WINDOW = 64, BYTES = 8, PAIRS_MAX = 64 };

static int rank, pairs;
static long windows_each;
static MPI_Comm communicators[PAIRS_MAX];

static void *windows(void *place)
{
    MPI_Request requests[WINDOW];
    char words[WINDOW][BYTES] = {{0}}, answer = 0;
    int pair = (int)((MPI_Comm *)place - communicators), i;
    MPI_Comm communicator = communicators[pair];
    long count;

    for (count = windows_each; count > 0 && rank < 2; count--) {
        for (i = 0; i < WINDOW; i++) {
            if (rank == 0)
                MPI_Isend(words[i], BYTES, MPI_CHAR, 1, 2 * pair, communicator, &requests[i]);
            else
                MPI_Irecv(words[i], BYTES, MPI_CHAR, 0, 2 * pair, communicator, &requests[i]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(&answer, 1, MPI_CHAR, 1, 2 * pair + 1, communicator, MPI_STATUS_IGNORE);
        else
            MPI_Send(&answer, 1, MPI_CHAR, 0, 2 * pair + 1, communicator);
    }
    return NULL;
}

static void all_pairs(long count)
{
    pthread_t threads[PAIRS_MAX];
    int i;
    windows_each = count;
    for (i = 1; i < pairs; i++) {
        if (pthread_create(&threads[i], NULL, windows, &communicators[i]) != 0) {
            fprintf(stderr, "rank %d: no thread can be made\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    windows(&communicators[0]);
    for (i = 1; i < pairs; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    int i, k, provided, own;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (provided < MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "this MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    own = argc > 1 && strcmp(argv[1], "own") == 0;
    for (i = 3; i < argc; i++) {
        double time;
        pairs = atoi(argv[i]);
        if (pairs < 1 || pairs > PAIRS_MAX) {
            fprintf(stderr, "threads: %s is not from 1 to %d\n", argv[i], PAIRS_MAX);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        for (k = 0; k < pairs; k++) {
            if (own)
                MPI_Comm_dup(MPI_COMM_WORLD, &communicators[k]);
            else
                communicators[k] = MPI_COMM_WORLD;
        }
        time = microseconds(all_pairs, atof(argv[2])) / ((double)WINDOW * pairs);
        if (rank == 0)
            print("threads", argv[i], time);
        for (k = 0; k < pairs && own; k++)
            MPI_Comm_free(&communicators[k]);
    }
    MPI_Finalize();
    return 0;
}
