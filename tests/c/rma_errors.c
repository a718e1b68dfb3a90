/* Wrong one-sided communication: it fails with the right class by the window's error handler, changes no memory, and the window goes on
 * working. (12.6 of MPI 5.0. Other libraries find some of it.) */
#include "rma.h"

enum { BYTES = 400 };

static int in[200], out[200], compare_with;

static int target(void)
{
    return (me + 1) % ranks;
}

/* Every process of the window still counts. */
static void still_works(struct window *w, int line)
{
    long one = 1, got[2] = {0};
    int rank = target();
    OK(MPI_Barrier(w->comm));
    MPI_Aint at = place(w, rank, 8 * (BYTES / 8 - 2));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w->win));
    OK(MPI_Get(got, 1, MPI_LONG, rank, at, 1, MPI_LONG, w->win));
    OK(MPI_Win_flush(rank, w->win));
    OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, at, 1, MPI_LONG, MPI_SUM, w->win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, got + 1, 1, MPI_LONG, rank, at, 1, MPI_LONG, MPI_NO_OP, w->win));
    OK(MPI_Win_unlock(rank, w->win));
    same(__FILE__, line, got[1], got[0] + 1, "the window goes on working: sum");
    OK(MPI_Barrier(w->comm));
    /* All else is as it was. */
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w->win));
    for (int i = 0; i < 8 * (BYTES / 8 - 2); i++)
        if (w->mine[i] != 0)
            fail(__FILE__, line, "byte %d of the window became %d", i, w->mine[i]);
    OK(MPI_Win_unlock(me, w->win));
    OK(MPI_Barrier(w->comm));
}

#define STILL_WORKS(w) still_works(w, __LINE__)

