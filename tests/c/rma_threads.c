/* Threads of a process work with one window and with several at the same time. */
#include "rma.h"
#include <pthread.h>

enum { THREADS = 4 };

static struct window w, own[THREADS];
static int turns;

static void each_thread(void *(*work)(void *))
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* In one epoch, that all threads use: each adds, and flushes for all. */
static void *one_epoch(void *number)
{
    long thread = (long)number, one = 1, got, last = -1, value;
    for (int i = 0; i < turns; i++) {
        int rank = (me + i + thread) % ranks;
        OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, place(&w, rank, 0), 1, MPI_LONG, MPI_SUM, w.win));
        if (i % 3 == 0)
            OK(MPI_Win_flush(rank, w.win));
        OK(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, place(&w, 0, 8), MPI_SUM, w.win));
        if (i % 2)
            OK(MPI_Win_flush(0, w.win));
        else
            OK(MPI_Win_flush_local_all(w.win));
        CHECK(got > last, "number %ld after %ld", got, last);
        last = got;
        /* A place of its own at the neighbour. */
        MPI_Aint at = place(&w, (me + 1) % ranks, 64 + 8 * (me * THREADS + thread));
        MPI_Request request;
        value = 1000 * i + thread;
        OK(MPI_Rput(&value, 1, MPI_LONG, (me + 1) % ranks, at, 1, MPI_LONG, w.win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Win_flush((me + 1) % ranks, w.win));
        OK(MPI_Rget(&got, 1, MPI_LONG, (me + 1) % ranks, at, 1, MPI_LONG, w.win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(got, value, "what thread %ld put", thread);
    }
    return NULL;
}

/* Each thread has a window, and epochs of its own in it. */
static void *own_window(void *number)
{
    long thread = (long)number, one = 1, values[2];
    struct window *mine = &own[thread];
    for (int i = 0; i < turns; i++) {
        int rank = (me + i) % ranks;
        OK(MPI_Win_lock(i % 4 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, rank, 0, mine->win));
        OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, place(mine, rank, 0), 1, MPI_LONG, MPI_SUM, mine->win));
        OK(MPI_Win_unlock(rank, mine->win));
        if (i % 4 == 0) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, mine->win));
            OK(MPI_Get(values, 2, MPI_LONG, rank, place(mine, rank, 8), 2, MPI_LONG, mine->win));
            OK(MPI_Win_flush(rank, mine->win));
            SAME(values[1], 2 * values[0], "under the lock of thread %ld", thread);
            values[0]++;
            values[1] += 2;
            OK(MPI_Put(values, 2, MPI_LONG, rank, place(mine, rank, 8), 2, MPI_LONG, mine->win));
            OK(MPI_Win_unlock(rank, mine->win));
        }
    }
    return NULL;
}

/* Fences of a window each: collective operations at the same time. */
static void *own_fences(void *number)
{
    long thread = (long)number;
    struct window *mine = &own[thread];
    for (int i = 0; i < turns / 4 + 1; i++) {
        long value = 100 * i + me;
        OK(MPI_Win_fence(0, mine->win));
        OK(MPI_Put(&value, 1, MPI_LONG, (me + 1) % ranks, place(mine, (me + 1) % ranks, 24), 1, MPI_LONG, mine->win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, mine->win));
        SAME(((long *)mine->mine)[3], 100 * i + (me + ranks - 1) % ranks, "what thread %ld got by a fence", thread);
    }
    return NULL;
}

/* Threads lock different ranks of one window. */
static void *own_target(void *number)
{
    long thread = (long)number, one = 1;
    for (int i = 0; i < turns; i++)
        for (int rank = thread; rank < ranks; rank += THREADS) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w.win));
            OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, place(&w, rank, 16), 1, MPI_LONG, MPI_SUM, w.win));
            OK(MPI_Win_unlock(rank, w.win));
        }
    return NULL;
}

/* A thread waits in messages while others work with the memory of its process. */
static void *beside_messages(void *number)
{
    long thread = (long)number, value = me, got, one = 1;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    for (int i = 0; i < turns; i++) {
        if (thread % 2 == 0) {
            OK(MPI_Sendrecv(&value, 1, MPI_LONG, right, thread, &got, 1, MPI_LONG, left, thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            SAME(got, left, "a message");
        } else
            OK(MPI_Accumulate(&one, 1, MPI_LONG, right, place(&w, right, 24 + 8 * (thread / 2)), 1, MPI_LONG, MPI_SUM, w.win));
        if (thread == 1)
            OK(MPI_Win_flush_all(w.win));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    turns = brief() ? 10 : 40;
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        w = open_window(flavor, 64 + 8 * THREADS * (size_t)ranks, 8, MPI_COMM_WORLD);
        for (int i = 0; i < THREADS; i++)
            own[i] = open_window((flavor + i) % 2, 64, 8, MPI_COMM_WORLD);
        OK(MPI_Win_lock_all(0, w.win));
        each_thread(one_epoch);
        OK(MPI_Win_flush_all(w.win));
        each_thread(beside_messages);
        OK(MPI_Win_unlock_all(w.win));
        each_thread(own_target);
        each_thread(own_window);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
        long mine[5], sum[5];
        memcpy(mine, w.mine, sizeof mine);
        OK(MPI_Win_unlock(me, w.win));
        SAME(mine[2], (long)turns * ranks, "what the threads added under locks");
        SAME(mine[3], turns, "what the neighbour's thread 1 added beside messages");
        SAME(mine[4], turns, "what the neighbour's thread 3 added beside messages");
        OK(MPI_Allreduce(mine, sum, 5, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
        SAME(sum[0], (long)turns * THREADS * ranks, "what all threads added");
        SAME(sum[1], (long)turns * THREADS * ranks, "what all threads counted");
        for (int i = 0; i < THREADS; i++) {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, own[i].win));
            memcpy(mine, own[i].mine, 3 * sizeof *mine);
            OK(MPI_Win_unlock(me, own[i].win));
            OK(MPI_Allreduce(mine, sum, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
            SAME(sum[0], (long)turns * ranks, "window %d", i);
            SAME(sum[1], (long)(turns + 3) / 4 * ranks, "under the locks of window %d", i);
        }
        each_thread(own_fences);
        for (int i = 0; i < THREADS; i++)
            close_window(&own[i]);
        close_window(&w);
    }
    return end("rma_threads");
}
