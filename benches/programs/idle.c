/* Processor time of rank 1 while it waits in MPI_Recv and rank 0 is busy elsewhere (asleep), of all its threads.
   usage: idle MILLISECONDS   prints: idle MILLISECONDS PERCENT */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double seconds_used(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv)
{
    int rank, milliseconds, word = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    milliseconds = argc > 1 ? atoi(argv[1]) : 1000;
    /* The first messages connect; that is not waiting. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        struct timespec rest = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
        while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
        }
        MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    } else if (rank == 1) {
        double start = MPI_Wtime(), used = seconds_used();
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        used = seconds_used() - used;
        printf("idle %d %.4f\n", milliseconds, used / (MPI_Wtime() - start) * 100);
    }
    MPI_Finalize();
    return 0;
}
