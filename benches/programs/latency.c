/* One-way latency between ranks 0 and 1: half the round trip.
   usage: latency MILLISECONDS BYTES...   prints: latency BYTES MICROSECONDS */
#include "bench.h"

static int rank, bytes;
static char *buffer;

static void exchange(long count)
{
    for (; count > 0; count--) {
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(buffer, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    int i;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (i = 2; i < argc; i++) {
        double time;
        bytes = atoi(argv[i]);
        buffer = buffer_of(bytes);
        time = microseconds(exchange, atof(argv[1])) / 2;
        if (rank == 0)
            print("latency", argv[i], time);
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}
