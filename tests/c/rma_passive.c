/* The target takes no part: while it waits in a call of any kind, or tests, or comes late, others get through with their epochs; and what they
 * did is there. */
#include "rma.h"

enum { SENDRECV, BARRIER, PROBE, IPROBE, WAITANY, TEST, SPLIT, ALLREDUCE, WINDOW, LOCK, WIN_TEST, SYNCHRONOUS, COMPUTE, OWN_LOCK, OWN_LOCK_ALL, OWN_FLUSH, OWN_SYNC, CASES };

static MPI_Group world, first;

/* What rank 0 does until the others are through: they send it a message each, or come to the collective operation. */
static void busy(int what, const struct window *other, struct window *w, long until)
{
    int flag = 0, index, sum, value;
    long here;
    char byte[64];
    MPI_Request requests[64];
    MPI_Comm part;
    switch (what) {
    case SENDRECV:
        for (int rank = 1; rank < ranks; rank++)
            OK(MPI_Recv(byte, 1, MPI_BYTE, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        return;
    case BARRIER:
        OK(MPI_Barrier(MPI_COMM_WORLD));
        return;
    case PROBE:
        OK(MPI_Probe(ranks - 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        break;
    case IPROBE:
        while (!flag)
            OK(MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        break;
    case WAITANY:
    case TEST:
        for (int rank = 1; rank < ranks; rank++)
            OK(MPI_Irecv(byte + rank, 1, MPI_BYTE, rank, 9, MPI_COMM_WORLD, &requests[rank - 1]));
        if (what == WAITANY)
            for (int rank = 1; rank < ranks; rank++)
                OK(MPI_Waitany(ranks - 1, requests, &index, MPI_STATUS_IGNORE));
        else
            while (!flag)
                OK(MPI_Testall(ranks - 1, requests, &flag, MPI_STATUSES_IGNORE));
        return;
    case SPLIT:
        OK(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &part));
        OK(MPI_Comm_free(&part));
        return;
    case ALLREDUCE:
        value = 1;
        OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        SAME(sum, ranks, "the sum");
        return;
    case WINDOW:
        OK(MPI_Win_fence(0, other->win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, other->win));
        return;
    case LOCK:
        /* Rank 1 has the lock, and gives it back when it is through. */
        OK(MPI_Recv(byte, 1, MPI_BYTE, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, other->win));
        OK(MPI_Get(&here, 1, MPI_LONG, 1, 0, 1, MPI_LONG, other->win));
        OK(MPI_Win_unlock(1, other->win));
        break;
    case WIN_TEST:
        OK(MPI_Win_post(first, 0, other->win));
        while (!flag)
            OK(MPI_Win_test(other->win, &flag));
        return;
    case SYNCHRONOUS:
        for (int rank = 1; rank < ranks; rank++)
            OK(MPI_Ssend(byte, 1, MPI_BYTE, rank, 7, MPI_COMM_WORLD));
        return;
    case OWN_LOCK:
    case OWN_LOCK_ALL:
    case OWN_FLUSH:
    case OWN_SYNC:
        /* It looks at its own memory until the last of the others has been there. */
        here = -1;
        if (what == OWN_FLUSH || what == OWN_SYNC)
            OK(MPI_Win_lock_all(0, w->win));
        while (here != until) {
            if (what == OWN_LOCK)
                OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win));
            if (what == OWN_LOCK_ALL)
                OK(MPI_Win_lock_all(0, w->win));
            if (what == OWN_SYNC) {
                OK(MPI_Win_sync(w->win));
                here = ((volatile long *)w->mine)[0];
                continue;
            }
            OK(MPI_Fetch_and_op(NULL, &here, MPI_LONG, 0, place(w, 0, 0), MPI_NO_OP, w->win));
            if (what == OWN_LOCK)
                OK(MPI_Win_unlock(0, w->win));
            else if (what == OWN_LOCK_ALL)
                OK(MPI_Win_unlock_all(w->win));
            else
                OK(MPI_Win_flush(0, w->win));
        }
        if (what == OWN_FLUSH || what == OWN_SYNC)
            OK(MPI_Win_unlock_all(w->win));
        break;
    default:
        /* It computes for a while, and then calls something. */
        usleep(3000);
    }
    for (int rank = 1; rank < ranks; rank++)
        OK(MPI_Recv(byte, 1, MPI_BYTE, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* How the others tell rank 0 that they are through. */
static void release(int what, const struct window *other)
{
    MPI_Comm part;
    int value = 1, sum;
    char byte = 0;
    switch (what) {
    case BARRIER:
        OK(MPI_Barrier(MPI_COMM_WORLD));
        break;
    case SPLIT:
        OK(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &part));
        OK(MPI_Comm_free(&part));
        break;
    case ALLREDUCE:
        OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        break;
    case WINDOW:
        OK(MPI_Win_fence(0, other->win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, other->win));
        break;
    case WIN_TEST:
        if (me == 1) {
            MPI_Group zero;
            OK(MPI_Group_incl(world, 1, (int[]){0}, &zero));
            OK(MPI_Win_start(zero, 0, other->win));
            OK(MPI_Win_complete(other->win));
            OK(MPI_Group_free(&zero));
        }
        break;
    case SYNCHRONOUS:
        OK(MPI_Recv(&byte, 1, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        break;
    default:
        OK(MPI_Send(&byte, 1, MPI_BYTE, 0, 9, MPI_COMM_WORLD));
    }
}

/* Epochs of all kinds that need nothing of the target. */
static void work(struct window *w, long round, int shared)
{
    enum { LARGE = 20000 };
    static long large[LARGE], back[LARGE];
    long one = 1, got = -1, value = 100 * round + me;
    size_t own = 8 * me, much = 8 * (size_t)ranks;
    OK(MPI_Win_lock(shared ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, w->win));
    OK(MPI_Put(&value, 1, MPI_LONG, 0, place(w, 0, own), 1, MPI_LONG, w->win));
    OK(MPI_Win_unlock(0, w->win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win));
    OK(MPI_Get(&got, 1, MPI_LONG, 0, place(w, 0, own), 1, MPI_LONG, w->win));
    OK(MPI_Win_flush(0, w->win));
    SAME(got, value, "what was put");
    OK(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, place(w, 0, own), MPI_SUM, w->win));
    OK(MPI_Win_unlock(0, w->win));
    SAME(got, value, "what was fetched");
    if (me == 1) {
        for (int i = 0; i < LARGE; i++)
            large[i] = i + round;
        OK(MPI_Win_lock_all(0, w->win));
        OK(MPI_Put(large, LARGE, MPI_LONG, 0, place(w, 0, much), LARGE, MPI_LONG, w->win));
        OK(MPI_Win_flush(0, w->win));
        OK(MPI_Get_accumulate(large, LARGE, MPI_LONG, back, LARGE, MPI_LONG, 0, place(w, 0, much), LARGE, MPI_LONG, MPI_SUM, w->win));
        OK(MPI_Win_flush(0, w->win));
        OK(MPI_Get(large, LARGE, MPI_LONG, 0, place(w, 0, much), LARGE, MPI_LONG, w->win));
        OK(MPI_Win_unlock_all(w->win));
        for (int i = 0; i < LARGE; i++)
            CHECK(back[i] == i + round && large[i] == 2 * (i + round), "element %d: %ld and %ld", i, back[i], large[i]);
    }
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win));
    OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, place(w, 0, 0), 1, MPI_LONG, MPI_SUM, w->win));
    OK(MPI_Win_unlock(0, w->win));
}

static void in_every_call(int flavor)
{
    struct window w = open_window(flavor, 8 * (size_t)ranks + 20000 * 8, 8, MPI_COMM_WORLD);
    struct window other = open_window(CREATED, 64, 8, MPI_COMM_WORLD);
    if (ranks > 1)
        for (int what = 0; what < CASES; what++) {
            /* That MPI_Win_sync makes progress is more than the standard demands, but programs wait by it. */
            if (what == OWN_SYNC && !of_weft())
                continue;
            if (me == 0) {
                busy(what, &other, &w, (what + 1) * (ranks - 1));
            } else {
                if (what == LOCK && me == 1) {
                    char byte = 0;
                    long got;
                    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, other.win));
                    OK(MPI_Get(&got, 1, MPI_LONG, 1, 0, 1, MPI_LONG, other.win));
                    OK(MPI_Win_flush(1, other.win));
                    OK(MPI_Send(&byte, 1, MPI_BYTE, 0, 8, MPI_COMM_WORLD));
                }
                work(&w, what, what == OWN_LOCK_ALL || what == OWN_FLUSH || what == OWN_SYNC);
                if (what == LOCK && me == 1)
                    OK(MPI_Win_unlock(1, other.win));
                /* With one of them rank 0 hears of the others only by it. */
                if (what == WIN_TEST) {
                    for (int rank = 2; rank < ranks; rank++)
                        if (me == 1)
                            OK(MPI_Recv(NULL, 0, MPI_BYTE, rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                        else if (me == rank)
                            OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 6, MPI_COMM_WORLD));
                }
                release(what, &other);
            }
            if (me == 0) {
                OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
                for (int rank = 1; rank < ranks; rank++)
                    SAME(((long *)w.mine)[rank], 100 * what + rank + 1, "of rank %d in case %d", rank, what);
                OK(MPI_Win_unlock(0, w.win));
            }
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    close_window(&other);
    close_window(&w);
}

