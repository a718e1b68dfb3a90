/* The same calls from C, so many times. */
#include <mpi.h>

void in_c(int what, int times)
{
    int rank, value = 0, flag;
    MPI_Request request;
    for (int i = 0; i < times; i++) {
        switch (what) {
        case 1:
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            break;
        case 2:
            MPI_Send(&value, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
            break;
        case 3:
            MPI_Recv(&value, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        case 4:
            MPI_Isend(&value, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            break;
        case 5:
            MPI_Initialized(&flag);
            break;
        }
    }
}