/* Operations outside of epochs, and calls that end what is not begun. */
static void without_epochs(struct window *w)
{
    MPI_Win win = w->win;
    MPI_Aint at = place(w, target(), 0);
    MPI_Request request = MPI_REQUEST_NULL;
    int rank = target(), flag;
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Put(in, 1, MPI_INT, rank, at, 1, MPI_INT, win), "epoch");
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Get(out, 1, MPI_INT, rank, at, 1, MPI_INT, win), "epoch");
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Accumulate(in, 1, MPI_INT, rank, at, 1, MPI_INT, MPI_SUM, win), "epoch");
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Get_accumulate(in, 1, MPI_INT, out, 1, MPI_INT, rank, at, 1, MPI_INT, MPI_SUM, win), "epoch");
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Fetch_and_op(in, out, MPI_INT, rank, at, MPI_SUM, win), "epoch");
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Compare_and_swap(in, &compare_with, out, MPI_INT, rank, at, win), "epoch");
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Rput(in, 1, MPI_INT, rank, at, 1, MPI_INT, win, &request));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Rget(out, 1, MPI_INT, rank, at, 1, MPI_INT, win, &request));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Raccumulate(in, 1, MPI_INT, rank, at, 1, MPI_INT, MPI_SUM, win, &request));
    REFUSED(MPI_ERR_RMA_SYNC,
            MPI_Rget_accumulate(in, 1, MPI_INT, out, 1, MPI_INT, rank, at, 1, MPI_INT, MPI_SUM, win, &request));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_unlock(rank, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_flush(rank, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_flush_all(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_flush_local(rank, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_flush_local_all(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_test(win, &flag));
    STILL_WORKS(w);
}

/* In one epoch what belongs to another. */
static void in_other_epochs(struct window *w)
{
    MPI_Win win = w->win;
    int rank = target(), flag, other = (me + 2) % ranks;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Group world, group;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &rank, &group));
    /* A lock. */
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_start(group, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
    if (of_weft() && other != rank) {
        REFUSED(MPI_ERR_RMA_SYNC, MPI_Put(in, 1, MPI_INT, other, place(w, other, 0), 1, MPI_INT, win));
        REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_unlock(other, win));
        REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_flush(other, win));
    }
    if (of_weft()) {
        MPI_Win same_window = win;
        REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_free(&same_window));
        CHECK(same_window == win, "MPI_Win_free that failed took the handle");
    }
    OK(MPI_Win_unlock(rank, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_unlock(rank, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* The locks of all. */
    OK(MPI_Win_lock_all(0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_unlock(rank, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_start(group, 0, win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* An access epoch: everybody exposes itself to the left. */
    int left = (me + ranks - 1) % ranks;
    MPI_Group lefts;
    OK(MPI_Group_incl(world, 1, &left, &lefts));
    OK(MPI_Win_post(lefts, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_post(lefts, 0, win));
    if (of_weft())
        REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
    OK(MPI_Win_start(group, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_start(group, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_flush(rank, win));
    if (of_weft())
        REFUSED(MPI_ERR_RMA_SYNC, MPI_Rput(in, 1, MPI_INT, rank, place(w, rank, 0), 1, MPI_INT, win, &request));
    if (of_weft() && other != rank)
        REFUSED(MPI_ERR_RMA_SYNC, MPI_Put(in, 1, MPI_INT, other, place(w, other, 0), 1, MPI_INT, win));
    OK(MPI_Win_complete(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_test(win, &flag));
    OK(MPI_Group_free(&lefts));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* A fence's: operations with a request, locks and flushes are passive target communication. */
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(out, 1, MPI_INT, rank, place(w, rank, 0), 1, MPI_INT, win));
    if (of_weft())
        REFUSED(MPI_ERR_RMA_SYNC, MPI_Rget(out, 1, MPI_INT, rank, place(w, rank, 0), 1, MPI_INT, win, &request));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    REFUSED(MPI_ERR_RMA_SYNC, MPI_Win_flush(rank, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    if (of_weft())
        REFUSED(MPI_ERR_RMA_SYNC, MPI_Put(in, 1, MPI_INT, rank, place(w, rank, 0), 1, MPI_INT, win));
    CHECK(request == MPI_REQUEST_NULL, "a call that failed has made a request");
    STILL_WORKS(w);
}

/* An operation beyond the target's memory fails, here or when it is completed. */
static int fails_late(int code, int rank, MPI_Win win)
{
    if (code != MPI_SUCCESS)
        return code;
    return MPI_Win_flush(rank, win);
}

#define LATE(call) fails_late(call, rank, win)
#define OUT_OF_RANGE(call)                                                                                             \
    do {                                                                                                               \
        int code = LATE(call), class = class_of(code);                                                                 \
        if (class != MPI_ERR_RMA_RANGE && class != MPI_ERR_DISP)                                                       \
            FAIL("%.100s: expected MPI_ERR_RMA_RANGE, got class %d", #call, class);                                    \
    } while (0)

static void beyond(struct window *w)
{
    /* MPICH 5.0.2 finds nothing, and writes there. */
    if (!of_weft())
        return;
    MPI_Win win = w->win;
    int rank = target(), unit = w->units[rank];
    MPI_Request request;
    MPI_Datatype spread, before;
    OK(MPI_Type_vector(2, 1, BYTES / 4, MPI_INT, &spread));
    OK(MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){0, -4}, MPI_INT, &before));
    OK(MPI_Type_commit(&spread));
    OK(MPI_Type_commit(&before));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    /* Right behind the end, far behind it, in front of the beginning, over the end, and where the sum overflows. */
    const struct { MPI_Aint at; int count; } places[] = {
        {BYTES, 1}, {BYTES + 4096, 1}, {(MPI_Aint)1 << 40, 1}, {-4, 1}, {-4096, 2}, {BYTES - 4, 2}, {0, BYTES / 4 + 1},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int count = places[i].count;
        MPI_Aint disp = w->flavor == DYNAMIC ? MPI_Aint_add(w->bases[rank], places[i].at) : places[i].at / unit;
        memset(out, 0x33, sizeof out);
        OUT_OF_RANGE(MPI_Put(in, count, MPI_INT, rank, disp, count, MPI_INT, win));
        OUT_OF_RANGE(MPI_Get(out, count, MPI_INT, rank, disp, count, MPI_INT, win));
        OUT_OF_RANGE(MPI_Accumulate(in, count, MPI_INT, rank, disp, count, MPI_INT, MPI_SUM, win));
        OUT_OF_RANGE(MPI_Accumulate(in, count, MPI_INT, rank, disp, count, MPI_INT, MPI_REPLACE, win));
        OUT_OF_RANGE(MPI_Get_accumulate(in, count, MPI_INT, out, count, MPI_INT, rank, disp, count, MPI_INT, MPI_SUM, win));
        OUT_OF_RANGE(MPI_Get_accumulate(in, count, MPI_INT, out, count, MPI_INT, rank, disp, count, MPI_INT, MPI_NO_OP, win));
        if (count == 1) {
            OUT_OF_RANGE(MPI_Fetch_and_op(in, out, MPI_INT, rank, disp, MPI_SUM, win));
            OUT_OF_RANGE(MPI_Compare_and_swap(in, &compare_with, out, MPI_INT, rank, disp, win));
        }
        for (size_t k = 0; k < sizeof out / sizeof *out; k++)
            SAME(out[k], 0x33333333, "element %zu of the result of a call that failed", k);
    }
    /* By a datatype. */
    MPI_Aint last = place(w, rank, BYTES - 4), first = place(w, rank, 0);
    OUT_OF_RANGE(MPI_Put(in, 2, MPI_INT, rank, place(w, rank, 4), 1, spread, win));
    OUT_OF_RANGE(MPI_Get(out, 2, MPI_INT, rank, first, 1, before, win));
    OUT_OF_RANGE(MPI_Accumulate(in, 2, MPI_INT, rank, last, 1, spread, MPI_SUM, win));
    OUT_OF_RANGE(MPI_Accumulate(in, 2, MPI_INT, rank, first, 1, before, MPI_REPLACE, win));
    /* Large, so that it would go another way. */
    static char much[300000];
    OUT_OF_RANGE(MPI_Put(much, sizeof much, MPI_BYTE, rank, first, sizeof much, MPI_BYTE, win));
    OUT_OF_RANGE(MPI_Get(much, sizeof much, MPI_BYTE, rank, first, sizeof much, MPI_BYTE, win));
    OUT_OF_RANGE(MPI_Accumulate(much, sizeof much, MPI_BYTE, rank, first, sizeof much, MPI_BYTE, MPI_BOR, win));
    /* The very last element is in it. */
    OK(MPI_Get(out, 1, MPI_INT, rank, last, 1, MPI_INT, win));
    OK(MPI_Win_flush(rank, win));
    SAME(out[0], 0, "the last element");
    /* Of an operation with a request the error comes with it. */
    int code = MPI_Rget(out, 1, MPI_INT, rank, MPI_Aint_add(first, BYTES / unit), 1, MPI_INT, win, &request);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAME(class_of(code), MPI_ERR_RMA_RANGE, "class of an MPI_Rget beyond the end");
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Type_free(&spread));
    OK(MPI_Type_free(&before));
    STILL_WORKS(w);
}

/* Memory of a dynamic window that is not attached, not any more, or only in part. */
static void not_attached(void)
{
    if (!of_weft())
        return;
    MPI_Win win;
    static char mine[100];
    MPI_Aint own, theirs;
    int rank = target(), left = (me + ranks - 1) % ranks;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Get_address(mine, &own));
    OK(MPI_Sendrecv(&own, 1, MPI_AINT, left, 1, &theirs, 1, MPI_AINT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int round = 0; round < 3; round++) {
        /* Never; a part of it; no more. */
        if (round == 1)
            OK(MPI_Win_attach(win, mine + 10, 50));
        if (round == 2)
            OK(MPI_Win_detach(win, mine + 10));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
        OUT_OF_RANGE(MPI_Put("12345678", 8, MPI_BYTE, rank, MPI_Aint_add(theirs, 4), 8, MPI_BYTE, win));
        OUT_OF_RANGE(MPI_Get(out, 8, MPI_BYTE, rank, MPI_Aint_add(theirs, 56), 8, MPI_BYTE, win));
        OUT_OF_RANGE(MPI_Accumulate(in, 1, MPI_INT, rank, MPI_Aint_add(theirs, 60), 1, MPI_INT, MPI_SUM, win));
        OUT_OF_RANGE(MPI_Fetch_and_op(in, out, MPI_INT, rank, MPI_Aint_add(theirs, 8), MPI_SUM, win));
        OUT_OF_RANGE(MPI_Compare_and_swap(in, &compare_with, out, MPI_INT, rank, MPI_Aint_add(theirs, 4), win));
        OUT_OF_RANGE(MPI_Put("12345678", 8, MPI_BYTE, rank, 0, 8, MPI_BYTE, win));
        if (round == 1) {
            OK(MPI_Put("12345678", 8, MPI_BYTE, rank, MPI_Aint_add(theirs, 10), 8, MPI_BYTE, win));
            OK(MPI_Win_flush(rank, win));
        }
        /* The error is told once. */
        OK(MPI_Win_flush(rank, win));
        OK(MPI_Win_unlock(rank, win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    CHECK(memcmp(mine + 10, "12345678", 8) == 0, "what was put into the part that was attached");
    for (int i = 0; i < 100; i++)
        CHECK((i >= 10 && i < 18) || mine[i] == 0, "byte %d, which nobody could write", i);
    /* The error of a fence is told by it, to the origin alone, and all leave the fence. */
    OK(MPI_Win_fence(0, win));
    int code = me == 0 ? MPI_Put("12345678", 8, MPI_BYTE, rank, theirs, 8, MPI_BYTE, win) : MPI_SUCCESS;
    int later = MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (me == 0)
        SAME(class_of(code != MPI_SUCCESS ? code : later), MPI_ERR_RMA_RANGE, "class of the error of MPI_Put or the fence");
    else
        OK(later);
    OK(MPI_Win_free(&win));
}

/* Arguments, in an epoch where right ones would do. */
static void arguments(struct window *w)
{
    MPI_Win win = w->win;
    int rank = target();
    MPI_Aint at = place(w, rank, 0);
    MPI_Datatype uncommitted, mixed, pair;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Op user;
    OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &mixed));
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&mixed));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Op_create((MPI_User_function *)abort, 1, &user));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    REFUSED(MPI_ERR_RANK, MPI_Put(in, 1, MPI_INT, ranks, at, 1, MPI_INT, win), "rank");
    REFUSED(MPI_ERR_RANK, MPI_Get(out, 1, MPI_INT, -77, at, 1, MPI_INT, win), "rank", "-77");
    REFUSED(MPI_ERR_RANK, MPI_Accumulate(in, 1, MPI_INT, MPI_ANY_SOURCE, at, 1, MPI_INT, MPI_SUM, win), "rank");
    REFUSED(MPI_ERR_RANK, MPI_Fetch_and_op(in, out, MPI_INT, ranks, at, MPI_SUM, win), "rank");
    REFUSED(MPI_ERR_RANK, MPI_Compare_and_swap(in, &compare_with, out, MPI_INT, ranks, at, win), "rank");
    REFUSED(MPI_ERR_COUNT, MPI_Put(in, -1, MPI_INT, rank, at, 1, MPI_INT, win), "origin_count");
    REFUSED(MPI_ERR_COUNT, MPI_Put(in, 1, MPI_INT, rank, at, -1, MPI_INT, win), "target_count");
    REFUSED(MPI_ERR_COUNT, MPI_Get_accumulate(in, 1, MPI_INT, out, -1, MPI_INT, rank, at, 1, MPI_INT, MPI_SUM, win), "result_count");
    REFUSED(MPI_ERR_TYPE, MPI_Put(in, 1, MPI_DATATYPE_NULL, rank, at, 1, MPI_INT, win));
    REFUSED(MPI_ERR_TYPE, MPI_Get(out, 1, MPI_INT, rank, at, 1, MPI_DATATYPE_NULL, win));
    REFUSED(MPI_ERR_TYPE, MPI_Put(in, 1, uncommitted, rank, at, 2, MPI_INT, win), "committed");
    REFUSED(MPI_ERR_TYPE, MPI_Get(out, 2, MPI_INT, rank, at, 1, uncommitted, win), "committed");
    REFUSED(MPI_ERR_TYPE, MPI_Raccumulate(in, 1, uncommitted, rank, at, 2, MPI_INT, MPI_SUM, win, &request), "committed");
    REFUSED(MPI_ERR_TYPE, MPI_Fetch_and_op(in, out, pair, rank, at, MPI_SUM, win), "predefined");
    REFUSED(MPI_ERR_TYPE, MPI_Compare_and_swap(in, &compare_with, out, pair, rank, at, win));
    REFUSED(MPI_ERR_TYPE, MPI_Compare_and_swap(in, &compare_with, out, MPI_FLOAT, rank, at, win));
    REFUSED(MPI_ERR_OP, MPI_Accumulate(in, 1, MPI_INT, rank, at, 1, MPI_INT, MPI_OP_NULL, win));
    if (of_weft()) {
        REFUSED(MPI_ERR_BUFFER, MPI_Put(NULL, 1, MPI_INT, rank, at, 1, MPI_INT, win), "origin_addr");
        REFUSED(MPI_ERR_BUFFER, MPI_Fetch_and_op(in, NULL, MPI_INT, rank, at, MPI_SUM, win), "result_addr");
        REFUSED(MPI_ERR_BUFFER, MPI_Compare_and_swap(in, NULL, out, MPI_INT, rank, at, win), "compare_addr");
        REFUSED(MPI_ERR_OP, MPI_Accumulate(in, 1, MPI_INT, rank, at, 1, MPI_INT, user, win), "predefined");
        REFUSED(MPI_ERR_OP, MPI_Get_accumulate(in, 1, MPI_INT, out, 1, MPI_INT, rank, at, 1, MPI_INT, user, win), "predefined");
        REFUSED(MPI_ERR_OP, MPI_Fetch_and_op(in, out, MPI_INT, rank, at, user, win), "predefined");
        REFUSED(MPI_ERR_OP, MPI_Accumulate(in, 1, MPI_DOUBLE, rank, at, 1, MPI_DOUBLE, MPI_BAND, win));
        REFUSED(MPI_ERR_OP, MPI_Fetch_and_op(in, out, MPI_INT, rank, at, MPI_MINLOC, win));
        REFUSED(MPI_ERR_OP, MPI_Accumulate(in, 1, MPI_INT, rank, at, 1, MPI_INT, MPI_NO_OP, win));
        /* One basic type on both sides, and in all of the type. */
        REFUSED(MPI_ERR_TYPE, MPI_Accumulate(in, 1, MPI_INT, rank, at, 1, MPI_FLOAT, MPI_SUM, win));
        REFUSED(MPI_ERR_TYPE, MPI_Accumulate(in, 1, mixed, rank, at, 1, mixed, MPI_SUM, win));
        REFUSED(MPI_ERR_TYPE, MPI_Accumulate(in, 1, mixed, rank, at, 1, mixed, MPI_REPLACE, win));
        REFUSED(MPI_ERR_TYPE, MPI_Get_accumulate(in, 1, MPI_INT, out, 1, MPI_FLOAT, rank, at, 1, MPI_INT, MPI_SUM, win));
        /* What does not fit; less than fits does, as in a message (12.3.1). */
        REFUSED(MPI_ERR_TRUNCATE, MPI_Put(in, 5, MPI_INT, rank, at, 4, MPI_INT, win));
        REFUSED(MPI_ERR_TRUNCATE, MPI_Get(out, 2, MPI_INT, rank, at, 3, MPI_INT, win));
        REFUSED(MPI_ERR_TRUNCATE, MPI_Accumulate(in, 3, MPI_INT, rank, at, 2, MPI_INT, MPI_SUM, win));
    }
    OK(MPI_Win_unlock(rank, win));
    REFUSED(MPI_ERR_LOCKTYPE, MPI_Win_lock(0, rank, 0, win), "lock_type");
    REFUSED(MPI_ERR_LOCKTYPE, MPI_Win_lock(MPI_MODE_NOCHECK, rank, 0, win), "lock_type");
    REFUSED(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, ranks, 0, win), "rank");
    REFUSED(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, -77, 0, win), "rank");
    REFUSED(MPI_ERR_RANK, MPI_Win_unlock(ranks, win), "rank");
    REFUSED(MPI_ERR_ASSERT, MPI_Win_lock(MPI_LOCK_SHARED, rank, MPI_MODE_NOPRECEDE, win), "assert");
    REFUSED(MPI_ERR_ASSERT, MPI_Win_lock_all(1, win), "assert");
    REFUSED(MPI_ERR_ASSERT, MPI_Win_fence(MPI_MODE_NOCHECK, win), "assert");
    REFUSED(MPI_ERR_ASSERT, MPI_Win_post(MPI_GROUP_EMPTY, MPI_MODE_NOSUCCEED, win), "assert");
    REFUSED(MPI_ERR_ASSERT, MPI_Win_start(MPI_GROUP_EMPTY, MPI_MODE_NOPUT, win), "assert");
    REFUSED(MPI_ERR_GROUP, MPI_Win_post(MPI_GROUP_NULL, 0, win), "group");
    REFUSED(MPI_ERR_GROUP, MPI_Win_start(MPI_GROUP_NULL, 0, win), "group");
    CHECK(request == MPI_REQUEST_NULL, "a call that failed has made a request");
    OK(MPI_Type_free(&uncommitted));
    OK(MPI_Type_free(&mixed));
    OK(MPI_Type_free(&pair));
    OK(MPI_Op_free(&user));
    STILL_WORKS(w);
}

/* A group with processes that the window does not have. */
static void foreign_groups(void)
{
    if (!of_weft() || ranks < 2)
        return;
    MPI_Group world;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    struct window w = open_window(CREATED, BYTES, 1, MPI_COMM_SELF);
    REFUSED(MPI_ERR_GROUP, MPI_Win_start(world, 0, w.win));
    REFUSED(MPI_ERR_GROUP, MPI_Win_post(world, 0, w.win));
    OK(MPI_Group_free(&world));
    close_window(&w);
}

static void no_window(void)
{
    int flag;
    MPI_Win none = MPI_WIN_NULL;
    REFUSED(MPI_ERR_WIN, MPI_Put(in, 1, MPI_INT, 0, 0, 1, MPI_INT, none));
    REFUSED(MPI_ERR_WIN, MPI_Get(out, 1, MPI_INT, 0, 0, 1, MPI_INT, none));
    REFUSED(MPI_ERR_WIN, MPI_Accumulate(in, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, none));
    REFUSED(MPI_ERR_WIN, MPI_Fetch_and_op(in, out, MPI_INT, 0, 0, MPI_SUM, none));
    REFUSED(MPI_ERR_WIN, MPI_Win_fence(0, none));
    REFUSED(MPI_ERR_WIN, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, none));
    REFUSED(MPI_ERR_WIN, MPI_Win_lock_all(0, none));
    REFUSED(MPI_ERR_WIN, MPI_Win_unlock(0, none));
    REFUSED(MPI_ERR_WIN, MPI_Win_flush(0, none));
    REFUSED(MPI_ERR_WIN, MPI_Win_flush_local_all(none));
    REFUSED(MPI_ERR_WIN, MPI_Win_sync(none));
    REFUSED(MPI_ERR_WIN, MPI_Win_post(MPI_GROUP_EMPTY, 0, none));
    REFUSED(MPI_ERR_WIN, MPI_Win_start(MPI_GROUP_EMPTY, 0, none));
    REFUSED(MPI_ERR_WIN, MPI_Win_complete(none));
    REFUSED(MPI_ERR_WIN, MPI_Win_wait(none));
    REFUSED(MPI_ERR_WIN, MPI_Win_test(none, &flag));
}

static int handled, handled_class;

static void handler(MPI_Win *win, int *code, ...)
{
    (void)win;
    handled++;
    handled_class = class_of(*code);
}

/* The window's own handler hears of it. */
static void by_the_handler(void)
{
    struct window w = open_window(ALLOCATED, BYTES, 1, MPI_COMM_WORLD);
    MPI_Errhandler errhandler;
    OK(MPI_Win_create_errhandler(handler, &errhandler));
    OK(MPI_Win_set_errhandler(w.win, errhandler));
    OK(MPI_Errhandler_free(&errhandler));
    MPI_Win_unlock(0, w.win);
    SAME(handled, 1, "calls of the window's error handler");
    if (of_weft())
        SAME(handled_class, MPI_ERR_RMA_SYNC, "class that the handler was told");
    MPI_Win_lock(MPI_LOCK_SHARED, ranks, 0, w.win);
    SAME(handled, 2, "calls of the window's error handler");
    if (of_weft()) {
        OK(MPI_Win_lock_all(0, w.win));
        int code = MPI_Put(in, 1, MPI_INT, 0, BYTES, 1, MPI_INT, w.win);
        if (code == MPI_SUCCESS)
            MPI_Win_flush(0, w.win);
        SAME(handled, 3, "calls of the window's error handler");
        SAME(handled_class, MPI_ERR_RMA_RANGE, "class that the handler was told");
        OK(MPI_Win_unlock_all(w.win));
    }
    close_window(&w);
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    for (int i = 0; i < 200; i++)
        in[i] = 1 + i;
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        struct window w = open_window(flavor, BYTES, 1 << (me % 3), MPI_COMM_WORLD);
        without_epochs(&w);
        in_other_epochs(&w);
        beyond(&w);
        arguments(&w);
        close_window(&w);
    }
    not_attached();
    foreign_groups();
    no_window();
    by_the_handler();
    return end("rma_errors");
}
