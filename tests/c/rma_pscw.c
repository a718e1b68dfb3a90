/* MPI_Win_post, start, complete, wait and test: who meets whom is told by groups. */
#include "rma.h"

static MPI_Group world;

/* The ranks whose bit is set, the last one first if `backwards`. */
static MPI_Group group_of(unsigned long bits, int backwards)
{
    int members[64], n = 0;
    MPI_Group group;
    for (int i = 0; i < ranks; i++) {
        int rank = backwards ? ranks - 1 - i : i;
        if (bits >> rank & 1)
            members[n++] = rank;
    }
    OK(MPI_Group_incl(world, n, members, &group));
    return group;
}

static void post(unsigned long bits, int assert, MPI_Win win)
{
    MPI_Group group = group_of(bits, 1);
    OK(MPI_Win_post(group, assert, win));
    /* The group may go at once. */
    OK(MPI_Group_free(&group));
}

static void start(unsigned long bits, int assert, MPI_Win win)
{
    MPI_Group group = group_of(bits, 0);
    OK(MPI_Win_start(group, assert, win));
    OK(MPI_Group_free(&group));
}

static void wait_for(int by_test, MPI_Win win)
{
    int flag = 0;
    if (!by_test) {
        OK(MPI_Win_wait(win));
        return;
    }
    while (!flag)
        OK(MPI_Win_test(win, &flag));
}

static unsigned long everybody(void)
{
    return (1ul << ranks) - 1;
}

/* Each has access to its right neighbour, and exposes its memory to the left one. */
static void neighbours(int flavor)
{
    struct window w = open_window(flavor, 64, 4, MPI_COMM_WORLD);
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks, value, got, *mine = (int *)w.mine;
    for (int round = 0; round < 20; round++) {
        mine[2] = 7000 + 10 * me + round;
        post(1ul << left, round % 3 == 0 ? MPI_MODE_NOSTORE : 0, w.win);
        start(1ul << right, 0, w.win);
        value = 100 * me + round;
        OK(MPI_Put(&value, 1, MPI_INT, right, place(&w, right, 4), 1, MPI_INT, w.win));
        OK(MPI_Get(&got, 1, MPI_INT, right, place(&w, right, 8), 1, MPI_INT, w.win));
        OK(MPI_Accumulate(&value, 1, MPI_INT, right, place(&w, right, 12), 1, MPI_INT, MPI_REPLACE, w.win));
        OK(MPI_Win_complete(w.win));
        SAME(got, 7000 + 10 * right + round, "got in round %d", round);
        value = -1;
        wait_for(round % 2, w.win);
        SAME(mine[1], 100 * left + round, "put by the left neighbour in round %d", round);
        SAME(mine[3], 100 * left + round, "accumulated by the left neighbour in round %d", round);
    }
    close_window(&w);
}

