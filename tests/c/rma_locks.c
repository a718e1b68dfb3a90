/* Locks: who may be where at the same time, what a flush and an unlock promise, and what programs build of atomic operations. */
#include "rma.h"

static int turns(int many)
{
    return brief() ? (many + 3) / 4 : many;
}

static long fetch_add(const struct window *w, int rank, size_t offset, long value)
{
    long got;
    OK(MPI_Fetch_and_op(&value, &got, MPI_LONG, rank, place(w, rank, offset), MPI_SUM, w->win));
    OK(MPI_Win_flush(rank, w->win));
    return got;
}

static long load(const struct window *w, int rank, size_t offset)
{
    long got;
    OK(MPI_Fetch_and_op(NULL, &got, MPI_LONG, rank, place(w, rank, offset), MPI_NO_OP, w->win));
    OK(MPI_Win_flush(rank, w->win));
    return got;
}

static void store(const struct window *w, int rank, size_t offset, long value)
{
    OK(MPI_Accumulate(&value, 1, MPI_LONG, rank, place(w, rank, offset), 1, MPI_LONG, MPI_REPLACE, w->win));
    OK(MPI_Win_flush(rank, w->win));
}

static long swap(const struct window *w, int rank, size_t offset, long value)
{
    long got;
    OK(MPI_Fetch_and_op(&value, &got, MPI_LONG, rank, place(w, rank, offset), MPI_REPLACE, w->win));
    OK(MPI_Win_flush(rank, w->win));
    return got;
}

static long compare_and_swap(const struct window *w, int rank, size_t offset, long old, long new)
{
    long got;
    OK(MPI_Compare_and_swap(&new, &old, &got, MPI_LONG, rank, place(w, rank, offset), w->win));
    OK(MPI_Win_flush(rank, w->win));
    return got;
}

