/* The order of accumulates (12.7.2 of MPI 5.0): those of one origin to one place happen one after the other, read and written, whatever their
 * sizes; and each element is one, however many origins there are (12.7.1). */
#include "rma.h"

/* Replacements of one place, without anything between: the last one stays, and what is fetched shows the order. */
static void one_place(int flavor)
{
    enum { MANY = 400 };
    struct window w = open_window(flavor, 64, 8, MPI_COMM_WORLD);
    int target = (me + 1) % ranks;
    static long values[MANY], got[MANY], seen[MANY], swapped[MANY], one = 1, minus = -5;
    OK(MPI_Win_lock_all(0, w.win));
    for (long i = 0; i < MANY; i++) {
        MPI_Aint at = place(&w, target, 8);
        values[i] = 10 * i;
        /* write, read after write, update, read, write after read */
        OK(MPI_Accumulate(&values[i], 1, MPI_LONG, target, at, 1, MPI_LONG, MPI_REPLACE, w.win));
        OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, &seen[i], 1, MPI_LONG, target, at, 1, MPI_LONG, MPI_NO_OP, w.win));
        OK(MPI_Accumulate(&one, 1, MPI_LONG, target, at, 1, MPI_LONG, MPI_SUM, w.win));
        OK(MPI_Fetch_and_op(&one, &got[i], MPI_LONG, target, at, MPI_SUM, w.win));
        if (i % 10 == 0)
            OK(MPI_Compare_and_swap(&minus, &values[0], &swapped[i], MPI_LONG, target, at, w.win));
    }
    OK(MPI_Win_flush(target, w.win));
    for (long i = 0; i < MANY; i++) {
        SAME(seen[i], 10 * i, "read after write %ld", i);
        SAME(got[i], 10 * i + 1, "fetched after update %ld", i);
        if (i % 10 == 0)
            SAME(swapped[i], 10 * i + 2, "compared after update %ld", i);
    }
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
    SAME(((long *)w.mine)[1], 10 * (MANY - 1) + 2, "the last value");
    OK(MPI_Win_unlock(me, w.win));
    close_window(&w);
}

/* Long ones and short ones take different ways, but their order is the same; by a fence, a lock and requests. */
static void long_and_short(int flavor)
{
    enum { LONG = 20000 };
    struct window w = open_window(flavor, LONG * sizeof(int), sizeof(int), MPI_COMM_WORLD);
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
    int *first = allocate(LONG * sizeof(int)), *second = allocate(LONG * sizeof(int)), *got = allocate(LONG * sizeof(int));
    int last = -7, middle = -8, seen[2];
    const int sizes[] = {1, 100, 3000, LONG};
    for (int s = 0; s < 4; s++)
        for (int how = 0; how < 3; how++) {
            int many = sizes[s];
            MPI_Aint end = place(&w, target, (many - 1) * sizeof(int)), begin = place(&w, target, 0);
            MPI_Request requests[4];
            for (int i = 0; i < many; i++) {
                first[i] = 1000000 * how + i + me;
                second[i] = 2000000 * how + i + me;
            }
            if (how == 0)
                OK(MPI_Win_fence(0, w.win));
            else
                OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win));
            if (how == 2) {
                OK(MPI_Raccumulate(first, many, MPI_INT, target, begin, many, MPI_INT, MPI_REPLACE, w.win, &requests[0]));
                OK(MPI_Raccumulate(&last, 1, MPI_INT, target, end, 1, MPI_INT, MPI_REPLACE, w.win, &requests[1]));
                OK(MPI_Rget_accumulate(second, many, MPI_INT, got, many, MPI_INT, target, begin, many, MPI_INT, MPI_REPLACE,
                                       w.win, &requests[2]));
                OK(MPI_Rget_accumulate(&middle, 1, MPI_INT, &seen[1], 1, MPI_INT, target, end, 1, MPI_INT, MPI_REPLACE, w.win,
                                       &requests[3]));
                OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
            } else {
                OK(MPI_Accumulate(first, many, MPI_INT, target, begin, many, MPI_INT, MPI_REPLACE, w.win));
                OK(MPI_Accumulate(&last, 1, MPI_INT, target, end, 1, MPI_INT, MPI_REPLACE, w.win));
                OK(MPI_Get_accumulate(second, many, MPI_INT, got, many, MPI_INT, target, begin, many, MPI_INT, MPI_REPLACE,
                                      w.win));
                OK(MPI_Get_accumulate(&middle, 1, MPI_INT, &seen[1], 1, MPI_INT, target, end, 1, MPI_INT, MPI_REPLACE,
                                      w.win));
            }
            if (how == 0)
                OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
            else
                OK(MPI_Win_unlock(target, w.win));
            for (int i = 0; i < many - 1; i++)
                SAME(got[i], first[i], "element %d of %d that the second replaced", i, many);
            SAME(got[many - 1], last, "the last element of %d that the second replaced", many);
            SAME(seen[1], second[many - 1], "the last element of %d in the end", many);
            OK(MPI_Barrier(MPI_COMM_WORLD));
            OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
            for (int i = 0; i < many - 1; i++)
                SAME(((int *)w.mine)[i], 2000000 * how + i + from, "element %d of %d at the target", i, many);
            SAME(((int *)w.mine)[many - 1], middle, "the last element of %d at the target", many);
            OK(MPI_Win_unlock(me, w.win));
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    free(first);
    free(second);
    free(got);
    close_window(&w);
}

