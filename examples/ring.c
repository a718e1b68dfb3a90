/* A number travels around all processes; each adds its rank to it.
 *
 *     mpicc ring.c -o ring
 *     mpiexec -n 4 ./ring
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size;
    long sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    int left = (rank + size - 1) % size;
    int right = (rank + 1) % size;

    if (size > 1) {
        if (rank == 0) {
            MPI_Send(&sum, 1, MPI_LONG, right, 0, MPI_COMM_WORLD);
            MPI_Recv(&sum, 1, MPI_LONG, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&sum, 1, MPI_LONG, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += rank;
            MPI_Send(&sum, 1, MPI_LONG, right, 0, MPI_COMM_WORLD);
        }
    }

    int right_sum = 1;
    if (rank == 0) {
        long expected = (long)size * (size - 1) / 2;
        right_sum = sum == expected;
        printf("the ranks of %d processes add up to %ld (expected: %ld)\n", size, sum, expected);
    }
    MPI_Finalize();
    return right_sum ? 0 : 1;
}