/* All count in one place, in every way: each number is given once, and none is lost. */
static void counters(int flavor)
{
    struct window w = open_window(flavor, 80, 8, MPI_COMM_WORLD);
    int each = turns(200);
    long one = 1, last = -1, got;
    char *seen = calloc(ranks * each, 1), *all = calloc(ranks * each, 1);
    OK(MPI_Win_lock_all(0, w.win));
    for (int i = 0; i < each; i++) {
        long number = fetch_add(&w, 0, 0, 1);
        CHECK(number > last && number < (long)ranks * each, "number %ld after %ld", number, last);
        seen[number] = 1;
        last = number;
        OK(MPI_Accumulate(&one, 1, MPI_LONG, ranks - 1, place(&w, ranks - 1, 8), 1, MPI_LONG, MPI_SUM, w.win));
    }
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Reduce(seen, all, ranks * each, MPI_CHAR, MPI_SUM, 0, MPI_COMM_WORLD));
    for (int i = 0; i < ranks * each && me == 0; i++)
        SAME(all[i], 1, "how often the number %d was given", i);
    free(seen);
    free(all);
    /* With a lock for each. */
    for (int i = 0; i < turns(40); i++) {
        int rank = i % ranks;
        OK(MPI_Win_lock(i % 3 == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, rank, 0, w.win));
        OK(MPI_Get_accumulate(&one, 1, MPI_LONG, &got, 1, MPI_LONG, rank, place(&w, rank, 16), 1, MPI_LONG, MPI_SUM, w.win));
        OK(MPI_Win_unlock(rank, w.win));
        CHECK(got >= 0 && got < (long)ranks * turns(40), "a sum of %ld", got);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
    SAME(((long *)w.mine)[0], me == 0 ? ranks * each : 0, "the counter");
    SAME(((long *)w.mine)[1], me == ranks - 1 ? ranks * each : 0, "the counter of MPI_Accumulate");
    SAME(((long *)w.mine)[2], (long)ranks * ((turns(40) - me + ranks - 1) / ranks), "the counter with locks");
    OK(MPI_Win_unlock(me, w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    close_window(&w);
}

/* Under an exclusive lock nobody else is there: what is got and put is a sum all the same. */
static void exclusive(int flavor)
{
    struct window w = open_window(flavor, 80, 8, MPI_COMM_WORLD);
    int each = turns(40);
    for (int i = 0; i < each; i++) {
        int rank = (me + i) % ranks;
        long values[2];
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w.win));
        OK(MPI_Get(values, 2, MPI_LONG, rank, place(&w, rank, 0), 2, MPI_LONG, w.win));
        OK(MPI_Win_flush(rank, w.win));
        SAME(values[1], -values[0], "the second value");
        values[0]++;
        values[1]--;
        /* In two steps: nobody may see what is between them. */
        OK(MPI_Put(values, 1, MPI_LONG, rank, place(&w, rank, 0), 1, MPI_LONG, w.win));
        OK(MPI_Win_flush(rank, w.win));
        OK(MPI_Put(values + 1, 1, MPI_LONG, rank, place(&w, rank, 8), 1, MPI_LONG, w.win));
        OK(MPI_Win_unlock(rank, w.win));
        if (i % 4 == 0) {
            /* A reader. */
            OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
            OK(MPI_Get(values, 2, MPI_LONG, rank, place(&w, rank, 0), 2, MPI_LONG, w.win));
            OK(MPI_Win_unlock(rank, w.win));
            SAME(values[1], -values[0], "the second value, for a reader");
        }
        if (i % 5 == 0) {
            /* The owner, by loads and stores. */
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, w.win));
            long *mine = (long *)w.mine;
            SAME(mine[1], -mine[0], "the second value, for its owner");
            mine[2]++;
            mine[0]++;
            mine[1]--;
            OK(MPI_Win_unlock(me, w.win));
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
    long mine[3], sum[3];
    memcpy(mine, w.mine, sizeof mine);
    OK(MPI_Win_unlock(me, w.win));
    OK(MPI_Allreduce(mine, sum, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum[0], (long)ranks * each + sum[2], "all steps");
    SAME(sum[2], (long)ranks * ((each + 4) / 5), "the owners' steps");
    close_window(&w);
}

/* Several locks at a time, of several processes, given back in another order; and a lock of oneself. */
static void several(void)
{
    struct window w = open_window(ALLOCATED, 80, 8, MPI_COMM_WORLD);
    long one = 1;
    for (int i = 0; i < turns(10); i++) {
        for (int rank = 0; rank < ranks; rank++) {
            /* By rising ranks, so nobody waits for itself. */
            OK(MPI_Win_lock((i + rank) % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, rank, 0, w.win));
            OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, 1, 1, MPI_LONG, MPI_SUM, w.win));
        }
        for (int step = 0; step < ranks; step++) {
            int rank = (step * 3 + i) % ranks;
            if (ranks % 3 == 0)
                rank = step;
            OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, 1, 1, MPI_LONG, MPI_SUM, w.win));
            OK(MPI_Win_unlock(rank, w.win));
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, w.win));
    SAME(((long *)w.mine)[1], 2 * turns(10) * ranks, "the sum");
    OK(MPI_Win_unlock(me, w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    close_window(&w);
}

/* The lock of all waits for an exclusive one, and an exclusive one for the lock of all. */
static void all_and_one(void)
{
    struct window w = open_window(CREATED, 80, 8, MPI_COMM_WORLD), inside = open_window(ALLOCATED, 80, 8, MPI_COMM_WORLD);
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, inside.win));
    for (int i = 0; i < turns(16); i++) {
        if ((me + i) % 3 == 0) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
            /* Does the lock hold from here on? An operation makes it sure. */
            long zero = 0, got;
            OK(MPI_Get(&got, 1, MPI_LONG, 0, 0, 1, MPI_LONG, w.win));
            OK(MPI_Win_flush(0, w.win));
            SAME(fetch_add(&inside, 0, 0, 1000), zero, "who is inside beside the exclusive lock");
            fetch_add(&inside, 0, 0, -1000);
            OK(MPI_Win_unlock(0, w.win));
        } else {
            long got;
            OK(MPI_Win_lock_all(0, w.win));
            OK(MPI_Get(&got, 1, MPI_LONG, 0, 0, 1, MPI_LONG, w.win));
            OK(MPI_Win_flush_all(w.win));
            CHECK(fetch_add(&inside, 0, 0, 1) < 1000, "the lock of all beside an exclusive one");
            fetch_add(&inside, 0, 0, -1);
            OK(MPI_Win_unlock_all(w.win));
        }
    }
    OK(MPI_Win_unlock_all(inside.win));
    close_window(&inside);
    close_window(&w);
}

