/* Many requests at once, both ways, between all pairs, small and large mixed; completed in several ways. */
#include "check.h"

enum { EACH = 400 };

static size_t size_of(int i)
{
    return i % 16 == 7 ? 40000 : (size_t)(i * 37 % 900);
}

static void everybody(int late)
{
    size_t room = 0;
    for (int i = 0; i < EACH; i++)
        room += size_of(i);
    unsigned char *out = allocate(room * ranks), *in = allocate(room * ranks);
    MPI_Request *requests = allocate(sizeof *requests * 2 * EACH * ranks);
    MPI_Status *statuses = allocate(sizeof *statuses * 2 * EACH * ranks);
    memset(in, 0, room * ranks);
    int n = EACH * ranks;
    for (int side = 0; side < 2; side++) {
        /* Late: all sends first, so that they arrive unexpected. */
        int sending = late ? side == 0 : side == 1;
        for (int peer = 0; peer < ranks; peer++) {
            size_t at = room * peer;
            for (int i = 0; i < EACH; i++) {
                if (sending) {
                    fill(out + at, size_of(i), me * 1000 + peer * 100 + i);
                    MPI_Isend(out + at, size_of(i), MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[n + peer * EACH + i]);
                } else {
                    MPI_Irecv(in + at, size_of(i), MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[peer * EACH + i]);
                }
                at += size_of(i);
            }
        }
    }
    if (late) {
        for (int left = 2 * n, count; left > 0; left -= count) {
            static int indices[2 * EACH * 64];
            MPI_Waitsome(2 * n, requests, &count, indices, MPI_STATUSES_IGNORE);
            CHECK(count > 0 && count <= left, "outcount %d of %d left", count, left);
        }
    } else {
        MPI_Waitall(2 * n, requests, statuses);
        for (int i = 0; i < n; i++)
            STATUS(statuses[i], i / EACH, i % EACH, (int)size_of(i % EACH));
    }
    for (int peer = 0; peer < ranks; peer++) {
        size_t at = room * peer;
        for (int i = 0; i < EACH; i++) {
            FILLED(in + at, size_of(i), peer * 1000 + me * 100 + i, "one of many messages");
            at += size_of(i);
        }
    }
    free(out);
    free(in);
    free(requests);
    free(statuses);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    everybody(0);
    everybody(1);
    return end("outstanding");
}
