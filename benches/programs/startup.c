/* From before MPI_Init to after MPI_Finalize, with one message to a neighbour in between.
   prints on each rank: startup RANK MILLISECONDS
   With an argument, everybody meets at a barrier before MPI_Finalize. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

int main(int argc, char **argv)
{
    int rank, size, got = -1;
    double start = now();

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (argc > 1)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    printf("startup %d %.3f\n", rank, now() - start);
    return got != (rank + size - 1) % size;
}
