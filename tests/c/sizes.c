/* Messages of all sizes around each power of two up to 4 MiB, by every kind of send, arrive intact: so each
 * threshold between protocols lies between two of them. */
#include "check.h"

enum { MOST = 4 << 20 };

static unsigned char *out, *in;

/* To the next rank, from the one before, which may be this process itself. */
static void around(size_t bytes, int kind)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks, tag = 7 + kind;
    uint32_t seed = (uint32_t)(bytes * 8 + kind);
    MPI_Request requests[2];
    MPI_Status status;
    fill(out, bytes, seed + me);
    memset(in, 0xee, bytes + 8);
    MPI_Irecv(in, bytes, MPI_BYTE, before, tag, MPI_COMM_WORLD, &requests[1]);
    switch (kind) {
    case 0:
        MPI_Isend(out, bytes, MPI_BYTE, next, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case 1:
        MPI_Send(out, bytes, MPI_BYTE, next, tag, MPI_COMM_WORLD);
        break;
    case 2:
        MPI_Issend(out, bytes, MPI_BYTE, next, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case 3:
        MPI_Isend_c(out, (MPI_Count)bytes, MPI_BYTE, next, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case 4:
        MPI_Ssend_c(out, (MPI_Count)bytes, MPI_BYTE, next, tag, MPI_COMM_WORLD);
        break;
    }
    MPI_Wait(&requests[1], &status);
    STATUS(status, before, tag, (int)bytes);
    FILLED(in, bytes, seed + before, "message around the ring");
    for (int i = 0; i < 8; i++)
        SAME(in[bytes + i], 0xee, "byte %d behind a message of %zu bytes", i, bytes);
}

/* Between two ranks, there and back, with blocking calls alone: the message is often there before its receive. */
static void there_and_back(size_t bytes)
{
    int other = me ^ 1;
    MPI_Status status;
    if (other >= ranks)
        return;
    if (me < other) {
        fill(out, bytes, (uint32_t)bytes);
        MPI_Send(out, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        MPI_Recv(in, MOST, MPI_BYTE, other, 2, MPI_COMM_WORLD, &status);
        STATUS(status, other, 2, (int)bytes);
        FILLED(in, bytes, (uint32_t)bytes, "message there and back");
    } else {
        memset(in, 0xee, bytes);
        MPI_Recv_c(in, MOST, MPI_BYTE, other, 1, MPI_COMM_WORLD, &status);
        STATUS(status, other, 1, (int)bytes);
        FILLED(in, bytes, (uint32_t)bytes, "message there");
        MPI_Ssend(in, bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD);
    }
}

/* Sent before it is received: the receiver is told by a later message that it is there or announced. */
static void unexpected(size_t bytes)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    MPI_Request requests[2];
    MPI_Status status;
    fill(out, bytes, (uint32_t)bytes + 5u);
    MPI_Isend(out, bytes, MPI_BYTE, next, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(NULL, 0, MPI_BYTE, next, 4, MPI_COMM_WORLD, &requests[1]);
    MPI_Recv(NULL, 0, MPI_BYTE, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    memset(in, 0xee, bytes);
    MPI_Recv(in, bytes, MPI_BYTE, before, 3, MPI_COMM_WORLD, &status);
    STATUS(status, before, 3, (int)bytes);
    FILLED(in, bytes, (uint32_t)bytes + 5u, "unexpected message");
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    out = allocate(MOST + 16);
    in = allocate(MOST + 16);
    for (size_t power = 1; power <= MOST; power *= 2)
        for (int step = -1; step <= 1; step++) {
            size_t bytes = power + step;
            if (bytes > MOST || (step != 0 && power > 1 << 18) || (step > 0 && power == 1))
                continue;
            for (int kind = 0; kind < 5; kind++)
                if (bytes < 1 << 16 || kind == (int)(bytes % 5))
                    around(bytes, kind);
            there_and_back(bytes);
            unexpected(bytes);
        }
    around(0, 2);
    free(out);
    free(in);
    return end("sizes");
}
