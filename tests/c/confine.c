/* A program that confines itself once MPI runs: membarrier fails from then on. Threads come to MPI for the first time after that, and
 * ranks sleep until messages come. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void confine(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
          "no filter: %s", strerror(errno));
    CHECK(syscall(SYS_membarrier, 0, 0, 0) == -1 && errno == EPERM, "the filter does not work");
}

enum { TURNS = 20 };

/* Round the ring with a tag of its own; each rank waits long enough to sleep. */
static void *turns(void *tag)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks, value = 0;
    for (int i = 0; i < TURNS; i++) {
        if (me == 0) {
            usleep(5000);
            value = i;
            OK(MPI_Send(&value, 1, MPI_INT, next, (int)(intptr_t)tag, MPI_COMM_WORLD));
        }
        OK(MPI_Recv(&value, 1, MPI_INT, before, (int)(intptr_t)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        SAME(value, i, "turn");
        if (me != 0)
            OK(MPI_Send(&value, 1, MPI_INT, next, (int)(intptr_t)tag, MPI_COMM_WORLD));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    confine();
    turns((void *)1);
    CHECK(pthread_create(&thread, NULL, turns, (void *)2) == 0, "no thread");
    turns((void *)3);
    CHECK(pthread_join(thread, NULL) == 0, "the thread is not there");
    return end("confine");
}