/* After a flush it is there for everybody; after a local one, the buffers are one's own again. */
static void flushes(int flavor)
{
    enum { M = 3000 };
    struct window w = open_window(flavor, M * sizeof(long), 8, MPI_COMM_WORLD);
    long *values = allocate(M * sizeof(long)), *got = allocate(M * sizeof(long));
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
    OK(MPI_Win_lock_all(0, w.win));
    for (int round = 0; round < 4; round++) {
        for (int many = 1; many <= M; many = many * 7 + 1) {
            for (int i = 0; i < many; i++)
                values[i] = 10000 * round + 1000 * me + i;
            OK(MPI_Put(values, many, MPI_LONG, target, place(&w, target, 0), many, MPI_LONG, w.win));
            if (round % 2)
                OK(MPI_Win_flush_local(target, w.win));
            else
                OK(MPI_Win_flush_local_all(w.win));
            memset(values, 0xff, many * sizeof(long));
            if (round < 2)
                OK(MPI_Win_flush(target, w.win));
            else
                OK(MPI_Win_flush_all(w.win));
            /* The target may look, when it is told: by a message. */
            OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, target, 5, NULL, 0, MPI_BYTE, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Win_sync(w.win));
            for (int i = 0; i < many; i++)
                SAME(((long *)w.mine)[i], 10000 * round + 1000 * from + i, "element %d of %d after a flush", i, many);
            /* A get is complete after the local flush. */
            OK(MPI_Get(got, many, MPI_LONG, target, place(&w, target, 0), many, MPI_LONG, w.win));
            OK(MPI_Win_flush_local(target, w.win));
            for (int i = 0; i < many; i++)
                SAME(got[i], 10000 * round + 1000 * me + i, "element %d of %d that was got", i, many);
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    }
    /* Nothing to flush. */
    OK(MPI_Win_flush_all(w.win));
    for (int rank = 0; rank < ranks; rank++) {
        OK(MPI_Win_flush(rank, w.win));
        OK(MPI_Win_flush_local(rank, w.win));
    }
    OK(MPI_Win_unlock_all(w.win));
    free(values);
    free(got);
    close_window(&w);
}

