/* Tells which library it runs on, and does a bit of everything: for binaries that meet another MPI than their own. */
#include "check.h"

int main(int argc, char **argv)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING], host[MPI_MAX_PROCESSOR_NAME];
    int length, version, subversion;
    begin(&argc, &argv);
    MPI_Get_library_version(text, &length);
    MPI_Get_version(&version, &subversion);
    SAME(version, MPI_VERSION, "MPI_Get_version");
    MPI_Get_processor_name(host, &length);
    CHECK(length > 0, "the processor has no name");
    text[strcspn(text, "\n")] = 0;
    if (me == 0)
        printf("library: %s\n", text);
    double one = me + 0.5, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == ranks * ranks / 2.0, "sum: expected %g, got %g", ranks * ranks / 2.0, sum);
    static int out[50000], in[50000];
    for (int i = 0; i < 50000; i++)
        out[i] = me + i;
    MPI_Request request;
    MPI_Status status;
    int before = (me + ranks - 1) % ranks;
    MPI_Isend(out, 50000, MPI_INT, (me + 1) % ranks, 5, MPI_COMM_WORLD, &request);
    MPI_Recv(in, 50000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME(status.MPI_SOURCE, before, "source");
    for (int i = 0; i < 50000; i++)
        SAME(in[i], before + i, "element %d", i);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, 0, &half);
    MPI_Barrier(half);
    MPI_Comm_free(&half);
    return end("version");
}
