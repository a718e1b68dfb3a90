/* Which MPI this is, and whether two ranks of it can talk.
   prints: probe NAME_AND_VERSION */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, ranks, length, got = -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, &got, 1, MPI_INT, (rank + ranks - 1) % ranks, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (ranks != 2 || got != 1 - rank) {
        fprintf(stderr, "rank %d of %d (expected: of 2) was sent the rank %d\n", rank, ranks, got);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\r\n")] = '\0';
    if (rank == 0)
        printf("probe %s\n", version);
    MPI_Finalize();
    return 0;
}
