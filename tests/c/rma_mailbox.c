/* Short puts and gets in a window whose memory is not shared go by a mailbox where their target waits in a call of MPI, and not by the kernel:
 * this program counts the kernel's copies. Two ranks, each of which has a processor. */
#define _GNU_SOURCE
#include "rma.h"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* What the library calls: this program's come before those of the C library. */
static unsigned long copies;

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long number, const struct iovec *there, unsigned long others,
                         unsigned long flags)
{
    copies++;
    return syscall(SYS_process_vm_readv, pid, here, number, there, others, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *here, unsigned long number, const struct iovec *there, unsigned long others,
                          unsigned long flags)
{
    copies++;
    return syscall(SYS_process_vm_writev, pid, here, number, there, others, flags);
}

enum { TRIES = 300000, ENOUGH = 20, CELLS = 8192 };

/* Whether the two have two processors, and the kernel copies from rank 1 to rank 0. Said by rank 0; the other one says where it runs, and where
 * there is something to copy. */
static int possible(const struct window *w)
{
    struct {
        long pid;
        char *address;
        cpu_set_t processors;
    } here = {.pid = getpid(), .address = w->mine}, there;
    CHECK(sched_getaffinity(0, sizeof here.processors, &here.processors) == 0, "no processors");
    if (me == 1) {
        OK(MPI_Send(&here, sizeof here, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
        return 1;
    }
    OK(MPI_Recv(&there, sizeof there, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CPU_OR(&here.processors, &here.processors, &there.processors);
    long word;
    struct iovec from = {there.address, sizeof word}, to = {&word, sizeof word};
    return CPU_COUNT(&here.processors) >= 2 && process_vm_readv(there.pid, &to, 1, &from, 1, 0) == sizeof word;
}

/* Other programs may have the processor that the target needs, and then an operation goes by the kernel all the same. So it is tried again and
 * again, until so many have gone without it. */
static void ask(const struct window *w, int get)
{
    int asked = 0;
    for (long i = 1; asked < ENOUGH; i++) {
        CHECK(i < TRIES, "after %d %ss, %d have gone without the kernel", TRIES, get ? "get" : "put", asked);
        unsigned long before = copies;
        long value = i;
        if (get)
            OK(MPI_Get(&value, 1, MPI_LONG, 1, 1, 1, MPI_LONG, w->win));
        else
            OK(MPI_Put(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, w->win));
        OK(MPI_Win_flush(1, w->win));
        SAME(value, get ? 7 : i, "what was put or got");
        asked += copies == before;
    }
}

int main(int argc, char **argv)
{
    static long bytes[CELLS] = {7, 7};
    begin_rma(&argc, &argv);
    struct window w = open_window(CREATED, sizeof bytes, sizeof(long), MPI_COMM_WORLD);
    ((long *)w.mine)[1] = 7;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!possible(&w)) {
        printf("skipped: one processor, or the kernel copies nothing\n");
    } else if (me == 0) {
        OK(MPI_Win_lock_all(0, w.win));
        ask(&w, 0);
        ask(&w, 1);
        /* Too long for a mailbox: this shows that copies are counted. */
        unsigned long before = copies;
        OK(MPI_Put(bytes, CELLS, MPI_LONG, 1, 0, CELLS, MPI_LONG, w.win));
        OK(MPI_Win_flush(1, w.win));
        CHECK(copies != before, "a put of %zu bytes went without the kernel", sizeof bytes);
        OK(MPI_Win_unlock_all(w.win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    close_window(&w);
    return end("rma_mailbox");
}