/* Who has access to whom is drawn anew in each round, alike by all: nobody else has to do anything. */
static void drawn(int flavor)
{
    struct window w = open_window(flavor, (size_t)ranks * 8 + 8, 8, MPI_COMM_WORLD);
    long *mine = (long *)w.mine, value[64], one = 1, sum = 0;
    uint64_t state = 99 + flavor;
    for (int round = 0; round < (brief() ? 10 : 30); round++) {
        unsigned long targets = 0, origins = 0;
        for (int from = 0; from < ranks; from++)
            for (int to = 0; to < ranks; to++)
                if (draw(&state) % 3 == 0) {
                    targets |= from == me ? 1ul << to : 0;
                    origins |= to == me ? 1ul << from : 0;
                }
        int exposed = origins != 0 || round % 2, accesses = targets != 0 || round % 4 < 2;
        if (exposed)
            post(origins, 0, w.win);
        if (accesses) {
            start(targets, 0, w.win);
            for (int to = 0; to < ranks; to++)
                if (targets >> to & 1) {
                    value[to] = 1000 * round + 10 * me + to;
                    OK(MPI_Put(&value[to], 1, MPI_LONG, to, place(&w, to, 8 * me), 1, MPI_LONG, w.win));
                    OK(MPI_Accumulate(&one, 1, MPI_LONG, to, place(&w, to, 8 * ranks), 1, MPI_LONG, MPI_SUM, w.win));
                }
            OK(MPI_Win_complete(w.win));
        }
        if (exposed)
            wait_for((round + me) % 2, w.win);
        for (int from = 0; from < ranks; from++)
            if (origins >> from & 1) {
                SAME(mine[from], 1000 * round + 10 * from + me, "from rank %d in round %d", from, round);
                sum++;
            }
        SAME(mine[ranks], sum, "operations of all in round %d", round);
        /* MPICH 5.0.2 only counts posts: one of the next round, of a process that is not in this round's group, confuses it. */
        if (!of_weft())
            OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    close_window(&w);
}

/* All with all, also each with itself; and the ends in another order. */
static void everybody_with_everybody(int flavor)
{
    struct window w = open_window(flavor, (size_t)ranks * 4, 4, MPI_COMM_WORLD);
    int value[64];
    for (int round = 0; round < 4; round++) {
        post(everybody(), 0, w.win);
        start(everybody(), 0, w.win);
        for (int i = 0; i < ranks; i++) {
            int rank = (me + i) % ranks;
            value[rank] = 100 * round + me * ranks + rank;
            OK(MPI_Put(&value[rank], 1, MPI_INT, rank, place(&w, rank, 4 * me), 1, MPI_INT, w.win));
        }
        OK(MPI_Win_complete(w.win));
        OK(MPI_Win_wait(w.win));
        for (int rank = 0; rank < ranks; rank++)
            SAME(((int *)w.mine)[rank], 100 * round + rank * ranks + me, "from rank %d", rank);
    }
    close_window(&w);
}

/* Several epochs in a row without anything between them: an origin that is ahead waits for the next post. */
static void in_a_row(void)
{
    enum { EPOCHS = 10 };
    struct window w = open_window(CREATED, EPOCHS * 4, 4, MPI_COMM_WORLD);
    int value[EPOCHS];
    unsigned long others = everybody() & ~1ul;
    if (me == 0) {
        /* One after the other gets access, in an order that they do not know. */
        for (int i = 0; i < EPOCHS; i++) {
            memset(w.mine, 0xff, w.bytes);
            for (int rank = ranks - 1; rank > 0; rank--) {
                post(1ul << rank, 0, w.win);
                wait_for((i + rank) % 2, w.win);
                SAME(((int *)w.mine)[i], 100 * rank + i, "what rank %d put in epoch %d", rank, i);
            }
            if (others != 0) {
                post(others, 0, w.win);
                OK(MPI_Win_wait(w.win));
            }
        }
    } else {
        for (int i = 0; i < EPOCHS; i++) {
            start(1, 0, w.win);
            value[i] = 100 * me + i;
            OK(MPI_Put(&value[i], 1, MPI_INT, 0, i, 1, MPI_INT, w.win));
            OK(MPI_Win_complete(w.win));
            start(1, 0, w.win);
            OK(MPI_Win_complete(w.win));
        }
    }
    close_window(&w);
}

/* A chain: each gives on what it got, as soon as it has got it. */
static void chain(void)
{
    enum { LINKS = 12, INTS = 1000 };
    struct window w = open_window(ALLOCATED, INTS * 4, 4, MPI_COMM_WORLD);
    int *mine = (int *)w.mine;
    for (int link = 0; link < LINKS && ranks > 1; link++) {
        if (me > 0) {
            post(1ul << (me - 1), 0, w.win);
            wait_for(link % 2, w.win);
            for (int i = 0; i < INTS; i++)
                SAME(mine[i], link * 10 + i + me - 1, "element %d of link %d", i, link);
        }
        for (int i = 0; i < INTS; i++)
            mine[i] = link * 10 + i + me;
        if (me < ranks - 1) {
            start(1ul << (me + 1), 0, w.win);
            OK(MPI_Put(mine, INTS, MPI_INT, me + 1, 0, INTS, MPI_INT, w.win));
            OK(MPI_Win_complete(w.win));
        }
    }
    close_window(&w);
}

/* Nobody in a group; the group of none; and only the exposure or only the access. */
static void empty(void)
{
    struct window w = open_window(CREATED, 8, 1, MPI_COMM_WORLD);
    int flag = 0;
    for (int i = 0; i < 3; i++) {
        OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, w.win));
        OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, w.win));
        OK(MPI_Win_complete(w.win));
        OK(MPI_Win_wait(w.win));
        OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, w.win));
        OK(MPI_Win_test(w.win, &flag));
        SAME(flag, 1, "MPI_Win_test of an epoch for nobody");
        OK(MPI_Win_start(MPI_GROUP_EMPTY, MPI_MODE_NOCHECK, w.win));
        OK(MPI_Win_complete(w.win));
    }
    close_window(&w);
}

/* MPI_Win_test says no as long as an origin is not through, and does not wait. */
static void test_says_no(void)
{
    struct window w = open_window(CREATED, 8, 4, MPI_COMM_WORLD);
    int flag = 1, value = 5;
    if (ranks > 1 && me == 0) {
        post(2, 0, w.win);
        for (int i = 0; i < 100; i++) {
            OK(MPI_Win_test(w.win, &flag));
            SAME(flag, 0, "MPI_Win_test before the other's MPI_Win_complete");
        }
        OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
        wait_for(1, w.win);
        SAME(((int *)w.mine)[0], 5, "what was put");
    } else if (me == 1) {
        start(1, 0, w.win);
        OK(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, w.win));
        OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Win_complete(w.win));
    }
    close_window(&w);
}

