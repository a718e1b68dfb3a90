/* Requests of one-sided operations among other requests: waited for and tested in every way, many at a time, and completed after
 * the lock is gone. */
#include "rma.h"

enum { MANY = 64 };

/* Requests of puts and gets, of messages and of a barrier, together. */
static void mixed(void)
{
    struct window w = open_window(ALLOCATED, (size_t)ranks * 64, 8, MPI_COMM_WORLD);
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    MPI_Aint at = place(&w, right, 64 * me);
    for (int round = 0; round < 12; round++) {
        MPI_Request requests[7];
        MPI_Status statuses[7];
        long out = 100 * me + round, in = -1, got = -1, sent = 7 * me + round, sum = -1, more = 1, before = -1;
        int indices[7], done = 0, flag = 0, index, count;
        OK(MPI_Win_lock_all(0, w.win));
        OK(MPI_Accumulate(&out, 1, MPI_LONG, right, at, 1, MPI_LONG, MPI_REPLACE, w.win));
        OK(MPI_Irecv(&in, 1, MPI_LONG, left, 3, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Rget_accumulate(&more, 1, MPI_LONG, &before, 1, MPI_LONG, right, at, 1, MPI_LONG, MPI_SUM, w.win, &requests[1]));
        OK(MPI_Isend(&sent, 1, MPI_LONG, right, 3, MPI_COMM_WORLD, &requests[2]));
        OK(MPI_Rput(&out, 1, MPI_LONG, right, at + 1, 1, MPI_LONG, w.win, &requests[3]));
        OK(MPI_Iallreduce(&sent, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &requests[4]));
        OK(MPI_Raccumulate(&more, 1, MPI_LONG, right, at + 2, 1, MPI_LONG, MPI_SUM, w.win, &requests[5]));
        OK(MPI_Rget_accumulate(NULL, 0, MPI_LONG, &got, 1, MPI_LONG, right, at, 1, MPI_LONG, MPI_NO_OP, w.win, &requests[6]));
        switch (round % 6) {
        case 0:
            OK(MPI_Waitall(7, requests, statuses));
            break;
        case 1:
            while (done < 7) {
                OK(MPI_Waitany(7, requests, &index, statuses));
                CHECK(index >= 0 && index < 7 && requests[index] == MPI_REQUEST_NULL, "index %d of MPI_Waitany", index);
                done++;
            }
            break;
        case 2:
            while (done < 7) {
                OK(MPI_Waitsome(7, requests, &count, indices, statuses));
                CHECK(count > 0, "MPI_Waitsome gave %d", count);
                done += count;
            }
            break;
        case 3:
            while (!flag)
                OK(MPI_Testall(7, requests, &flag, statuses));
            break;
        case 4:
            while (done < 7) {
                OK(MPI_Testany(7, requests, &index, &flag, statuses));
                done += flag;
            }
            break;
        default:
            for (int i = 6; i >= 0; i--)
                OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        }
        for (int i = 0; i < 7; i++)
            CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is left", i);
        SAME(in, 7 * left + round, "the message");
        SAME(before, 100 * me + round, "what MPI_Rget_accumulate fetched");
        SAME(got, 100 * me + round + 1, "what MPI_NO_OP fetched");
        SAME(sum, 7 * ranks * (ranks - 1) / 2 + round * ranks, "the sum");
        OK(MPI_Win_unlock_all(w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
        SAME(((long *)w.mine)[8 * left], 100 * left + round + 1, "at the target");
        SAME(((long *)w.mine)[8 * left + 1], 100 * left + round, "at the target of MPI_Rput");
        SAME(((long *)w.mine)[8 * left + 2], round + 1, "at the target of MPI_Raccumulate");
        OK(MPI_Win_unlock(me, w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    close_window(&w);
}

/* Many of them, to all, and waited for in another order. */
static void many(int flavor)
{
    struct window w = open_window(flavor, (size_t)ranks * MANY * 8, 8, MPI_COMM_WORLD);
    MPI_Request requests[MANY];
    long values[MANY], got[MANY];
    OK(MPI_Win_lock_all(0, w.win));
    for (int i = 0; i < MANY; i++) {
        int rank = (me + i) % ranks;
        values[i] = 1000 * me + i;
        OK(MPI_Rput(&values[i], 1, MPI_LONG, rank, place(&w, rank, 8 * ((size_t)me * MANY + i)), 1, MPI_LONG, w.win, &requests[i]));
    }
    for (int i = MANY - 1; i >= 0; i--)
        OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    OK(MPI_Win_flush_all(w.win));
    for (int i = 0; i < MANY; i++) {
        int rank = (me + i) % ranks;
        OK(MPI_Rget(&got[i], 1, MPI_LONG, rank, place(&w, rank, 8 * ((size_t)me * MANY + i)), 1, MPI_LONG, w.win, &requests[i]));
    }
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++)
        SAME(got[i], 1000 * me + i, "element %d", i);
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* An unlock or a flush completes operations, and their requests with them; these must be completed all the same, then or later. */
static void after_the_epoch(int flavor)
{
    enum { M = 30000 };
    struct window w = open_window(flavor, M * 8, 8, MPI_COMM_WORLD);
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks, flag;
    long *values = allocate(M * 8), *got = allocate(M * 8);
    MPI_Request requests[2];
    for (int size = 1; size <= M; size = size * 170 + 1) {
        for (int i = 0; i < size; i++)
            values[i] = 100000 * me + i + size;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
        OK(MPI_Rput(values, size, MPI_LONG, target, place(&w, target, 0), size, MPI_LONG, w.win, &requests[0]));
        OK(MPI_Win_unlock(target, w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
        for (int i = 0; i < size; i++)
            SAME(((long *)w.mine)[i], 100000 * from + i + size, "element %d after the unlock", i);
        OK(MPI_Win_unlock(me, w.win));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win));
        OK(MPI_Rget(got, size, MPI_LONG, target, place(&w, target, 0), size, MPI_LONG, w.win, &requests[1]));
        OK(MPI_Win_flush(target, w.win));
        for (int i = 0; i < size; i++)
            SAME(got[i], 100000 * me + i + size, "element %d after the flush", i);
        OK(MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE));
        if (!flag)
            OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        OK(MPI_Win_unlock(target, w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    free(values);
    free(got);
    close_window(&w);
}

/* Such a request can't be freed or cancelled (12.3.5), and is none the worse for the trial. */
static void not_freed(void)
{
    struct window w = open_window(CREATED, 64, 8, MPI_COMM_WORLD);
    int target = (me + 1) % ranks;
    long value = 7 + me, got = 0;
    MPI_Request request;
    if (!of_weft()) {
        close_window(&w);
        return;
    }
    OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win));
    OK(MPI_Rput(&value, 1, MPI_LONG, target, 0, 1, MPI_LONG, w.win, &request));
    REFUSED(MPI_ERR_REQUEST, MPI_Request_free(&request), "one-sided");
    REFUSED(MPI_ERR_REQUEST, MPI_Cancel(&request), "one-sided");
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(target, w.win));
    OK(MPI_Rget(&got, 1, MPI_LONG, target, 0, 1, MPI_LONG, w.win, &request));
    REFUSED(MPI_ERR_REQUEST, MPI_Request_free(&request), "one-sided");
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(got, value, "what was got");
    OK(MPI_Win_unlock(target, w.win));
    close_window(&w);
}

/* MPI_Request_get_status does not take the request away. */
static void asked(void)
{
    struct window w = open_window(CREATED, 64, 8, MPI_COMM_WORLD);
    int target = (me + 1) % ranks, flag = 0;
    long value = 5 + me, got = 0;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Win_lock_all(0, w.win));
    OK(MPI_Put(&value, 1, MPI_LONG, target, 0, 1, MPI_LONG, w.win));
    OK(MPI_Win_flush(target, w.win));
    OK(MPI_Rget(&got, 1, MPI_LONG, target, 0, 1, MPI_LONG, w.win, &request));
    while (!flag)
        OK(MPI_Request_get_status(request, &flag, &status));
    SAME(got, 5 + me, "what was got");
    CHECK(request != MPI_REQUEST_NULL, "MPI_Request_get_status took the request away");
    OK(MPI_Wait(&request, &status));
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    mixed();
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        many(flavor);
        after_the_epoch(flavor);
    }
    not_freed();
    asked();
    return end("rma_requests");
}
