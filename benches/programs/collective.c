/* One collective operation after the other, on all ranks.
   usage: collective barrier MILLISECONDS           prints: collective RANKS MICROSECONDS
          collective allreduce MILLISECONDS BYTES... prints: collective BYTES MICROSECONDS   (a sum of doubles) */
#include "bench.h"

static int rank, ranks, doubles;
static double *terms, *sums;

static void barriers(long count)
{
    for (; count > 0; count--)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduces(long count)
{
    for (; count > 0; count--)
        MPI_Allreduce(terms, sums, doubles, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* The sums must be right, or the time is of no interest. */
static void check(void)
{
    int i;
    for (i = 0; i < doubles; i++) {
        if (sums[i] != ranks * (ranks + 1) / 2) {
            fprintf(stderr, "rank %d: the sum at %d is %g\n", rank, i, sums[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv)
{
    double time;
    int i, k;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 2 && strcmp(argv[1], "barrier") == 0) {
        time = microseconds(barriers, atof(argv[2]));
        if (rank == 0)
            printf("collective %d %.4f\n", ranks, time);
    }
    for (i = 3; i < argc; i++) {
        int bytes = atoi(argv[i]);
        doubles = bytes / (int)sizeof *terms;
        terms = (double *)buffer_of(bytes);
        sums = (double *)buffer_of(bytes);
        for (k = 0; k < doubles; k++)
            terms[k] = rank + 1;
        time = microseconds(allreduces, atof(argv[2]));
        check();
        if (rank == 0)
            print("collective", argv[i], time);
        free(terms);
        free(sums);
    }
    MPI_Finalize();
    return 0;
}
