/* What waiting costs: ranks wait in MPI_Recv for a second in which nothing comes, and measure the processor time that this
 * takes them. Then a few shorter waits, each of which a message ends. */
#include "check.h"
#include <sys/resource.h>

/* Most of what a wait costs: of its time, what a rank may use (thousandths), and how often it may wake in a second. The first says only
 * that nobody is awake all the time: what a slow machine takes for the first milliseconds, which are spent awake, is far below it.
 * The second says that nobody looks too often: a sleeper does each 20 ms, and so may libfabric's threads. */
#define MOST 200
#define OFTEN 150

static int64_t used_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL;
}

/* How often this process has gone to sleep. */
static int64_t sleeps(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

static void sleep_ms(long milliseconds)
{
    struct timespec span = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&span, &span) != 0)
        ;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    char byte = 0;
    /* Connections are made, both ways. */
    for (int i = 1; i < ranks; i++) {
        if (me == 0)
            MPI_Sendrecv(&byte, 1, MPI_CHAR, i, 1, &byte, 1, MPI_CHAR, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (me == i)
            MPI_Sendrecv(&byte, 1, MPI_CHAR, 0, 1, &byte, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    int64_t used = used_ns(), slept = sleeps(), start = now_ns();
    if (me == 0) {
        sleep_ms(1000);
        for (int i = 1; i < ranks; i++)
            MPI_Send(&byte, 1, MPI_CHAR, i, 2, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&byte, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        used = used_ns() - used;
        slept = sleeps() - slept;
        int64_t waited = now_ns() - start;
        CHECK(waited > 900000000, "the wait took %lld ns only", (long long)waited);
        printf("rank %d: idle %.2f %%, slept %lld times\n", me, 100.0 * (double)used / (double)waited, (long long)slept);
        CHECK(slept * 1000000000 < waited * OFTEN, "slept %lld times in a wait of %lld ms", (long long)slept,
              (long long)waited / 1000000);
        CHECK(used * 1000 < waited * MOST, "%lld ms of processor time in a wait of %lld ms", (long long)used / 1000000,
              (long long)waited / 1000000);
    }
    /* What a sleeping rank takes to wake: told, for on a busy machine it can be anything. */
    int64_t sent, best = INT64_MAX;
    for (int round = 0; round < 5; round++) {
        if (me == 0) {
            sleep_ms(50);
            for (int i = 1; i < ranks; i++) {
                sent = now_ns();
                MPI_Send(&sent, 1, MPI_INT64_T, i, 3, MPI_COMM_WORLD);
            }
        } else {
            MPI_Recv(&sent, 1, MPI_INT64_T, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            int64_t took = now_ns() - sent;
            best = took < best ? took : best;
        }
    }
    if (me != 0)
        printf("rank %d: woken in %lld us at best\n", me, (long long)best / 1000);
    return end("idle");
}
