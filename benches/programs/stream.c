/* A stream of messages from rank 0 to rank 1, or both ways at once, as fast as they go: windows of nonblocking sends
   and receives. One way, each window is answered by one short message; both ways, each is the other's answer.
   usage: stream one|both MILLISECONDS BYTES...   prints: stream BYTES MICROSECONDS_PER_MESSAGE
   Both ways, that is the time in which one message goes each way. */
#include "bench.h"

enum { WINDOW_MIN = 4, WINDOW_MAX = 64, WINDOW_BYTES = 16 << 20 };

static int rank, both, bytes, window;
static char *outgoing, *incoming;

static void windows(long count)
{
    MPI_Request requests[2 * WINDOW_MAX];
    char answer = 0;
    int sends = both || rank == 0, receives = both || rank == 1;

    for (; count > 0 && rank < 2; count--) {
        int i, n = 0;
        for (i = 0; receives && i < window; i++)
            MPI_Irecv(incoming + (size_t)i * bytes, bytes, MPI_CHAR, !rank, 1, MPI_COMM_WORLD, &requests[n++]);
        for (i = 0; sends && i < window; i++)
            MPI_Isend(outgoing + (size_t)i * bytes, bytes, MPI_CHAR, !rank, 1, MPI_COMM_WORLD, &requests[n++]);
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        if (both)
            continue;
        if (rank == 0)
            MPI_Recv(&answer, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&answer, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int i;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    both = argc > 1 && strcmp(argv[1], "both") == 0;
    for (i = 3; i < argc; i++) {
        double time;
        bytes = atoi(argv[i]);
        window = WINDOW_BYTES / (bytes > 0 ? bytes : 1);
        if (window < WINDOW_MIN)
            window = WINDOW_MIN;
        if (window > WINDOW_MAX)
            window = WINDOW_MAX;
        outgoing = buffer_of((size_t)window * bytes);
        incoming = buffer_of((size_t)window * bytes);
        time = microseconds(windows, atof(argv[2])) / window;
        if (rank == 0)
            print("stream", argv[i], time);
        free(outgoing);
        free(incoming);
    }
    MPI_Finalize();
    return 0;
}
