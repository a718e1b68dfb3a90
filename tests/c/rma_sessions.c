/* Windows of sessions: their epochs, one after the other and of several sessions at once; and windows of MPI_COMM_SELF, of parts and of a
 * communicator that is gone. Sessions may end while windows of others go on. */
#include "rma.h"

static MPI_Comm communicator(MPI_Session session, const char *set)
{
    MPI_Group group;
    MPI_Comm comm;
    OK(MPI_Group_from_session_pset(session, set, &group));
    OK(MPI_Comm_create_from_group(group, "rma_sessions", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    return comm;
}

/* Epochs of all kinds. */
static void work(struct window *w, long seed)
{
    int rank, size;
    long one = 1, value, got;
    OK(MPI_Comm_rank(w->comm, &rank));
    OK(MPI_Comm_size(w->comm, &size));
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    long *mine = (long *)w->mine;
    value = seed + rank;
    OK(MPI_Win_fence(0, w->win));
    OK(MPI_Put(&value, 1, MPI_LONG, right, place(w, right, 0), 1, MPI_LONG, w->win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    SAME(mine[0], seed + left, "what was put");
    OK(MPI_Barrier(w->comm));
    OK(MPI_Win_lock_all(0, w->win));
    for (int i = 0; i < 10; i++)
        OK(MPI_Accumulate(&one, 1, MPI_LONG, i % size, place(w, i % size, 8), 1, MPI_LONG, MPI_SUM, w->win));
    OK(MPI_Win_flush_all(w->win));
    OK(MPI_Fetch_and_op(&one, &got, MPI_LONG, right, place(w, right, 16), MPI_SUM, w->win));
    OK(MPI_Win_unlock_all(w->win));
    OK(MPI_Barrier(w->comm));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w->win));
    SAME(mine[1], (10 - rank + size - 1) / size * size, "the sum");
    SAME(mine[2], got + 1, "the counter");
    mine[1] = 0;
    OK(MPI_Win_unlock(rank, w->win));
    OK(MPI_Barrier(w->comm));
}

static void one_session(int flavor, int round)
{
    MPI_Session session;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    MPI_Comm comm = communicator(session, "mpi://WORLD"), self = communicator(session, "mpi://SELF"), part;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &ranks);
    struct window w = open_window(flavor, 64, 8, comm), alone = open_window(flavor, 64, 8, self);
    work(&w, 1000 + round);
    work(&alone, 5);
    OK(MPI_Comm_split(comm, me % 2, -me, &part));
    struct window of_part = open_window(flavor == SHARED ? CREATED : flavor, 64, 8, part);
    work(&of_part, 77);
    work(&w, 2000 + round);
    close_window(&of_part);
    OK(MPI_Comm_free(&part));
    close_window(&alone);
    close_window(&w);
    OK(MPI_Comm_free(&self));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Session_finalize(&session));
}

static void two_sessions(void)
{
    MPI_Session sessions[2];
    MPI_Comm comms[2];
    struct window w[2];
    for (int i = 0; i < 2; i++) {
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &sessions[i]));
        comms[i] = communicator(sessions[i], "mpi://WORLD");
        w[i] = open_window(i == 0 ? ALLOCATED : CREATED, 64, 8, comms[i]);
    }
    long one = 1;
    OK(MPI_Win_lock_all(0, w[1].win));
    OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, place(&w[1], 0, 40), 1, MPI_LONG, MPI_SUM, w[1].win));
    work(&w[0], 9000);
    /* The first session ends within an epoch of the second one's window. */
    close_window(&w[0]);
    OK(MPI_Comm_free(&comms[0]));
    OK(MPI_Session_finalize(&sessions[0]));
    OK(MPI_Win_unlock_all(w[1].win));
    OK(MPI_Barrier(comms[1]));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w[1].win));
    SAME(((long *)w[1].mine)[5], me == 0 ? ranks : 0, "the sum");
    OK(MPI_Win_unlock(me, w[1].win));
    work(&w[1], 8000);
    /* The communicator may go before its window. */
    MPI_Win win = w[1].win;
    OK(MPI_Comm_free(&comms[1]));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 5, 1, MPI_LONG, MPI_SUM, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    SAME(((long *)w[1].mine)[5], me == 0 ? 2 * ranks : 0, "the sum after the communicator is gone");
    OK(MPI_Win_free(&w[1].win));
    free(w[1].mine);
    free(w[1].bases);
    free(w[1].units);
    OK(MPI_Session_finalize(&sessions[1]));
}

/* More windows than anyone needs, and each is as good as the first. */
static void again_and_again(void)
{
    for (int i = 0; i < (brief() ? 10 : 40); i++) {
        struct window w = open_window(i % 2, 64, 8, MPI_COMM_WORLD);
        long value = i;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (me + i) % ranks, 0, w.win));
        OK(MPI_Accumulate(&value, 1, MPI_LONG, (me + i) % ranks, place(&w, (me + i) % ranks, 8), 1, MPI_LONG, MPI_SUM, w.win));
        OK(MPI_Win_unlock((me + i) % ranks, w.win));
        /* MPI_Win_free is the barrier after which all is there; here a fence is, before it. */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
        SAME(((long *)w.mine)[1], i, "window %d", i);
        OK(MPI_Win_unlock(me, w.win));
        close_window(&w);
    }
}

int main(int argc, char **argv)
{
    /* Sessions before MPI_Init; open_window asks only what its communicator is asked. */
    for (int round = 0; round < 2; round++) {
        one_session(CREATED, round);
        one_session(ALLOCATED, round);
        one_session(DYNAMIC, round);
    }
    begin_rma(&argc, &argv);
    two_sessions();
    again_and_again();
    return end("rma_sessions");
}
