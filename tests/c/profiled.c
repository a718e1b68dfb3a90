/* Sends its rank + 1 times 10 ints to the next rank, for the profiler to count; its collective operations and other
 * calls are not MPI_Send's. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int values[100][10], next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    MPI_Request requests[100];
    for (int i = 0; i <= before; i++)
        MPI_Irecv(values[i], 10, MPI_INT, before, 1, MPI_COMM_WORLD, &requests[i]);
    int out[10] = {me};
    for (int i = 0; i <= me; i++)
        MPI_Send(out, 10, MPI_INT, next, 1, MPI_COMM_WORLD);
    MPI_Waitall(before + 1, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Sendrecv(out, 1, MPI_INT, next, 2, values[0], 1, MPI_INT, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return end("profiled");
}