/* A target that calls nothing at all does not keep others from getting on with it in memory that they share (12.7.3 demands it of nobody). */
static void by_shared_memory_alone(void)
{
    if (!one_node() || ranks < 2)
        return;
    const char *way = getenv("WEFT_WINDOWS"), *lanes = getenv("WEFT_LANES");
    if (!of_weft() || (lanes != NULL && strstr(lanes, "shm") == NULL) || (way != NULL && strcmp(way, "auto") != 0 && strcmp(way, "direct") != 0))
        return;
    struct window w = open_window(ALLOCATED, 64, 8, MPI_COMM_WORLD), told = open_window(SHARED, 64, 8, MPI_COMM_WORLD);
    MPI_Aint size;
    int unit;
    volatile long *done;
    OK(MPI_Win_shared_query(told.win, 0, &size, &unit, &done));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 0) {
        /* No call of MPI. */
        for (int i = 0; __atomic_load_n(done, __ATOMIC_ACQUIRE) < ranks - 1; i++) {
            CHECK(i < 600000, "the others do not get on without rank 0");
            usleep(100);
        }
    } else {
        long one = 1, got;
        for (int i = 0; i < 20; i++) {
            OK(MPI_Win_lock(i % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 0, 0, w.win));
            OK(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 1, MPI_SUM, w.win));
            OK(MPI_Win_flush(0, w.win));
            OK(MPI_Win_unlock(0, w.win));
        }
        __atomic_fetch_add(done, 1, __ATOMIC_ACQ_REL);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 0)
        SAME(((long *)w.mine)[1], 20 * (ranks - 1), "the sum");
    close_window(&told);
    close_window(&w);
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    CHECK(ranks <= 64, "too many ranks");
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, ranks > 1, (int[]){1}, &first));
    for (int flavor = 0; flavor < FLAVORS; flavor++)
        if (has_flavor(flavor))
            in_every_call(flavor);
    by_shared_memory_alone();
    OK(MPI_Group_free(&first));
    OK(MPI_Group_free(&world));
    return end("rma_passive");
}