/* Nobody disturbs, and the programs says so. */
static void without_checks(void)
{
    struct window w = open_window(CREATED, 80, 8, MPI_COMM_WORLD);
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
    for (int i = 0; i < 5; i++) {
        long value = 10 * me + i;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, MPI_MODE_NOCHECK, w.win));
        OK(MPI_Put(&value, 1, MPI_LONG, target, 3, 1, MPI_LONG, w.win));
        OK(MPI_Win_unlock(target, w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, me, MPI_MODE_NOCHECK, w.win));
        SAME(((long *)w.mine)[3], 10 * from + i, "what was put");
        OK(MPI_Win_unlock(me, w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    /* MPICH 5.0.2 hangs in the next lock after one without checks. */
    if (!of_weft()) {
        close_window(&w);
        w = open_window(CREATED, 80, 8, MPI_COMM_WORLD);
    }
    /* Nothing happens between lock and unlock. */
    for (int rank = 0; rank < ranks; rank++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w.win));
        OK(MPI_Win_unlock(rank, w.win));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
        OK(MPI_Win_unlock(rank, w.win));
    }
    OK(MPI_Win_lock_all(0, w.win));
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* The lock that MPI_Win_lock is not: made of compare and swap, it guards plain puts and gets. */
static void spin_lock(int flavor)
{
    struct window w = open_window(flavor, 80, 8, MPI_COMM_WORLD);
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
    for (int i = 0; i < turns(16); i++) {
        long value;
        while (compare_and_swap(&w, 0, 0, 0, 1 + me) != 0)
            usleep(50);
        OK(MPI_Get(&value, 1, MPI_LONG, 0, place(&w, 0, 8), 1, MPI_LONG, w.win));
        OK(MPI_Win_flush(0, w.win));
        value++;
        OK(MPI_Put(&value, 1, MPI_LONG, 0, place(&w, 0, 8), 1, MPI_LONG, w.win));
        OK(MPI_Win_flush(0, w.win));
        SAME(swap(&w, 0, 0, 0), 1 + me, "the lock's owner");
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    SAME(load(&w, 0, 8), turns(16) * ranks, "the sum under the lock");
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* The queue lock of Mellor-Crummey and Scott (the standard's example 12.26 has one): each waits at a place of its own. */
static void queue_lock(int flavor)
{
    enum { BLOCKED = 0, NEXT = 8, TAIL = 16, VALUE = 24 };
    struct window w = open_window(flavor, 80, 8, MPI_COMM_WORLD);
    ((long *)w.mine)[1] = ((long *)w.mine)[2] = -1;
    OK(MPI_Win_lock_all(0, w.win));
    OK(MPI_Win_sync(w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < turns(12); i++) {
        store(&w, me, BLOCKED, 1);
        store(&w, me, NEXT, -1);
        long before = swap(&w, 0, TAIL, me);
        if (before >= 0) {
            store(&w, before, NEXT, me);
            while (load(&w, me, BLOCKED))
                usleep(20);
        }
        long value;
        OK(MPI_Get(&value, 1, MPI_LONG, 0, place(&w, 0, VALUE), 1, MPI_LONG, w.win));
        OK(MPI_Win_flush(0, w.win));
        value++;
        OK(MPI_Put(&value, 1, MPI_LONG, 0, place(&w, 0, VALUE), 1, MPI_LONG, w.win));
        OK(MPI_Win_flush(0, w.win));
        if (compare_and_swap(&w, 0, TAIL, me, -1) != me) {
            long next;
            while ((next = load(&w, me, NEXT)) < 0)
                usleep(20);
            store(&w, next, BLOCKED, 0);
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    SAME(load(&w, 0, VALUE), turns(12) * ranks, "the sum under the queue lock");
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* Each waits for the number of the one before it, through rank 0's memory: whoever waits lets others through. */
static void in_turn(void)
{
    struct window w = open_window(CREATED, 8, 8, MPI_COMM_WORLD);
    for (int round = 0; round < turns(8); round++) {
        long value = -1, mine = round * ranks + me;
        while (value != mine) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
            OK(MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, w.win));
            OK(MPI_Win_flush(0, w.win));
            /* It stays as it is until the put is complete. */
            long next = mine + 1;
            if (value == mine)
                OK(MPI_Put(&next, 1, MPI_LONG, 0, 0, 1, MPI_LONG, w.win));
            OK(MPI_Win_unlock(0, w.win));
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
    SAME(((long *)w.mine)[0], me == 0 ? turns(8) * ranks : 0, "the last number");
    OK(MPI_Win_unlock(me, w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    close_window(&w);
}

/* A writer gets in although readers come all the time. */
static void writer_among_readers(void)
{
    struct window w = open_window(CREATED, 16, 8, MPI_COMM_WORLD);
    long done = 0, value = 0;
    if (me == ranks - 1) {
        for (long i = 1; i <= turns(12); i++) {
            value = i == turns(12) ? -1 : i;
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
            OK(MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, w.win));
            OK(MPI_Win_unlock(0, w.win));
        }
    } else {
        while (done >= 0) {
            long before = done;
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
            OK(MPI_Get(&done, 1, MPI_LONG, 0, 0, 1, MPI_LONG, w.win));
            OK(MPI_Win_unlock(0, w.win));
            CHECK(done < 0 || done >= before, "%ld after %ld", done, before);
        }
    }
    close_window(&w);
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        counters(flavor);
        exclusive(flavor);
        flushes(flavor);
        spin_lock(flavor);
        queue_lock(flavor);
    }
    several();
    all_and_one();
    without_checks();
    in_turn();
    writer_among_readers();
    return end("rma_locks");
}
