/* Sessions that come when the process has been at rest, under whichever launcher:
 *
 *   session_again cycles|after|threads return|_exit
 *   session_again abort|killed
 *
 * `cycles`: there are only sessions; `after`: the first comes after MPI_Finalize; `threads`: several threads have them,
 * the first before MPI_Init and the last after MPI_Finalize. In each cycle a process talks to others than in the last
 * one, so that it needs addresses that it did not know when it came to rest. Then it returns from main, or leaves by
 * `_exit`, which runs no exit handler; rank 0 lives on until all others of its host have gone, and
 * then has to be alive.
 *
 * `abort`, `killed`: rank 1 aborts or is killed in the second session, while the others wait for it. */
#include "check.h"

#include <pthread.h>
#include <signal.h>

enum { CYCLES = 30, THREADS = 3, LONG = 100000 };

struct place {
    int pid;
    char host[64];
};

struct job {
    MPI_Session session;
    MPI_Comm world;
    int rank, size;
};

static struct job open_session(const char *tag)
{
    struct job job;
    MPI_Group group;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &job.session));
    OK(MPI_Group_from_session_pset(job.session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &job.world));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_rank(job.world, &job.rank));
    OK(MPI_Comm_size(job.world, &job.size));
    return job;
}

static void cycle(const char *tag, int number)
{
    struct job job = open_session(tag);
    unsigned char *out = allocate(LONG), *in = allocate(LONG);
    int distance = number % job.size, sum = -1;
    int to = (job.rank + distance) % job.size, from = (job.rank + job.size - distance) % job.size;

    for (int bytes = 8; bytes <= LONG; bytes = bytes < 1000 ? 1000 : bytes * 100) {
        fill(out, bytes, number * 100 + job.rank);
        OK(MPI_Sendrecv(out, bytes, MPI_BYTE, to, 0, in, bytes, MPI_BYTE, from, 0, job.world, MPI_STATUS_IGNORE));
        FILLED(in, bytes, number * 100 + from, "a message of the cycle");
    }
    if (number % 2 == 0) {
        OK(MPI_Allreduce(&job.rank, &sum, 1, MPI_INT, MPI_SUM, job.world));
        SAME(sum, job.size * (job.size - 1) / 2, "the sum of the ranks");
    }
    if (number % 3 == 0)
        OK(MPI_Comm_disconnect(&job.world));
    else if (number % 3 == 1)
        OK(MPI_Comm_free(&job.world));
    OK(MPI_Session_finalize(&job.session));
    free(out);
    free(in);
}

static void *cycles(void *thread)
{
    char tag[32];
    snprintf(tag, sizeof tag, "weft.tests.again.%d", (int)(intptr_t)thread);
    for (int number = 1; number <= CYCLES; number++)
        cycle(tag, number);
    return NULL;
}

static void in_threads(void)
{
    pthread_t threads[THREADS];
    cycle("weft.tests.again.first", 1);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &(int){0});
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_create(&threads[at], NULL, cycles, (void *)(intptr_t)at) == 0, "no thread");
    MPI_Finalize();
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    cycle("weft.tests.again.last", 1);
}

static void ended(int by_abort)
{
    cycle("weft.tests.again.first", 1);
    struct job job = open_session("weft.tests.again.second");
    char byte;
    OK(MPI_Barrier(job.world));
    if (job.rank == 1 && by_abort)
        MPI_Abort(job.world, 3);
    if (job.rank == 1)
        raise(SIGKILL);
    MPI_Recv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, 7, job.world, MPI_STATUS_IGNORE);
    /* A rank that hears nothing of the end waits forever. */
    for (;;)
        pause();
}

/* Whether the process has ended; who started it need not have noticed. */
static int has_ended(int pid)
{
    char path[64], line[512] = "", *after;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 1;
    if (fgets(line, sizeof line, file) == NULL)
        line[0] = 0;
    fclose(file);
    after = strrchr(line, ')');
    return after == NULL || after[2] == 'Z' || after[2] == 'X';
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2, "usage: session_again cycles|after|threads|abort|killed [return|_exit]");
    if (strcmp(argv[1], "abort") == 0 || strcmp(argv[1], "killed") == 0)
        ended(argv[1][0] == 'a');
    if (strcmp(argv[1], "after") == 0) {
        MPI_Init(NULL, NULL);
        MPI_Finalize();
    }
    if (strcmp(argv[1], "threads") == 0)
        in_threads();
    else
        cycles(NULL);

    struct job job = open_session("weft.tests.again.pids");
    struct place mine = {.pid = getpid()}, *all = allocate(job.size * sizeof *all);
    CHECK(gethostname(mine.host, sizeof mine.host) == 0, "no host name");
    me = job.rank;
    ranks = job.size;
    OK(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, job.world));
    OK(MPI_Session_finalize(&job.session));
    if (me == 0) {
        for (int rank = 1; rank < ranks; rank++)
            while (strcmp(all[rank].host, mine.host) == 0 && !has_ended(all[rank].pid))
                usleep(1000);
        printf("session_again: ok with %d ranks\n", ranks);
        fflush(stdout);
    }
    free(all);
    if (argc > 2 && strcmp(argv[2], "_exit") == 0)
        _exit(0);
    return 0;
}
