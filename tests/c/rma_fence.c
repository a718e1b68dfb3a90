/* MPI_Win_fence: epochs of everybody, with and without assertions, on windows of every flavor, on several windows and communicators. */
#include "rma.h"

static int rounds(int many)
{
    return brief() ? (many + 3) / 4 : many;
}

/* Each writes to each, and gets from each what others wrote. */
static void all_to_all(int flavor)
{
    struct window w = open_window(flavor, (size_t)ranks * 2 * sizeof(long), 8, MPI_COMM_WORLD);
    long *mine = (long *)w.mine, values[64], got[64];
    CHECK(ranks <= 64, "too many ranks");
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
    for (int round = 0; round < rounds(8); round++) {
        for (int i = 0; i < ranks; i++) {
            int rank = (me + i) % ranks;
            values[rank] = 1000 * round + 10 * me + rank;
            OK(MPI_Put(&values[rank], 1, MPI_LONG, rank, place(&w, rank, 2 * me * sizeof(long)), 1, MPI_LONG, w.win));
        }
        OK(MPI_Win_fence(MPI_MODE_NOSTORE, w.win));
        for (int i = 0; i < ranks; i++) {
            SAME(mine[2 * i], 1000 * round + 10 * i + me, "from rank %d in round %d", i, round);
            /* A store by its owner, beside what others wrote. */
            mine[2 * i + 1] = 500 * round + me;
        }
        /* Nobody has called anything: this ends nothing, and only makes the stores seen. */
        OK(MPI_Win_fence(MPI_MODE_NOPUT, w.win));
        for (int rank = 0; rank < ranks; rank++) {
            OK(MPI_Get(&got[rank], 1, MPI_LONG, rank, place(&w, rank, (2 * me + 1) * sizeof(long)), 1, MPI_LONG, w.win));
            OK(MPI_Get(&values[rank], 1, MPI_LONG, rank, place(&w, rank, 2 * me * sizeof(long)), 1, MPI_LONG, w.win));
        }
        OK(MPI_Win_fence(0, w.win));
        for (int rank = 0; rank < ranks; rank++) {
            SAME(got[rank], 500 * round + rank, "stored by rank %d in round %d", rank, round);
            SAME(values[rank], 1000 * round + 10 * me + rank, "got back from rank %d in round %d", rank, round);
        }
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED | MPI_MODE_NOSTORE | MPI_MODE_NOPUT, w.win));
    close_window(&w);
}

/* All add to the same places of all, each as often as it likes: the targets know how many only from the fence. */
static void sums(int flavor)
{
    struct window w = open_window(flavor, 4 * sizeof(double), sizeof(double), MPI_COMM_WORLD);
    double *mine = (double *)w.mine, one[2] = {1, 2};
    long expected = 0;
    uint64_t state = 7;
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
    for (int round = 0; round < rounds(12); round++) {
        /* Drawn alike by all: who calls how often for whom. */
        for (int from = 0; from < ranks; from++)
            for (int to = 0; to < ranks; to++) {
                int times = draw(&state) % 4 == 0 ? draw(&state) % 9 : 0;
                if (to == me)
                    expected += times;
                for (int i = 0; i < times && from == me; i++)
                    OK(MPI_Accumulate(one, 2, MPI_DOUBLE, to, place(&w, to, sizeof(double)), 2, MPI_DOUBLE, MPI_SUM, w.win));
            }
        OK(MPI_Win_fence(0, w.win));
        CHECK(mine[1] == expected && mine[2] == 2 * expected && mine[0] == 0 && mine[3] == 0,
              "after round %d: expected %ld and twice that, got %g and %g", round, expected, mine[1], mine[2]);
        /* No operation of the next round may be early. */
        OK(MPI_Win_fence(0, w.win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    close_window(&w);
}

/* Sizes from bytes to a megabyte, between neighbours, with gets of the same epoch. */
static void sizes(int flavor)
{
    enum { MOST = 1 << 20 };
    struct window w = open_window(flavor, 2 * MOST, 1, MPI_COMM_WORLD);
    char *out = allocate(MOST), *in = allocate(MOST);
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    fill(w.mine + MOST, MOST, 100 + me);
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
    for (int bytes = 1; bytes <= (brief() ? 70000 : MOST); bytes = bytes * 4 + (bytes < 100)) {
        fill(out, bytes, me + bytes);
        OK(MPI_Put(out, bytes, MPI_BYTE, right, place(&w, right, 0), bytes, MPI_BYTE, w.win));
        OK(MPI_Get(in, bytes, MPI_BYTE, left, place(&w, left, MOST), bytes, MPI_BYTE, w.win));
        OK(MPI_Win_fence(0, w.win));
        FILLED(w.mine, bytes, left + bytes, "memory of MPI_Put");
        FILLED(in, bytes, 100 + left, "result of MPI_Get");
        OK(MPI_Win_fence(MPI_MODE_NOSTORE, w.win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    free(out);
    free(in);
    close_window(&w);
}

/* Epochs of several windows at once: each with its own. */
static void several_windows(void)
{
    enum { WINDOWS = 3 };
    struct window w[WINDOWS];
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks, values[WINDOWS];
    for (int i = 0; i < WINDOWS; i++)
        w[i] = open_window(i == 0 ? CREATED : i == 1 ? ALLOCATED : DYNAMIC, 64, 4, MPI_COMM_WORLD);
    for (int round = 0; round < rounds(4); round++) {
        for (int i = 0; i < WINDOWS; i++) {
            OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w[i].win));
            values[i] = 100 * round + 10 * i + me;
            OK(MPI_Put(&values[i], 1, MPI_INT, right, place(&w[i], right, 4 * i), 1, MPI_INT, w[i].win));
        }
        for (int i = WINDOWS - 1; i >= 0; i--) {
            OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w[i].win));
            SAME(((int *)w[i].mine)[i], 100 * round + 10 * i + left, "window %d", i);
        }
    }
    for (int i = 0; i < WINDOWS; i++)
        close_window(&w[i]);
}

/* One side of a split works with its window while the other does something else; ranks are in another order. */
static void parts(void)
{
    MPI_Comm part;
    int rank, size, value, got;
    OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &part));
    OK(MPI_Comm_rank(part, &rank));
    OK(MPI_Comm_size(part, &size));
    struct window w = open_window(CREATED, 16, 4, part);
    for (int round = 0; round < rounds(me % 2 == 0 ? 6 : 3); round++) {
        value = 100 * me + round;
        OK(MPI_Win_fence(0, w.win));
        OK(MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 1, 1, MPI_INT, w.win));
        OK(MPI_Win_fence(0, w.win));
        int from = me % 2 + 2 * (size - 1 - (rank + size - 1) % size);
        SAME(((int *)w.mine)[1], 100 * from + round, "from rank %d", from);
        OK(MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_MAX, part));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    close_window(&w);
    OK(MPI_Comm_free(&part));
}

