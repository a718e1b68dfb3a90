/* Messages to a rank that is late: it sleeps, or computes without calling MPI, while others send all they have. */
#include "check.h"

enum { SMALL = 2000, LARGE = 1 << 20 };

static volatile double sink;

static void late(int computing)
{
    if (me == 0) {
        int64_t start = now_ns();
        if (computing)
            while (now_ns() - start < 150000000)
                sink += 1;
        else
            usleep(150000);
        unsigned char *in = allocate(LARGE);
        for (int i = 0; i < SMALL * (ranks - 1); i++) {
            int numbers[2];
            MPI_Status status;
            MPI_Recv(numbers, 2, MPI_INT, 1 + i % (ranks - 1), 1, MPI_COMM_WORLD, &status);
            SAME(numbers[0], i / (ranks - 1), "message number");
            SAME(numbers[1], status.MPI_SOURCE, "message source");
        }
        for (int i = 1; i < ranks; i++) {
            MPI_Recv(in, LARGE, MPI_BYTE, i, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            FILLED(in, LARGE, i, "large message to a late rank");
        }
        free(in);
    } else {
        unsigned char *out = allocate(LARGE);
        fill(out, LARGE, me);
        MPI_Request request;
        for (int i = 0; i < SMALL; i++) {
            int numbers[2] = {i, me};
            MPI_Send(numbers, 2, MPI_INT, 0, 1, MPI_COMM_WORLD);
        }
        MPI_Isend(out, LARGE, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        free(out);
    }
    together(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (ranks > 1) {
        late(0);
        late(1);
    }
    return end("late");
}
