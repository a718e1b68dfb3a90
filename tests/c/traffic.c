/* Everybody talks to everybody: traffic [ROUNDS], 3 unless told otherwise; 0: without end, for tests that break something in the midst
 * of it. Rank 0 says when all have talked to all. */
#include "check.h"

enum { BLOCK = 8, LONG = 200000 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const long rounds = argc > 1 ? atol(argv[1]) : 3;
    int *out = malloc(sizeof *out * BLOCK * ranks), *in = malloc(sizeof *in * BLOCK * ranks);
    unsigned char *far = allocate(LONG), *near = allocate(LONG);
    CHECK(out && in, "no memory");
    for (long round = 0; rounds == 0 || round < rounds; round++) {
        int number = round % 1000, own = me + number, sum;
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        SAME(sum, ranks * (ranks - 1) / 2 + ranks * number, "the sum of round %ld", round);
        for (int i = 0; i < BLOCK * ranks; i++)
            out[i] = me * 1000 + i / BLOCK + number;
        MPI_Alltoall(out, BLOCK, MPI_INT, in, BLOCK, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < BLOCK * ranks; i++)
            SAME(in[i], i / BLOCK * 1000 + me + number, "element %d of round %ld", i, round);
        int to = (me + 1 + number % ranks) % ranks, from = (me + ranks - (1 + number % ranks) % ranks) % ranks;
        fill(far, LONG, me + number);
        MPI_Sendrecv(far, LONG, MPI_BYTE, to, 1, near, LONG, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        FILLED(near, LONG, from + number, "the long message");
        if (round == 2 && rounds == 0 && me == 0) {
            puts("traffic: under way");
            fflush(stdout);
        }
    }
    free(out);
    free(in);
    free(far);
    free(near);
    return end("traffic");
}
