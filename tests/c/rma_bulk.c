/* Accumulates of many elements beside those of few and of one, on the same elements, by several processes and threads: no update is lost, no element
 * is seen half updated, and what one origin sees only grows. Each window is new, so that the first accumulates of many meet others. */
#include "rma.h"
#include <pthread.h>

enum { THREADS = 3, ELEMENTS = 300, TYPES = 6, KINDS = 8 };

static const struct kind {
    MPI_Datatype *type;
    int size;
    /* MPI_Compare_and_swap takes it. */
    int swaps;
} kinds[TYPES] = {
    {&(MPI_Datatype){MPI_INT64_T}, 8, 1}, {&(MPI_Datatype){MPI_DOUBLE}, 8, 0},      {&(MPI_Datatype){MPI_INT32_T}, 4, 1},
    {&(MPI_Datatype){MPI_INT16_T}, 2, 1}, {&(MPI_Datatype){MPI_LONG_DOUBLE}, 16, 0}, {&(MPI_Datatype){MPI_FLOAT}, 4, 0},
};

static struct window w;
static int turns;
/* Every second element of 2 * number. */
static MPI_Datatype strided[TYPES];
/* By thread, target, type and element: how much was added. */
static long *added;

static long *sum(int thread, int target, int type)
{
    return added + (((size_t)thread * ranks + target) * TYPES + type) * ELEMENTS;
}

/* Where the elements of a type begin; behind them all are those that are replaced. */
static size_t begins(int type)
{
    size_t at = 0;
    for (int t = TYPES - 1; t > type; t--)
        at += (size_t)16 * ELEMENTS;
    return at;
}

static void set(int type, void *buffer, int at, long value)
{
    switch (type) {
    case 0: ((int64_t *)buffer)[at] = value; break;
    case 1: ((double *)buffer)[at] = value; break;
    case 2: ((int32_t *)buffer)[at] = value; break;
    case 3: ((int16_t *)buffer)[at] = value; break;
    case 4: ((long double *)buffer)[at] = value; break;
    default: ((float *)buffer)[at] = value;
    }
}

static long get(int type, const void *buffer, int at)
{
    switch (type) {
    case 0: return ((const int64_t *)buffer)[at];
    case 1: return ((const double *)buffer)[at];
    case 2: return ((const int32_t *)buffer)[at];
    case 3: return ((const int16_t *)buffer)[at];
    case 4: return ((const long double *)buffer)[at];
    default: return ((const float *)buffer)[at];
    }
}