/* A fence after which there may be other epochs, and after these fences again. */
static void then_others(void)
{
    struct window w = open_window(ALLOCATED, 64, 8, MPI_COMM_WORLD);
    long one = 1, *mine = (long *)w.mine;
    for (int round = 1; round <= rounds(4); round++) {
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
        for (int rank = 0; rank < ranks; rank++)
            OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, 0, 1, MPI_LONG, MPI_SUM, w.win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
        SAME(mine[0], round * ranks, "sum of the fence's epoch");
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int rank = 0; rank < ranks; rank++) {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
            OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, 1, 1, MPI_LONG, MPI_SUM, w.win));
            OK(MPI_Win_unlock(rank, w.win));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
        SAME(mine[1], round * ranks, "sum of the locks' epochs");
        OK(MPI_Win_unlock(me, w.win));
    }
    /* A fence epoch without operations ends when another kind begins. */
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Win_lock_all(0, w.win));
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Win_fence(0, w.win));
    close_window(&w);
}

/* Nobody is through before everybody has come, where operations may have preceded. */
static void is_a_barrier(void)
{
    if (!one_node())
        return;
    struct window w = open_window(CREATED, 8, 1, MPI_COMM_WORLD), shared = open_window(SHARED, 8, 1, MPI_COMM_WORLD);
    MPI_Aint size;
    int unit, *came;
    OK(MPI_Win_shared_query(shared.win, 0, &size, &unit, &came));
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
    for (int round = 1; round <= rounds(20); round++) {
        int late = round % ranks;
        if (me == late) {
            if (round % 5 == 0)
                usleep(2000);
            __atomic_store_n(came, round, __ATOMIC_SEQ_CST);
        }
        OK(MPI_Win_fence(0, w.win));
        SAME(__atomic_load_n(came, __ATOMIC_SEQ_CST), round, "what rank %d wrote before the fence", late);
        OK(MPI_Win_fence(0, w.win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    close_window(&shared);
    close_window(&w);
}

/* More operations than anyone keeps in flight. */
static void many_operations(void)
{
    enum { MANY = 3000 };
    struct window w = open_window(CREATED, MANY * sizeof(int), sizeof(int), MPI_COMM_WORLD);
    int *values = allocate(MANY * sizeof(int)), *got = allocate(MANY * sizeof(int)), one = 1, many = rounds(MANY);
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
    for (int i = 0; i < many; i++) {
        values[i] = me * MANY + i;
        OK(MPI_Put(&values[i], 1, MPI_INT, right, i, 1, MPI_INT, w.win));
    }
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < many; i++)
        SAME(((int *)w.mine)[i], left * MANY + i, "element %d", i);
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < many; i++)
        OK(MPI_Get(&got[i], 1, MPI_INT, left, i, 1, MPI_INT, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < many; i++)
        SAME(got[i], (left + ranks - 1) % ranks * MANY + i, "element %d that was got", i);
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < many; i++)
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, i % 5, 1, MPI_INT, MPI_SUM, w.win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    for (int i = 0; i < 5 && me == 0; i++)
        SAME(((int *)w.mine)[i], (ranks - 1) * MANY + i + ranks * ((many - i + 4) / 5), "element %d that all added to", i);
    free(values);
    free(got);
    close_window(&w);
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        all_to_all(flavor);
        sums(flavor);
        sizes(flavor);
    }
    several_windows();
    parts();
    then_others();
    is_a_barrier();
    many_operations();
    return end("rma_fence");
}
