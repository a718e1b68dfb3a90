/* A synchronous send ends only after its receive has begun; a standard send of the same size may end before. */
#include "check.h"

static unsigned char buffer[1 << 20], into[1 << 20];

/* However much both make progress, the send goes on until the receiver is told to receive. */
static void nonblocking(int bytes)
{
    MPI_Request request;
    if (me == 0) {
        int flag;
        fill(buffer, bytes, bytes);
        MPI_Issend(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 50; i++) {
            MPI_Sendrecv(NULL, 0, MPI_BYTE, 1, 2, NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            SAME(flag, 0, "MPI_Test of an unreceived synchronous send of %d bytes", bytes);
        }
        MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (me == 1) {
        for (int i = 0; i < 50; i++)
            MPI_Sendrecv(NULL, 0, MPI_BYTE, 0, 2, NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(into, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        FILLED(into, bytes, bytes, "synchronous message");
    }
}

/* All ranks share a clock: the send returns no earlier than the receiver came to its receive. */
static void blocking(int bytes)
{
    int64_t returned, came;
    if (me == 0) {
        MPI_Ssend(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        returned = now_ns();
        MPI_Recv(&came, 1, MPI_INT64_T, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(returned >= came, "MPI_Ssend of %d bytes returned %lld ns before its receive began", bytes,
              (long long)(came - returned));
    } else if (me == 1) {
        usleep(20000);
        came = now_ns();
        MPI_Recv(into, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&came, 1, MPI_INT64_T, 0, 2, MPI_COMM_WORLD);
    }
}

static void to_self(int bytes)
{
    MPI_Request request;
    int flag;
    MPI_Issend(buffer, bytes, MPI_BYTE, me, 5, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 20; i++) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        SAME(flag, 0, "MPI_Test of an unreceived synchronous send of %d bytes to self", bytes);
    }
    MPI_Recv(into, bytes, MPI_BYTE, me, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const int sizes[] = {0, 1, 100, 5000, 70000, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        to_self(sizes[i]);
        if (ranks > 1) {
            nonblocking(sizes[i]);
            blocking(sizes[i]);
        }
    }
    return end("synchronous");
}
