/* Messages to oneself, on MPI_COMM_SELF and on MPI_COMM_WORLD, and messages to nobody. */
#include "check.h"

enum { MOST = 1 << 20 };

static unsigned char out[MOST], in[MOST];

static void to(MPI_Comm comm, int rank)
{
    const int sizes[] = {0, 1, 64, 1000, 65537, MOST};
    MPI_Status status;
    MPI_Request send, receive;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int bytes = sizes[i];
        fill(out, bytes, bytes);
        memset(in, 0, bytes);
        MPI_Irecv(in, bytes, MPI_BYTE, rank, 3, comm, &receive);
        MPI_Send(out, bytes, MPI_BYTE, rank, 3, comm);
        MPI_Wait(&receive, &status);
        STATUS(status, rank, 3, bytes);
        FILLED(in, bytes, bytes, "message to a posted receive of oneself");
        memset(in, 0, bytes);
        MPI_Isend(out, bytes, MPI_BYTE, rank, 4, comm, &send);
        MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        STATUS(status, rank, 4, bytes);
        FILLED(in, bytes, bytes, "message to oneself");
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        memset(in, 0, bytes);
        MPI_Sendrecv(out, bytes, MPI_BYTE, rank, 5, in, bytes, MPI_BYTE, rank, 5, comm, &status);
        STATUS(status, rank, 5, bytes);
        FILLED(in, bytes, bytes, "MPI_Sendrecv with oneself");
        MPI_Irecv(in, bytes, MPI_BYTE, rank, 6, comm, &receive);
        MPI_Rsend(out, bytes, MPI_BYTE, rank, 6, comm);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
}

/* Several to oneself, taken in another order. */
static void several(void)
{
    enum { N = 100 };
    int values[N], got[N];
    MPI_Request sends[N], receives[N];
    for (int i = 0; i < N; i++) {
        values[i] = i * i;
        MPI_Isend(&values[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &sends[i]);
    }
    for (int i = N - 1; i >= 0; i--)
        MPI_Irecv(&got[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &receives[i]);
    MPI_Waitall(N, receives, MPI_STATUSES_IGNORE);
    MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++)
        SAME(got[i], i * i, "message %d", i);
}

static void nobody(void)
{
    MPI_Status status;
    MPI_Request requests[3];
    unsigned char byte = 9;
    MPI_Send(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Ssend(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Rsend(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Isend(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Issend(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Status statuses[3];
    MPI_Waitall(3, requests, statuses);
    STATUS(statuses[2], MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Recv(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    SAME(byte, 9, "buffer of a receive from nobody");
    MPI_Sendrecv_replace(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, MPI_COMM_SELF, &status);
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    SAME(byte, 9, "buffer of an exchange with nobody");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    to(MPI_COMM_SELF, 0);
    to(MPI_COMM_WORLD, me);
    several();
    nobody();
    return end("self");
}
