/* Ranks that die: the first argument says how, the second which rank does, the third is a code. The others wait for a
 * message that never comes, or compute without end. */
#include "check.h"
#include <signal.h>

static void wait_forever(void)
{
    char byte;
    MPI_Recv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, 12345, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static volatile unsigned long spins;
static volatile int *volatile nowhere;

int main(int argc, char **argv)
{
    CHECK(argc >= 3, "usage: death HOW RANK [CODE]");
    const char *how = argv[1];
    int who = atoi(argv[2]), code = argc > 3 ? atoi(argv[3]) : 0;
    begin(&argc, &argv);
    /* All have connections to all, as in a job that has run for a while. */
    for (int i = 0; i < ranks; i++) {
        int in = -1;
        MPI_Sendrecv(&me, 1, MPI_INT, (me + i) % ranks, 1, &in, 1, MPI_INT, (me + ranks - i) % ranks, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    if (strcmp(how, "ready") == 0 || strcmp(how, "finalize") == 0) {
        /* For tests that send signals: tells the process ids of all ranks. */
        MPI_Barrier(MPI_COMM_WORLD);
        printf("pid %d\n", (int)getpid());
        fflush(stdout);
        if (strcmp(how, "ready") == 0)
            wait_forever();
        usleep(me * 10000);
        MPI_Finalize();
        return 0;
    }
    if (me != who) {
        if (strcmp(how, "abort-stuck") == 0)
            for (;;)
                spins++;
        wait_forever();
    }
    usleep(50000);
    if (strcmp(how, "segfault") == 0)
        *nowhere = 1;
    else if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    else if (strcmp(how, "exit") == 0)
        exit(code);
    else if (strcmp(how, "_exit") == 0)
        _exit(code);
    else if (strcmp(how, "abort") == 0 || strcmp(how, "abort-stuck") == 0)
        MPI_Abort(MPI_COMM_WORLD, code);
    else if (strcmp(how, "error") == 0)
        MPI_Send(NULL, 0, MPI_BYTE, ranks + 7, 1, MPI_COMM_WORLD);
    else
        FAIL("no such death: %s", how);
    return 0;
}
