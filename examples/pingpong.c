/* How long a message takes from one process to another, and how many bytes pass in a second.
 *
 *     mpicc -O2 pingpong.c -o pingpong
 *     mpiexec -n 2 ./pingpong [largest size in bytes]
 *
 * One way: half the time of a message there and back, averaged over a batch; the median of several batches. Two
 * processes that share a core measure the operating system.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 9 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds for one message of `size` bytes there and back, `rounds` times. */
static double batch(int rank, char *buffer, int size, int rounds)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) {
            MPI_Send(buffer, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(buffer, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start) / rounds;
}

int main(int argc, char **argv)
{
    int rank, processes;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    long largest = argc > 1 ? atol(argv[1]) : 4L << 20;
    if (processes < 2 || largest < 1 || largest > 1 << 30) {
        if (rank == 0)
            fprintf(stderr, "usage: mpiexec -n 2 %s [largest size: 1 to 1073741824 bytes]\n", argv[0]);
        MPI_Finalize();
        return 2;
    }

    char *buffer = malloc((size_t)largest);
    if (buffer == NULL) {
        fprintf(stderr, "pingpong: no memory for %ld bytes\n", largest);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(buffer, 1, (size_t)largest);

    if (rank == 0)
        printf("%12s %14s %14s\n", "bytes", "one way, us", "MB/s");
    /* 0, 1, 8, 64, ... */
    for (long size = 0; size <= largest; size = size == 0 ? 1 : size * 8) {
        int rounds = size <= 4096 ? 500 : size <= 65536 ? 100 : 10;
        double times[BATCHES];
        batch(rank, buffer, (int)size, rounds / 5 + 1);
        for (int i = 0; i < BATCHES; i++)
            times[i] = batch(rank, buffer, (int)size, rounds);
        if (rank == 0) {
            qsort(times, BATCHES, sizeof times[0], compare);
            double one_way = times[BATCHES / 2] / 2;
            printf("%12ld %14.2f %14.1f\n", size, one_way * 1e6, (double)size / one_way / 1e6);
        }
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
