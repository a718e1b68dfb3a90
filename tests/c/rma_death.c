/* A rank is killed while others wait for it by one-sided communication: the first argument says how they wait, the second whose memory it is that
 * they use, the third who dies. They never get through, and the job ends. */
#include "rma.h"
#include <signal.h>

static struct window w;

static void wait_by(const char *how, int target, int who)
{
    long value = 1, got;
    MPI_Group world, group;
    int everybody[64], n = 0;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int rank = 0; rank < ranks; rank++)
        if (rank != me)
            everybody[n++] = rank;
    if (strcmp(how, "lock") == 0) {
        /* Who dies has the lock. */
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
        OK(MPI_Put(&value, 1, MPI_LONG, target, place(&w, target, 0), 1, MPI_LONG, w.win));
        OK(MPI_Win_unlock(target, w.win));
    } else if (strcmp(how, "flush") == 0) {
        OK(MPI_Win_lock_all(0, w.win));
        for (;;) {
            OK(MPI_Fetch_and_op(&value, &got, MPI_LONG, who, place(&w, who, 0), MPI_SUM, w.win));
            OK(MPI_Win_flush(who, w.win));
            /* By memory that is shared, operations get on; what does not is a barrier. */
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    } else if (strcmp(how, "unlock") == 0) {
        static char much[1000000];
        for (;;) {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, who, 0, w.win));
            OK(MPI_Accumulate(much, 8, MPI_BYTE, who, place(&w, who, 0), 8, MPI_BYTE, MPI_BOR, w.win));
            OK(MPI_Win_unlock(who, w.win));
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    } else if (strcmp(how, "fence") == 0) {
        for (;;) {
            OK(MPI_Win_fence(0, w.win));
            OK(MPI_Put(&value, 1, MPI_LONG, target, place(&w, target, 8), 1, MPI_LONG, w.win));
        }
    } else if (strcmp(how, "start") == 0) {
        OK(MPI_Group_incl(world, 1, &who, &group));
        OK(MPI_Win_start(group, 0, w.win));
        OK(MPI_Put(&value, 1, MPI_LONG, who, place(&w, who, 0), 1, MPI_LONG, w.win));
        OK(MPI_Win_complete(w.win));
        OK(MPI_Win_fence(0, w.win));
    } else if (strcmp(how, "wait") == 0) {
        OK(MPI_Group_incl(world, n, everybody, &group));
        OK(MPI_Win_post(group, 0, w.win));
        OK(MPI_Win_wait(w.win));
    } else if (strcmp(how, "free") == 0) {
        OK(MPI_Win_free(&w.win));
    } else {
        FAIL("no such way to wait: %s", how);
    }
    FAIL("rank %d is through, though rank %d is dead", me, who);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(argc == 4, "usage: rma_death HOW TARGET WHO");
    int target = atoi(argv[2]), who = atoi(argv[3]);
    w = open_window(ALLOCATED, 64, 8, MPI_COMM_WORLD);
    /* The error that a dead peer is ends the job. */
    OK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_ARE_FATAL));
    if (me == who && strcmp(argv[1], "lock") == 0) {
        long got;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
        OK(MPI_Get(&got, 1, MPI_LONG, target, place(&w, target, 0), 1, MPI_LONG, w.win));
        OK(MPI_Win_flush(target, w.win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == who) {
        usleep(50000);
        kill(getpid(), SIGKILL);
    }
    wait_by(argv[1], target, who);
    return 0;
}