static void *work(void *number)
{
    long thread = (long)number;
    uint64_t state = 1000 * me + thread;
    _Alignas(16) char ones[16 * ELEMENTS], were[16 * ELEMENTS], one[16], two[16], was[16];
    long seen[TYPES] = {0};
    int watched = (me + 1) % ranks;
    for (int turn = 0; turn < turns; turn++) {
        int type = draw(&state) % TYPES, target = draw(&state) % ranks, size = kinds[type].size;
        MPI_Datatype of = *kinds[type].type;
        int first = draw(&state) % 20, some = 1 + draw(&state) % 10, at = draw(&state) % ELEMENTS;
        MPI_Aint there = place(&w, target, begins(type));
        for (int i = 0; i < ELEMENTS; i++)
            set(type, ones, i, 1);
        set(type, one, 0, 1);
        switch (draw(&state) % KINDS) {
        case 0: /* Many. */
            OK(MPI_Accumulate(ones, ELEMENTS - first, of, target, there + first * size, ELEMENTS - first, of, MPI_SUM, w.win));
            for (int i = first; i < ELEMENTS; i++)
                sum(thread, target, type)[i]++;
            break;
        case 1: { /* The same with a request, and what they were. */
            MPI_Request request;
            OK(MPI_Rget_accumulate(ones, ELEMENTS, of, were, ELEMENTS, of, target, there, ELEMENTS, of, MPI_SUM, w.win, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (int i = 0; i < ELEMENTS; i++)
                sum(thread, target, type)[i]++;
            break;
        }
        case 2: /* Many, in short runs. */
            OK(MPI_Accumulate(ones, ELEMENTS / 2, of, target, there, 1, strided[type], MPI_SUM, w.win));
            for (int i = 0; i < ELEMENTS; i += 2)
                sum(thread, target, type)[i]++;
            break;
        case 3: /* Few. */
            OK(MPI_Accumulate(ones, some, of, target, there + first * size, some, of, MPI_SUM, w.win));
            for (int i = first; i < first + some; i++)
                sum(thread, target, type)[i]++;
            break;
        case 4: /* Many, and what they were. */
            OK(MPI_Get_accumulate(NULL, 0, MPI_BYTE, were, ELEMENTS, of, watched, place(&w, watched, begins(type)), ELEMENTS, of,
                                  MPI_NO_OP, w.win));
            OK(MPI_Win_flush_local(watched, w.win));
            long total = 0;
            for (int i = 0; i < ELEMENTS; i++)
                total += get(type, were, i);
            CHECK(total >= seen[type], "the elements of type %d add up to %ld after %ld", type, total, seen[type]);
            seen[type] = total;
            break;
        case 5: /* Whole elements are replaced by equal bytes. */
            if (turn % 2) {
                memset(ones, 1 + draw(&state) % 100, 8 * ELEMENTS);
                OK(MPI_Accumulate(ones, ELEMENTS, MPI_INT64_T, target, place(&w, target, begins(-1)), ELEMENTS, MPI_INT64_T, MPI_REPLACE, w.win));
            } else
                OK(MPI_Get_accumulate(NULL, 0, MPI_BYTE, were, ELEMENTS, MPI_INT64_T, target, place(&w, target, begins(-1)), ELEMENTS,
                                      MPI_INT64_T, MPI_NO_OP, w.win));
            OK(MPI_Win_flush(target, w.win));
            for (int i = 0; turn % 2 == 0 && i < 8 * ELEMENTS; i++)
                CHECK(were[i] == were[i / 8 * 8], "element %d is half replaced: %d and %d", i / 8, were[i], were[i / 8 * 8]);
            break;
        case 6: /* One, compared until it is what was expected. */
            if (kinds[type].swaps) {
                long expected = 0;
                for (;;) {
                    set(type, two, 0, expected + 1);
                    set(type, one, 0, expected);
                    OK(MPI_Compare_and_swap(two, one, was, of, target, there + at * size, w.win));
                    OK(MPI_Win_flush(target, w.win));
                    if (get(type, was, 0) == expected)
                        break;
                    expected = get(type, was, 0);
                }
                sum(thread, target, type)[at]++;
                break;
            }
            /* fall through */
        default: /* One. */
            OK(MPI_Fetch_and_op(one, was, of, target, there + at * size, MPI_SUM, w.win));
            sum(thread, target, type)[at]++;
        }
        if (draw(&state) % 4 == 0)
            OK(MPI_Win_flush_all(w.win));
        else
            OK(MPI_Win_flush_local_all(w.win));
    }
    return NULL;
}

static void one_window(int flavor)
{
    size_t bytes = begins(-1) + 8 * ELEMENTS;
    w = open_window(flavor, bytes, 1, MPI_COMM_WORLD);
    memset(added, 0, sizeof *added * THREADS * ranks * TYPES * ELEMENTS);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, w.win));
    pthread_t threads[THREADS];
    for (long i = 1; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread");
    work(NULL);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(MPI_Win_unlock_all(w.win));
    for (int thread = 1; thread < THREADS; thread++)
        for (size_t i = 0; i < (size_t)ranks * TYPES * ELEMENTS; i++)
            added[i] += added[thread * (size_t)ranks * TYPES * ELEMENTS + i];
    OK(MPI_Allreduce(MPI_IN_PLACE, added, ranks * TYPES * ELEMENTS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, w.win));
    for (int type = 0; type < TYPES; type++)
        for (int i = 0; i < ELEMENTS; i++)
            SAME(get(type, w.mine + begins(type), i), sum(0, me, type)[i], "element %d of type %d", i, type);
    OK(MPI_Win_unlock(me, w.win));
    close_window(&w);
}

int main(int argc, char **argv)
{
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    turns = brief() ? 12 : 40;
    added = calloc((size_t)THREADS * ranks * TYPES * ELEMENTS, sizeof *added);
    CHECK(added != NULL, "no memory");
    for (int type = 0; type < TYPES; type++) {
        OK(MPI_Type_vector(ELEMENTS / 2, 1, 2, *kinds[type].type, &strided[type]));
        OK(MPI_Type_commit(&strided[type]));
    }
    for (int round = 0; round < (brief() ? 1 : 3); round++)
        for (int flavor = 0; flavor < FLAVORS; flavor++)
            if (has_flavor(flavor))
                one_window(flavor);
    for (int type = 0; type < TYPES; type++)
        OK(MPI_Type_free(&strided[type]));
    free(added);
    return end("rma_bulk");
}
