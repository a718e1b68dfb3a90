/* One collective operation after the other, on all ranks.
   usage: collective barrier MILLISECONDS           prints: collective RANKS AVERAGE SLOWEST
          collective OPERATION MILLISECONDS BYTES... prints: collective BYTES AVERAGE SLOWEST
   in microseconds: the average over the ranks, and the slowest rank's. The operations are those of the table below; BYTES is what a rank gives to a reduction,
   a broadcast, an allgather or a gather, and what it sends to each peer in an alltoall or a scatter. Where there is a root, each process is it in turn, so that nobody gets far ahead.
   Prints "collective unsupported PROCEDURE" if the library says that it lacks it. */
#include "bench.h"

static int rank, ranks, doubles, *counts, *displs;
static double *terms, *results;
static MPI_Comm grid = MPI_COMM_NULL;
static MPI_Request persistent = MPI_REQUEST_NULL;

static void barrier(long count)
{
    for (; count > 0; count--)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(long count)
{
    for (; count > 0; count--)
        MPI_Allreduce(terms, results, doubles, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void allreduce_start(long count)
{
    for (; count > 0; count--) {
        MPI_Start(&persistent);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    }
}

static void reduce(long count)
{
    for (; count > 0; count--)
        MPI_Reduce(terms, results, doubles, MPI_DOUBLE, MPI_SUM, (int)(count % ranks), MPI_COMM_WORLD);
}

static void bcast(long count)
{
    for (; count > 0; count--)
        MPI_Bcast(terms, doubles, MPI_DOUBLE, (int)(count % ranks), MPI_COMM_WORLD);
}

static void allgather(long count)
{
    for (; count > 0; count--)
        MPI_Allgather(terms, doubles, MPI_DOUBLE, results, doubles, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void alltoall(long count)
{
    for (; count > 0; count--)
        MPI_Alltoall(terms, doubles, MPI_DOUBLE, results, doubles, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void alltoallv(long count)
{
    for (; count > 0; count--)
        MPI_Alltoallv(terms, counts, displs, MPI_DOUBLE, results, counts, displs, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void gather(long count)
{
    for (; count > 0; count--)
        MPI_Gather(terms, doubles, MPI_DOUBLE, results, doubles, MPI_DOUBLE, (int)(count % ranks), MPI_COMM_WORLD);
}

static void scatter(long count)
{
    for (; count > 0; count--)
        MPI_Scatter(terms, doubles, MPI_DOUBLE, results, doubles, MPI_DOUBLE, (int)(count % ranks), MPI_COMM_WORLD);
}

static void neighbor_alltoall(long count)
{
    for (; count > 0; count--)
        MPI_Neighbor_alltoall(terms, doubles, MPI_DOUBLE, results, doubles, MPI_DOUBLE, grid);
}

/* The results must be right, or the time is of no interest. */
static void expect(const double *block, double expected)
{
    int i;
    for (i = 0; i < doubles; i++) {
        if (block[i] != expected) {
            fprintf(stderr, "rank %d: the result at %d is %g, not %g\n", rank, i, block[i], expected);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static void sums_everywhere(void)
{
    expect(results, ranks * (ranks + 1) / 2);
}

/* The root of one operation is rank 1, or 0 if there is no other. */
static void sums_at_root(void)
{
    if (rank == 1 % ranks)
        expect(results, ranks * (ranks + 1) / 2);
}

static void terms_of_root(void)
{
    expect(terms, 1 % ranks + 1);
}

static void terms_of_all(void)
{
    int i;
    for (i = 0; i < ranks; i++)
        expect(results + (size_t)i * doubles, i + 1);
}

static void terms_of_all_at_root(void)
{
    if (rank == 1 % ranks)
        terms_of_all();
}

static void result_of_root(void)
{
    expect(results, 1 % ranks + 1);
}

/* In the order of the dimensions, down and up. */
static void terms_of_neighbors(void)
{
    int i, below, above;
    for (i = 0; i < 2; i++) {
        MPI_Cart_shift(grid, i, 1, &below, &above);
        expect(results + (size_t)(2 * i) * doubles, below + 1);
        expect(results + (size_t)(2 * i + 1) * doubles, above + 1);
    }
}

/* Whether the procedure has done its work; otherwise rank 0 says that the library lacks it. */
static int supported(const char *procedure, int code)
{
    int class = MPI_SUCCESS;
    if (code == MPI_SUCCESS)
        return 1;
    MPI_Error_class(code, &class);
    if (class != MPI_ERR_UNSUPPORTED_OPERATION) {
        fprintf(stderr, "rank %d: %s fails\n", rank, procedure);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("collective unsupported %s\n", procedure);
    return 0;
}

/* A grid as square as can be that wraps around. */
static int make_grid(void)
{
    int dims[2] = {1, 1}, periods[2] = {1, 1}, i;
    for (i = 1; i * i <= ranks; i++) {
        if (ranks % i == 0)
            dims[1] = i;
    }
    dims[0] = ranks / dims[1];
    return supported("MPI_Cart_create", MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
}

static int try_neighbor_alltoall(void)
{
    int code;
    MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
    code = MPI_Neighbor_alltoall(terms, doubles, MPI_DOUBLE, results, doubles, MPI_DOUBLE, grid);
    MPI_Comm_set_errhandler(grid, MPI_ERRORS_ARE_FATAL);
    return supported("MPI_Neighbor_alltoall", code);
}

static int make_persistent(void)
{
    return supported("MPI_Allreduce_init", MPI_Allreduce_init(terms, results, doubles, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                                                              MPI_INFO_NULL, &persistent));
}

/* Equal blocks, one after the other. */
static int make_counts(void)
{
    int i;
    counts = realloc(counts, ranks * sizeof *counts);
    displs = realloc(displs, ranks * sizeof *displs);
    if (counts == NULL || displs == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (i = 0; i < ranks; i++) {
        counts[i] = doubles;
        displs[i] = i * doubles;
    }
    return 1;
}

static const struct operation {
    const char *name;
    void (*run)(long count);
    void (*check)(void);
    /* 1: a block for each rank; else so many blocks. */
    int blocks_are_ranks, blocks;
    /* Before anything else, and once there are buffers. */
    int (*prepare)(void), (*begin)(void);
} operations[] = {
    {"allreduce", allreduce, sums_everywhere, 0, 1, NULL, NULL},
    {"allreduce_init", allreduce_start, sums_everywhere, 0, 1, NULL, make_persistent},
    {"reduce", reduce, sums_at_root, 0, 1, NULL, NULL},
    {"bcast", bcast, terms_of_root, 0, 1, NULL, NULL},
    {"allgather", allgather, terms_of_all, 1, 1, NULL, NULL},
    {"alltoall", alltoall, terms_of_all, 1, 1, NULL, NULL},
    {"alltoallv", alltoallv, terms_of_all, 1, 1, NULL, make_counts},
    {"gather", gather, terms_of_all_at_root, 1, 1, NULL, NULL},
    {"scatter", scatter, result_of_root, 1, 1, NULL, NULL},
    {"neighbor_alltoall", neighbor_alltoall, terms_of_neighbors, 0, 4, make_grid, try_neighbor_alltoall},
};

/* What the library lacks is for this program to say; any other error ends the job. */
static int tried(int (*step)(void))
{
    int done;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    done = step();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    return done;
}

static void sizes(const struct operation *operation, double milliseconds, char **words)
{
    if (operation->prepare != NULL && !tried(operation->prepare))
        return;
    for (; *words != NULL; words++) {
        int bytes = atoi(*words), blocks = operation->blocks_are_ranks ? ranks : operation->blocks, i;
        size_t all = (size_t)blocks * bytes;
        struct times times;
        doubles = bytes / (int)sizeof *terms;
        terms = (double *)buffer_of(all);
        results = (double *)buffer_of(all);
        for (i = 0; i < blocks * doubles; i++)
            terms[i] = rank + 1;
        if (operation->begin != NULL && !tried(operation->begin))
            return;
        operation->run(1);
        operation->check();
        times = times_of(operation->run, milliseconds);
        if (rank == 0)
            print_times("collective", *words, times);
        if (persistent != MPI_REQUEST_NULL)
            MPI_Request_free(&persistent);
        free(terms);
        free(results);
    }
}

int main(int argc, char **argv)
{
    const struct operation *operation = operations, *end = operations + sizeof operations / sizeof *operations;
    char all[16];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc == 3 && strcmp(argv[1], "barrier") == 0) {
        struct times times = times_of(barrier, atof(argv[2]));
        sprintf(all, "%d", ranks);
        if (rank == 0)
            print_times("collective", all, times);
        MPI_Finalize();
        return 0;
    }
    while (operation < end && (argc < 4 || strcmp(argv[1], operation->name) != 0))
        operation++;
    if (operation == end) {
        fprintf(stderr, "usage: collective OPERATION MILLISECONDS BYTES..., or collective barrier MILLISECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    sizes(operation, atof(argv[2]), argv + 3);
    MPI_Finalize();
    return 0;
}
