/* The last rank is silent: it computes without calling MPI, or is stopped, until a file is there. The others send to it all the
 * while, for the first time: no connection to it can come about. Arguments: computes or stopped, and the file. */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static void wait_for(const char *file)
{
    while (access(file, F_OK) != 0)
        usleep(5000);
}

/* Another process wakes this one, as somebody at a debugger would. */
static void stop_until(const char *file)
{
    pid_t stopped = getpid(), waker = fork();
    CHECK(waker >= 0, "no process can be made");
    if (waker == 0) {
        wait_for(file);
        /* This may come before the stop, which it would not end. */
        while (getppid() == stopped) {
            kill(stopped, SIGCONT);
            usleep(5000);
        }
        _exit(0);
    }
    raise(SIGSTOP);
    kill(waker, SIGKILL);
    waitpid(waker, NULL, 0);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(argc == 3, "two arguments are wanted");
    int last = ranks - 1, number = me;
    if (me == last) {
        if (strcmp(argv[1], "stopped") == 0)
            stop_until(argv[2]);
        else
            wait_for(argv[2]);
        for (int i = 0; i < last; i++) {
            MPI_Recv(&number, 1, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            SAME(number, i, "what came");
        }
    } else {
        MPI_Send(&number, 1, MPI_INT, last, 1, MPI_COMM_WORLD);
    }
    return end("silent");
}