/* Places that overlap in part, in a drawn order: as if done one after the other here. */
static void overlapping(int flavor)
{
    enum { PLACES = 60, MANY = 300 };
    struct window w = open_window(flavor, (size_t)ranks * PLACES * 8, 8, MPI_COMM_WORLD);
    static int64_t model[PLACES], values[MANY][8], got[MANY][8], expected[MANY][8];
    int many[MANY], target = (me + 1) % ranks;
    uint64_t state = 5 + me;
    MPI_Datatype apart;
    OK(MPI_Type_vector(4, 1, 3, MPI_INT64_T, &apart));
    OK(MPI_Type_commit(&apart));
    memset(model, 0, sizeof model);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win));
    for (int i = 0; i < MANY; i++) {
        int at = draw(&state) % (PLACES - 12), strided = draw(&state) % 3 == 0, replaces = draw(&state) % 2;
        many[i] = strided ? 4 : 1 + draw(&state) % 8;
        for (int k = 0; k < many[i]; k++) {
            int64_t *place_of = &model[at + k * (strided ? 3 : 1)];
            values[i][k] = draw(&state) % 1000;
            expected[i][k] = *place_of;
            *place_of = replaces ? values[i][k] : *place_of + values[i][k];
        }
        MPI_Aint disp = place(&w, target, ((size_t)me * PLACES + at) * 8);
        OK(MPI_Get_accumulate(values[i], many[i], MPI_INT64_T, got[i], many[i], MPI_INT64_T, target, disp,
                              strided ? 1 : many[i], strided ? apart : MPI_INT64_T, replaces ? MPI_REPLACE : MPI_SUM, w.win));
    }
    OK(MPI_Win_unlock(target, w.win));
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < many[i]; k++)
            SAME(got[i][k], expected[i][k], "element %d of operation %d", k, i);
    OK(MPI_Type_free(&apart));
    close_window(&w);
}

/* What a flush has completed is seen by all that follows: of two processes that both store something and then look for what the other one
 * has stored, one finds it at least. */
