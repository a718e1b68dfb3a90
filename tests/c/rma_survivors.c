/* A window of a job and its children, of which one exits. What the others wait for by that window fails, and they go on: with windows of their own,
 * too. The argument says how they wait. */
#include "rma.h"

static struct window w;
static long one = 1, got;

/* The error comes with one of these calls at the latest. */
static int fails(const char *how, int rank)
{
    MPI_Group all, group;
    int code, flag = 0;
    MPI_Request request;
    OK(MPI_Win_get_group(w.win, &all));
    OK(MPI_Group_incl(all, 1, &rank, &group));
    if (strcmp(how, "fence") == 0)
        return MPI_Win_fence(0, w.win);
    if (strcmp(how, "lock") == 0) {
        if ((code = MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win)) != MPI_SUCCESS)
            return code;
        if ((code = MPI_Accumulate(&one, 1, MPI_LONG, rank, place(&w, rank, 0), 1, MPI_LONG, MPI_SUM, w.win)) != MPI_SUCCESS)
            return code;
        return MPI_Win_unlock(rank, w.win);
    }
    if (strcmp(how, "flush") == 0) {
        /* The locks were taken while it lived. */
        if ((code = MPI_Fetch_and_op(&one, &got, MPI_LONG, rank, place(&w, rank, 0), MPI_SUM, w.win)) != MPI_SUCCESS)
            return code;
        return MPI_Win_flush(rank, w.win);
    }
    if (strcmp(how, "request") == 0) {
        if ((code = MPI_Rget(&got, 1, MPI_LONG, rank, place(&w, rank, 0), 1, MPI_LONG, w.win, &request)) != MPI_SUCCESS)
            return code;
        return MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (strcmp(how, "start") == 0) {
        if ((code = MPI_Win_start(group, 0, w.win)) != MPI_SUCCESS)
            return code;
        if ((code = MPI_Put(&one, 1, MPI_LONG, rank, place(&w, rank, 0), 1, MPI_LONG, w.win)) != MPI_SUCCESS)
            return code;
        return MPI_Win_complete(w.win);
    }
    if ((code = MPI_Win_post(group, 0, w.win)) != MPI_SUCCESS)
        return code;
    if (strcmp(how, "wait") == 0)
        return MPI_Win_wait(w.win);
    while (code == MPI_SUCCESS && !flag)
        code = MPI_Win_test(w.win, &flag);
    return code;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children, merged;
    begin_rma(&argc, &argv);
    CHECK(argc >= 2, "usage: rma_survivors HOW");
    const char *how = argv[1];
    int locked = strcmp(how, "flush") == 0 || strcmp(how, "request") == 0;
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        OK(MPI_Intercomm_merge(parent, 1, &merged));
    else {
        OK(MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        OK(MPI_Intercomm_merge(children, 0, &merged));
    }
    OK(MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN));
    /* A process that is gone can't be waited for in memory that it shares: so this memory is everyone's own. */
    w = open_window(CREATED, 64, 8, merged);
    struct window own = open_window(ALLOCATED, 64, 8, MPI_COMM_WORLD);
    if (locked)
        OK(MPI_Win_lock_all(0, w.win));
    OK(MPI_Barrier(merged));
    if (parent != MPI_COMM_NULL) {
        int word, parents;
        OK(MPI_Comm_remote_size(parent, &parents));
        /* Everybody is through the barrier. */
        for (int i = 0; me == ranks - 1 && i < parents; i++)
            OK(MPI_Recv(&word, 1, MPI_INT, i, 98, parent, MPI_STATUS_IGNORE));
        if (me == ranks - 1)
            _exit(3);
        MPI_Recv(&word, 1, MPI_INT, 0, 99, parent, MPI_STATUS_IGNORE);
        FAIL("nobody has sent this");
    }
    OK(MPI_Send(&me, 1, MPI_INT, 1, 98, children));
    /* An operation may still get through to a process that is about to go. */
    int code = MPI_SUCCESS;
    for (int i = 0; i < 100000 && code == MPI_SUCCESS; i++) {
        code = fails(how, ranks + 1);
        if (code == MPI_SUCCESS)
            usleep(100);
    }
    SAME(class_of(code), MPI_ERR_PROC_ABORTED, "class of the error (%s)", how);
    /* The job's own windows are as good as before. */
    for (int i = 0; i < 10; i++) {
        int rank = (me + i) % ranks;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, own.win));
        OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, place(&own, rank, 0), 1, MPI_LONG, MPI_SUM, own.win));
        OK(MPI_Win_unlock(rank, own.win));
    }
    OK(MPI_Win_fence(0, own.win));
    OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, place(&own, 0, 8), 1, MPI_LONG, MPI_SUM, own.win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own.win));
    SAME(((long *)own.mine)[1], me == 0 ? ranks : 0, "the sum");
    close_window(&own);
    /* The other window can't be freed by all; MPI_Finalize does without. */
    return end("rma_survivors");
}