/* The post is known to be there: MPI_MODE_NOCHECK on both sides. */
static void without_checks(void)
{
    struct window w = open_window(CREATED, 8, 4, MPI_COMM_WORLD);
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    for (int round = 0; round < 6; round++) {
        int value = 10 * me + round;
        post(1ul << left, MPI_MODE_NOCHECK, w.win);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        start(1ul << right, MPI_MODE_NOCHECK, w.win);
        OK(MPI_Put(&value, 1, MPI_INT, right, 1, 1, MPI_INT, w.win));
        OK(MPI_Win_complete(w.win));
        OK(MPI_Win_wait(w.win));
        SAME(((int *)w.mine)[1], 10 * left + round, "what was put without checks");
    }
    /* Only gets: nothing is put, and nothing stored. */
    for (int round = 0; round < 3; round++) {
        int got = -1;
        ((int *)w.mine)[0] = me + 1000 * round;
        post(1ul << left, MPI_MODE_NOPUT, w.win);
        start(1ul << right, 0, w.win);
        OK(MPI_Get(&got, 1, MPI_INT, right, 0, 1, MPI_INT, w.win));
        OK(MPI_Win_complete(w.win));
        SAME(got, right + 1000 * round, "what was got");
        OK(MPI_Win_wait(w.win));
    }
    close_window(&w);
}

/* Two windows, whose epochs cross; and other kinds of epochs between. */
static void crossed(void)
{
    struct window a = open_window(CREATED, 8, 4, MPI_COMM_WORLD), b = open_window(ALLOCATED, 8, 4, MPI_COMM_WORLD);
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks, value[2];
    for (int round = 0; round < 5; round++) {
        value[0] = 100 + me + round;
        value[1] = 200 + me + round;
        post(1ul << left, 0, a.win);
        post(1ul << right, 0, b.win);
        start(1ul << left, 0, b.win);
        start(1ul << right, 0, a.win);
        OK(MPI_Put(&value[0], 1, MPI_INT, right, 0, 1, MPI_INT, a.win));
        OK(MPI_Put(&value[1], 1, MPI_INT, left, 0, 1, MPI_INT, b.win));
        OK(MPI_Win_complete(b.win));
        OK(MPI_Win_wait(b.win));
        SAME(((int *)b.mine)[0], 200 + right + round, "window b");
        OK(MPI_Win_complete(a.win));
        OK(MPI_Win_wait(a.win));
        SAME(((int *)a.mine)[0], 100 + left + round, "window a");
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, a.win));
        OK(MPI_Put(&value[1], 1, MPI_INT, right, 1, 1, MPI_INT, a.win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, a.win));
        SAME(((int *)a.mine)[1], 200 + left + round, "by a fence");
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, b.win));
        OK(MPI_Put(&value[0], 1, MPI_INT, right, 1, 1, MPI_INT, b.win));
        OK(MPI_Win_unlock(right, b.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, b.win));
        SAME(((int *)b.mine)[1], 100 + left + round, "by a lock");
        OK(MPI_Win_unlock(me, b.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    close_window(&b);
    close_window(&a);
}

/* An exposure epoch, and locks of another memory meanwhile. */
static void and_locks_elsewhere(void)
{
    struct window w = open_window(CREATED, 16, 8, MPI_COMM_WORLD), other = open_window(CREATED, 16, 8, MPI_COMM_WORLD);
    long one = 1;
    post(everybody(), 0, w.win);
    OK(MPI_Win_lock_all(0, other.win));
    OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, other.win));
    OK(MPI_Win_flush_all(other.win));
    start(everybody(), 0, w.win);
    for (int rank = 0; rank < ranks; rank++)
        OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, 1, 1, MPI_LONG, MPI_SUM, w.win));
    OK(MPI_Win_complete(w.win));
    OK(MPI_Win_unlock_all(other.win));
    OK(MPI_Win_wait(w.win));
    SAME(((long *)w.mine)[1], ranks, "sum");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, other.win));
    SAME(((long *)other.mine)[0], me == 0 ? ranks : 0, "sum in the other window");
    OK(MPI_Win_unlock(me, other.win));
    close_window(&other);
    close_window(&w);
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    CHECK(ranks < 64, "too many ranks");
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        neighbours(flavor);
        drawn(flavor);
        everybody_with_everybody(flavor);
    }
    in_a_row();
    chain();
    empty();
    test_says_no();
    without_checks();
    crossed();
    and_locks_elsewhere();
    OK(MPI_Group_free(&world));
    return end("rma_pscw");
}
