/* Messages of all lengths around those at which a receive buffer, an eager message or a piece of a transport ends, mixed with
 * random ones, from everybody to everybody, in windows, of which a half finds its receives posted. Each byte is checked.
 *
 *     received [MESSAGES [SEED]]      messages to each rank in each turn; a number for the random ones */
#include "check.h"

enum { WINDOW = 16, MOST = 70000, HEADER = 40 };

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* Edges of what transports take at once, header included. */
static const int edges[] = {0, 64, 192, 1024, 4096, 8192, 16384, 65536, 65536 + HEADER};

static int length(void)
{
    int edge = edges[draw(sizeof edges / sizeof *edges)], near = edge - HEADER - 2 + (int)draw(5);
    switch (draw(4)) {
    case 0:
        return (int)draw(MOST);
    case 1:
        /* Long ones in a row end a buffer soon. */
        return 16384 - HEADER;
    default:
        return near < 0 ? 0 : near;
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const int messages = argc > 1 ? atoi(argv[1]) : 640;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static unsigned char out[WINDOW][MOST], in[WINDOW][MOST];
    for (int distance = 0; distance < ranks; distance++) {
        int to = (me + distance) % ranks, from = (me - distance + ranks) % ranks;
        int sends[WINDOW], receives[WINDOW];
        for (int first = 0; first < messages; first += WINDOW) {
            MPI_Request requests[2 * WINDOW];
            /* What one rank sends the other can tell. */
            state = seed * 1000003 + (uint64_t)me * 1009 + (uint64_t)first;
            for (int at = 0; at < WINDOW; at++)
                sends[at] = length();
            state = seed * 1000003 + (uint64_t)from * 1009 + (uint64_t)first;
            for (int at = 0; at < WINDOW; at++)
                receives[at] = length();
            int late = first / WINDOW % 2;
            for (int turn = 0; turn < 2; turn++)
                for (int at = 0; at < WINDOW; at++) {
                    uint32_t mine = (uint32_t)(first + at + 31 * me);
                    if (turn == late) {
                        memset(in[at], 0xee, MOST);
                        MPI_Irecv(in[at], MOST, MPI_BYTE, from, at, MPI_COMM_WORLD, &requests[at]);
                    } else {
                        fill(out[at], (size_t)sends[at], mine);
                        MPI_Isend(out[at], sends[at], MPI_BYTE, to, at, MPI_COMM_WORLD, &requests[WINDOW + at]);
                    }
                }
            MPI_Status statuses[2 * WINDOW];
            MPI_Waitall(2 * WINDOW, requests, statuses);
            for (int at = 0; at < WINDOW; at++) {
                STATUS(statuses[at], from, at, receives[at]);
                FILLED(in[at], (size_t)receives[at], (uint32_t)(first + at + 31 * from), "a message");
                if (receives[at] < MOST)
                    SAME(in[at][receives[at]], 0xee, "the byte behind a message of %d bytes", receives[at]);
            }
        }
    }
    return end("received");
}
