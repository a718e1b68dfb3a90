/* One collective operation after the other, on all ranks.
   usage: collective barrier MILLISECONDS           prints: collective RANKS MICROSECONDS
          collective OPERATION MILLISECONDS BYTES... prints: collective BYTES MICROSECONDS
   The operations are allreduce, reduce (sums of doubles) and bcast. Each process is the root in turn, so that nobody gets far ahead. */
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

static void reduces(long count)
{
    for (; count > 0; count--)
        MPI_Reduce(terms, sums, doubles, MPI_DOUBLE, MPI_SUM, (int)(count % ranks), MPI_COMM_WORLD);
}

static void broadcasts(long count)
{
    for (; count > 0; count--)
        MPI_Bcast(terms, doubles, MPI_DOUBLE, (int)(count % ranks), MPI_COMM_WORLD);
}

/* The results must be right, or the time is of no interest. */
static void check(const double *results, double expected)
{
    int i;
    for (i = 0; i < doubles; i++) {
        if (results[i] != expected) {
            fprintf(stderr, "rank %d: the result at %d is %g\n", rank, i, results[i]);
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
        if (strcmp(argv[1], "bcast") == 0) {
            time = microseconds(broadcasts, atof(argv[2]));
            /* The last root was rank 1, or 0 if there is no other. */
            check(terms, ranks > 1 ? 2 : 1);
        } else if (strcmp(argv[1], "reduce") == 0) {
            time = microseconds(reduces, atof(argv[2]));
            if (rank == (ranks > 1 ? 1 : 0))
                check(sums, ranks * (ranks + 1) / 2);
        } else {
            time = microseconds(allreduces, atof(argv[2]));
            check(sums, ranks * (ranks + 1) / 2);
        }
        if (rank == 0)
            print("collective", argv[i], time);
        free(terms);
        free(sums);
    }
    MPI_Finalize();
    return 0;
}
