/* What the benchmark programs share: batches of equal length, and the median of their times.
 *
 * Each program is given the milliseconds that a measurement may take, prints lines of the form "NAME POINT VALUE", and
 * uses nothing but the standard, so that every MPI compiles and runs it. */
#ifndef BENCH_H
#define BENCH_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES_MIN = 5, BATCHES_MAX = 41 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A result, which is seen even if what comes next never ends. */
static inline void print(const char *program, const char *point, double value)
{
    printf("%s %s %.6f\n", program, point, value);
    fflush(stdout);
}

/* Runs an operation so many times on all ranks, each begun together; the seconds that rank 0 took. */
static double batch(void (*run)(long count), long count)
{
    double start;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    run(count);
    return MPI_Wtime() - start;
}

/* Microseconds of one operation in each of several batches, which take about so many milliseconds together; how many
   batches. Collective; each rank gets its own times, in the order in which they were measured. */
static int measure(void (*run)(long count), double milliseconds, double times[BATCHES_MAX])
{
    double wanted = milliseconds * 1e-3 / BATCHES_MAX, took;
    long count = 1, next;
    int batches = BATCHES_MAX, i;

    /* Connects, warms up, and finds how often the operation fits into a batch. Rank 0's clock decides for all. */
    for (;;) {
        took = batch(run, count);
        next = took < wanted / 2 ? count * 2 : 0;
        MPI_Bcast(&next, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        if (next == 0)
            break;
        count = next;
    }
    /* An operation longer than a batch: fewer of them, but not too few for a median. */
    if (took > wanted * 2)
        batches = (int)(milliseconds * 1e-3 / took);
    if (batches < BATCHES_MIN)
        batches = BATCHES_MIN;
    MPI_Bcast(&batches, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (i = 0; i < batches; i++)
        times[i] = batch(run, count) / count * 1e6;
    return batches;
}

static double median(double *times, int batches)
{
    qsort(times, batches, sizeof *times, by_value);
    return times[batches / 2];
}

/* Microseconds of one operation on rank 0: the median of the batches. Collective; other ranks get a number of no meaning. */
static inline double microseconds(void (*run)(long count), double milliseconds)
{
    double times[BATCHES_MAX];
    int batches = measure(run, milliseconds, times);
    return median(times, batches);
}

/* Microseconds of one operation of all ranks: their average, and the slowest rank's. */
struct times {
    double average, slowest;
};

/* Of both the median of the batches, on rank 0. Collective; other ranks get numbers of no meaning. */
static inline struct times times_of(void (*run)(long count), double milliseconds)
{
    double times[BATCHES_MAX], sums[BATCHES_MAX] = {0}, most[BATCHES_MAX] = {0};
    int batches = measure(run, milliseconds, times), ranks;
    struct times result;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Reduce(times, sums, batches, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(times, most, batches, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    result.average = median(sums, batches) / ranks;
    result.slowest = median(most, batches);
    return result;
}

static inline void print_times(const char *program, const char *point, struct times times)
{
    printf("%s %s %.6f %.6f\n", program, point, times.average, times.slowest);
    fflush(stdout);
}

/* So many bytes, each page of them touched: memory that nobody has written is one page of zeros, and quick to read. */
static inline char *buffer_of(size_t bytes)
{
    char *buffer = malloc(bytes);
    if (buffer == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(buffer, 1, bytes);
    return buffer;
}

#endif
