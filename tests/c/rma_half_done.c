/* A process of another job dies in the midst of a long accumulate, while others update the same memory that all see: they do not wait for it for
 * ever. What it was about is half done, and all else adds up. */
#include "rma.h"
#include <signal.h>
#include <sys/mman.h>

/* The page of the operands that can't be read lies in the midst of the second piece that is updated at once. */
enum { MANY = 10000, READABLE = 20480, ROUNDS = 20 };

static struct window w;
static long ones[MANY];

static void die(int number)
{
    (void)number;
    kill(getpid(), SIGKILL);
}

static void half_an_accumulate(void)
{
    long *operands = mmap(NULL, sizeof ones, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(operands != MAP_FAILED, "no memory");
    memcpy(operands, ones, sizeof ones);
    CHECK(mprotect((char *)operands + READABLE, sizeof ones - READABLE, PROT_NONE) == 0, "mprotect");
    signal(SIGSEGV, die);
    OK(MPI_Accumulate(operands, MANY, MPI_LONG, 0, 0, MANY, MPI_LONG, MPI_SUM, w.win));
    FAIL("the operands were not read");
}

/* Adds 2 to the first element, and 1 to all others. */
static void update(void)
{
    long got, one = 1;
    OK(MPI_Accumulate(ones, MANY, MPI_LONG, 0, 0, MANY, MPI_LONG, MPI_SUM, w.win));
    OK(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 0, MPI_SUM, w.win));
    OK(MPI_Win_flush(0, w.win));
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children, merged;
    begin_rma(&argc, &argv);
    CHECK(argc >= 2, "usage: rma_half_done atomic|closed");
    int closed = strcmp(argv[1], "closed") == 0;
    for (int i = 0; i < MANY; i++)
        ones[i] = 1;
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        OK(MPI_Intercomm_merge(parent, 1, &merged));
    else {
        OK(MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        OK(MPI_Intercomm_merge(children, 0, &merged));
        OK(MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN));
    }
    OK(MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN));
    w = open_window(SHARED, sizeof ones, sizeof *ones, merged);
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
    /* Then all take the lock from the beginning. */
    if (closed && me == 0 && parent == MPI_COMM_NULL)
        update();
    /* By this the parents notice that the child is gone. */
    MPI_Request never;
    int word, is_lost = 0;
    if (parent == MPI_COMM_NULL)
        OK(MPI_Irecv(&word, 1, MPI_INT, 0, 99, children, &never));
    OK(MPI_Barrier(merged));
    if (parent != MPI_COMM_NULL)
        half_an_accumulate();
    long updates = closed && me == 0, all, *values = (long *)w.mine;
    for (int left = ROUNDS; left > 0; updates++) {
        update();
        int code = is_lost ? MPI_SUCCESS : MPI_Test(&never, &is_lost, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            SAME(class_of(code), MPI_ERR_PROC_ABORTED, "class of the error");
            is_lost = 1;
        }
        left -= is_lost;
    }
    OK(MPI_Allreduce(&updates, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Win_sync(w.win));
    for (int i = 0; me == 0 && i < MANY; i++) {
        long expected = i == 0 ? 2 * all : all, more = values[i] - expected;
        if (i < 16384 / (int)sizeof *values)
            SAME(more, 1, "element %d: what was done by who died", i);
        else if (i < READABLE / (int)sizeof *values)
            CHECK(more == 0 || more == 1, "element %d is %ld, not %ld or one more", i, values[i], expected);
        else
            SAME(more, 0, "element %d: what was not done by who died", i);
    }
    OK(MPI_Win_unlock_all(w.win));
    /* The window can't be freed by all; MPI_Finalize does without. */
    return end("rma_half_done");
}
