/* Each rank sends one number to its neighbour: what a job of many ranks can do in no time. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int from = -1;
    MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % ranks, 1, &from, 1, MPI_INT, (me + ranks - 1) % ranks, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    SAME(from, (me + ranks - 1) % ranks, "what the neighbour sent");
    return end("neighbour");
}
