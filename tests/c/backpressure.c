/* Far more than a receiver may keep (WEFT_UNEXPECTED_MAX) is sent to it before it receives any of it: it keeps only that
 * much, the rest stays with the senders, and all of it arrives in order. The senders' empty message comes last, so once it is there
 * all else has come that will. */
#include "check.h"

enum { COUNT = 4000, BYTES = 8000 };

/* Kilobytes of memory of this process alone. */
static long own_kilobytes(void)
{
    long pages = 0, resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld %ld", &pages, &resident, &shared) != 3)
        resident = shared = 0;
    if (file)
        fclose(file);
    return (resident - shared) * 4;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *most = getenv("WEFT_UNEXPECTED_MAX");
    if (me == 0) {
        unsigned char *buffer = allocate(BYTES);
        MPI_Barrier(MPI_COMM_WORLD);
        long before = own_kilobytes();
        for (int from = 1; from < ranks; from++)
            MPI_Recv(NULL, 0, MPI_BYTE, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        long grown = own_kilobytes() - before;
        /* Without the limit all of it would be here. */
        long all = (long)COUNT * BYTES / 1024 * (ranks - 1);
        CHECK(most ? grown < all / 2 : grown > all / 2, "memory grew by %ld KiB of %ld", grown, all);
        for (int from = 1; from < ranks; from++)
            for (int number = 0; number < COUNT; number++) {
                int found = -1;
                MPI_Recv(buffer, BYTES, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                memcpy(&found, buffer, sizeof found);
                SAME(found, number, "number of a message from %d", from);
                for (int at = 4; at < BYTES; at += 997)
                    SAME(buffer[at], pattern(number, at), "byte %d of message %d", at, number);
            }
        free(buffer);
    } else {
        unsigned char *all = allocate((size_t)COUNT * BYTES);
        MPI_Request *requests = malloc(COUNT * sizeof *requests);
        for (int number = 0; number < COUNT; number++) {
            unsigned char *one = all + (size_t)number * BYTES;
            fill(one, BYTES, number);
            memcpy(one, &number, sizeof number);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int number = 0; number < COUNT; number++)
            MPI_Isend(all + (size_t)number * BYTES, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[number]);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
        MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
        free(requests);
        free(all);
    }
    return end("backpressure");
}