static void completed_is_seen(int flavor)
{
    enum { WAYS = 3 };
    struct window w = open_window(flavor, 1024, 8, MPI_COMM_WORLD);
    int many = brief() || ranks < 2 ? 30 : 400, takes_part = me < 2 && ranks > 1;
    OK(MPI_Win_lock_all(0, w.win));
    for (long i = 1; i <= many; i++) {
        long found = 0, all, got = 0;
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (takes_part) {
            MPI_Aint mine = place(&w, 0, 512 * me), others = place(&w, 0, 512 * (1 - me));
            OK(MPI_Put(&i, 1, MPI_LONG, 0, mine, 1, MPI_LONG, w.win));
            OK(MPI_Win_flush(0, w.win));
            if (i % WAYS == 0)
                OK(MPI_Get(&got, 1, MPI_LONG, 0, others, 1, MPI_LONG, w.win));
            else if (i % WAYS == 1)
                OK(MPI_Fetch_and_op(NULL, &got, MPI_LONG, 0, others, MPI_NO_OP, w.win));
            else
                OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, &got, 1, MPI_LONG, 0, others, 1, MPI_LONG, MPI_NO_OP, w.win));
            OK(MPI_Win_flush(0, w.win));
            CHECK(got == i || got == i - 1, "turn %ld: got %ld", i, got);
            found = got == i;
        }
        OK(MPI_Allreduce(&found, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
        CHECK(ranks < 2 || all > 0, "turn %ld: neither has seen what the other one has put", i);
    }
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* Each element of an accumulate is whole: of pairs and wide types, nobody sees half of one. */
static void whole_elements(int flavor)
{
    struct window w = open_window(flavor, 64, 16, MPI_COMM_WORLD);
    struct { double value; int place; } pair, pairs;
    double twice[2], both[2];
    OK(MPI_Win_lock_all(0, w.win));
    for (int i = 0; i < (brief() ? 50 : 200); i++) {
        pair.value = pair.place = 1 + me * 1000 + i;
        OK(MPI_Get_accumulate(&pair, 1, MPI_DOUBLE_INT, &pairs, 1, MPI_DOUBLE_INT, 0, place(&w, 0, 16), 1, MPI_DOUBLE_INT,
                              MPI_REPLACE, w.win));
        twice[0] = twice[1] = pair.value;
        OK(MPI_Get_accumulate(twice, 1, MPI_C_DOUBLE_COMPLEX, both, 1, MPI_C_DOUBLE_COMPLEX, 0, place(&w, 0, 32), 1,
                              MPI_C_DOUBLE_COMPLEX, MPI_REPLACE, w.win));
        OK(MPI_Win_flush_local(0, w.win));
        CHECK(pairs.value == pairs.place, "a pair of %g and %d", pairs.value, pairs.place);
        CHECK(both[0] == both[1], "a complex number of %g and %g", both[0], both[1]);
    }
    OK(MPI_Win_unlock_all(w.win));
    close_window(&w);
}

/* All origins to the same array at once, with operations of all kinds on it that change places freely: the sum is right. */
static void many_origins(int flavor)
{
    enum { M = 2000 };
    struct window w = open_window(flavor, M * sizeof(double), 8, MPI_COMM_WORLD);
    double *values = allocate(M * sizeof(double)), one = 1;
    MPI_Datatype every_second;
    int rounds = brief() ? 3 : 10;
    OK(MPI_Type_vector(M / 2, 1, 2, MPI_DOUBLE, &every_second));
    OK(MPI_Type_commit(&every_second));
    for (int i = 0; i < M; i++)
        values[i] = i + me;
    OK(MPI_Win_fence(0, w.win));
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < ranks; k++) {
            int rank = (me + k) % ranks;
            OK(MPI_Accumulate(values, M, MPI_DOUBLE, rank, 0 + place(&w, rank, 0), M, MPI_DOUBLE, MPI_SUM, w.win));
            OK(MPI_Accumulate(values, M / 2, MPI_DOUBLE, rank, place(&w, rank, 0), 1, every_second, MPI_SUM, w.win));
            OK(MPI_Accumulate(&one, 1, MPI_DOUBLE, rank, place(&w, rank, 8 * (round % M)), 1, MPI_DOUBLE, MPI_SUM, w.win));
        }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    for (int i = 0; i < M; i++) {
        double expected = 0;
        for (int rank = 0; rank < ranks; rank++)
            expected += rounds * (i + rank + (i % 2 == 0 ? i / 2 + rank : 0)) + (i < rounds ? 1 : 0);
        CHECK(((double *)w.mine)[i] == expected, "element %d: expected %g, got %g", i, expected, ((double *)w.mine)[i]);
    }
    OK(MPI_Type_free(&every_second));
    free(values);
    close_window(&w);
}

/* Without order, each is done all the same. */
static void without_order(void)
{
    MPI_Info info;
    MPI_Win win;
    long *mine, one = 1;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "accumulate_ordering", "none"));
    OK(MPI_Info_set(info, "accumulate_ops", "same_op"));
    OK(MPI_Info_set(info, "same_disp_unit", "true"));
    OK(MPI_Info_set(info, "same_size", "true"));
    OK(MPI_Win_allocate(64, 8, info, MPI_COMM_WORLD, &mine, &win));
    OK(MPI_Info_free(&info));
    memset(mine, 0, 64);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 100; i++)
        OK(MPI_Accumulate(&one, 1, MPI_LONG, i % ranks, 1, 1, MPI_LONG, MPI_SUM, win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
    SAME(mine[1], (100 - me + ranks - 1) / ranks * ranks, "the sum");
    OK(MPI_Win_unlock(me, win));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        one_place(flavor);
        long_and_short(flavor);
        overlapping(flavor);
        whole_elements(flavor);
        completed_is_seen(flavor);
        many_origins(flavor);
    }
    without_order();
    return end("rma_order");
}
