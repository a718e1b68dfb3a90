/* Ranks of one machine in containers of their own, which can't share memory: containers. Each rank goes into new namespaces (it has to
 * be root) and begins anew there. The ranks that are split off as sharing memory can do so. */
#define _GNU_SOURCE
#include "check.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

static int inside(char **argv)
{
    char *again[] = {argv[0], "inside", NULL};
    int status;
    CHECK(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0, "no namespaces can be made");
    pid_t child = fork();
    CHECK(child >= 0, "no process can be made");
    if (child == 0) {
        CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("proc", "/proc", "proc", 0, NULL) == 0 &&
                  mount("none", "/dev/shm", "tmpfs", 0, NULL) == 0,
              "nothing can be mounted");
        execv(argv[0], again);
        _exit(99);
    }
    CHECK(waitpid(child, &status, 0) == child, "the process is lost");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

int main(int argc, char **argv)
{
    int number, size;
    int *memory;
    MPI_Comm near;
    MPI_Win window;

    if (argc < 2)
        return inside(argv);
    begin(&argc, &argv);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_rank(near, &number);
    MPI_Comm_size(near, &size);
    SAME(size, 1, "ranks that share memory");
    MPI_Win_allocate_shared(sizeof *memory, 1, MPI_INFO_NULL, near, &memory, &window);
    *memory = number;
    MPI_Win_free(&window);
    MPI_Comm_free(&near);
    for (int distance = 0; distance < ranks; distance++) {
        int to = (me + distance) % ranks, from = (me + ranks - distance) % ranks, came = -1;
        MPI_Sendrecv(&me, 1, MPI_INT, to, 0, &came, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAME(came, from, "the message from rank %d", from);
    }
    return end("containers");
}
