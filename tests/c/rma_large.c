/* Large one-sided operations: megabytes at a time, of bytes and of spread elements, and places beyond 2 and 4 GiB. */
#include "rma.h"
#include <sys/mman.h>

static size_t most(void)
{
    return brief() ? 600000 : 3000001;
}

/* Around the ring: put, got and accumulated, with a few bytes before and behind that stay. */
static void whole(int flavor)
{
    size_t bytes = most();
    struct window w = open_window(flavor, bytes + 100, 1, MPI_COMM_WORLD);
    char *out = allocate(bytes), *in = allocate(bytes);
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    MPI_Request request;
    fill(out, bytes, 10 + me);
    memset(w.mine, 0x11, 50);
    memset(w.mine + 50 + bytes, 0x22, 50);
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Put(out, bytes, MPI_BYTE, right, place(&w, right, 50), bytes, MPI_BYTE, w.win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    FILLED(w.mine + 50, bytes, 10 + left, "what was put");
    for (int i = 0; i < 50; i++)
        CHECK(w.mine[i] == 0x11 && w.mine[50 + bytes + i] == 0x22, "bytes beside what was put");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, left, 0, w.win));
    OK(MPI_Rget(in, bytes, MPI_BYTE, left, place(&w, left, 50), bytes, MPI_BYTE, w.win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock(left, w.win));
    FILLED(in, bytes, 10 + (left + ranks - 1) % ranks, "what was got");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* x + x is 0 without carry. */
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w.win));
    OK(MPI_Get_accumulate(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, right, place(&w, right, 50), bytes, MPI_BYTE, MPI_BXOR, w.win));
    OK(MPI_Win_unlock(right, w.win));
    FILLED(in, bytes, 10 + me, "what was fetched");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, w.win));
    for (size_t i = 0; i < bytes; i++)
        if (w.mine[50 + i] != 0)
            FAIL("byte %zu after MPI_BXOR with itself: %d", i, w.mine[50 + i]);
    OK(MPI_Win_unlock(me, w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    free(out);
    free(in);
    close_window(&w);
}

/* Every second element of 8 bytes, and of single bytes: all are to everyone, as sums. */
static void spread(int flavor)
{
    int many = most() / 32;
    struct window w = open_window(flavor, (size_t)many * 16, 8, MPI_COMM_WORLD);
    double *values = allocate((size_t)many * 24), *mine = (double *)w.mine;
    MPI_Datatype second, third;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    OK(MPI_Type_vector(many, 1, 2, MPI_DOUBLE, &second));
    OK(MPI_Type_vector(many, 1, 3, MPI_DOUBLE, &third));
    OK(MPI_Type_commit(&second));
    OK(MPI_Type_commit(&third));
    for (int i = 0; i < 3 * many; i++)
        values[i] = i % 3 ? -1 : i / 3 + me;
    OK(MPI_Win_fence(0, w.win));
    OK(MPI_Put(values, 1, third, right, place(&w, right, 0), 1, second, w.win));
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 2 * many; i++)
        CHECK(mine[i] == (i % 2 ? 0 : i / 2 + left), "element %d that was put: %g", i, mine[i]);
    OK(MPI_Win_fence(0, w.win));
    for (int k = 0; k < ranks; k++) {
        int rank = (me + k) % ranks;
        OK(MPI_Accumulate(values, 1, third, rank, place(&w, rank, 0), 1, second, MPI_SUM, w.win));
    }
    OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 2 * many; i++) {
        double expected = i % 2 ? 0 : i / 2 + left + (double)ranks * (i / 2) + ranks * (ranks - 1) / 2;
        CHECK(mine[i] == expected, "element %d that all added to: expected %g, got %g", i, expected, mine[i]);
    }
    OK(MPI_Win_fence(0, w.win));
    memset(values, 0, (size_t)many * 24);
    OK(MPI_Get(values, 1, third, left, place(&w, left, 0), 1, second, w.win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    int before = (left + ranks - 1) % ranks;
    for (int i = 0; i < 3 * many; i++) {
        double expected = i % 3 ? 0 : i / 3 + before + (double)ranks * (i / 3) + ranks * (ranks - 1) / 2;
        CHECK(values[i] == expected, "element %d that was got: expected %g, got %g", i, expected, values[i]);
    }
    OK(MPI_Type_free(&second));
    OK(MPI_Type_free(&third));
    free(values);
    close_window(&w);
}

/* Memory of which few pages are there: places above 2^31 and 2^32, by displacements, by a unit and by a datatype. */
static void far_away(int dynamic)
{
    const size_t bytes = (size_t)5 << 30, gigabyte = (size_t)1 << 30;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MPI_Win win;
    MPI_Aint base = 0, theirs = 0;
    MPI_Datatype apart;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks, values[5], got[5] = {0};
    if (memory == MAP_FAILED) {
        printf("skipped: no 5 GiB of addresses\n");
        return;
    }
    if (dynamic) {
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_attach(win, memory, bytes));
        OK(MPI_Get_address(memory, &base));
    } else
        OK(MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Sendrecv(&base, 1, MPI_AINT, left, 1, &theirs, 1, MPI_AINT, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Type_create_hvector(5, 1, gigabyte, MPI_INT, &apart));
    OK(MPI_Type_commit(&apart));
    for (int i = 0; i < 5; i++)
        values[i] = 10 * me + i;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(values, 1, MPI_INT, right, MPI_Aint_add(theirs, bytes - 4), 1, MPI_INT, win));
    OK(MPI_Put(values + 1, 1, MPI_INT, right, MPI_Aint_add(theirs, ((size_t)1 << 31) - 4), 1, MPI_INT, win));
    OK(MPI_Accumulate(values + 2, 1, MPI_INT, right, MPI_Aint_add(theirs, ((size_t)1 << 32) + 8), 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Put(values, 5, MPI_INT, right, MPI_Aint_add(theirs, 1000), 1, apart, win));
    OK(MPI_Accumulate(values, 5, MPI_INT, right, MPI_Aint_add(theirs, 5000), 1, apart, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    SAME(*(int *)(memory + bytes - 4), 10 * left, "the last element");
    SAME(*(int *)(memory + ((size_t)1 << 31) - 4), 10 * left + 1, "before 2^31");
    SAME(*(int *)(memory + ((size_t)1 << 32) + 8), 10 * left + 2, "after 2^32");
    for (int i = 0; i < 5; i++) {
        SAME(*(int *)(memory + i * gigabyte + 1000), 10 * left + i, "element %d, a gigabyte after the one before", i);
        SAME(*(int *)(memory + i * gigabyte + 5000), 10 * left + i, "sum %d, a gigabyte after the one before", i);
    }
    OK(MPI_Get(got, 5, MPI_INT, right, MPI_Aint_add(theirs, 5000), 1, apart, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < 5; i++)
        SAME(got[i], 10 * me + i, "got element %d", i);
    OK(MPI_Type_free(&apart));
    if (dynamic)
        OK(MPI_Win_detach(win, memory));
    OK(MPI_Win_free(&win));
    munmap(memory, bytes);
}

/* A unit of a gigabyte, and a negative displacement that a lower bound makes good. */
static void units(void)
{
    const size_t bytes = (size_t)3 << 30;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MPI_Win win;
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks, value = 5 + me;
    if (memory == MAP_FAILED)
        return;
    OK(MPI_Win_create(memory, bytes, 1 << 30, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right, 2, 1, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    SAME(*(int *)(memory + ((size_t)2 << 30)), 5 + left, "the element 2 GiB on");
    OK(MPI_Win_free(&win));
    munmap(memory, bytes);
}

/* Many large ones at a time. */
static void many(void)
{
    enum { MANY = 12 };
    size_t bytes = most() / 10;
    struct window w = open_window(CREATED, MANY * bytes, 1, MPI_COMM_WORLD);
    char *out = allocate(MANY * bytes), *in = allocate(MANY * bytes);
    MPI_Request requests[MANY];
    int target = (me + 1) % ranks, from = (me + ranks - 1) % ranks;
    for (int i = 0; i < MANY; i++)
        fill(out + i * bytes, bytes, 100 * me + i);
    OK(MPI_Win_lock_all(0, w.win));
    for (int i = 0; i < MANY; i++)
        OK(MPI_Rput(out + i * bytes, bytes, MPI_BYTE, target, i * bytes, bytes, MPI_BYTE, w.win, &requests[i]));
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    memset(out, 0, MANY * bytes);
    OK(MPI_Win_flush(target, w.win));
    for (int i = MANY - 1; i >= 0; i--)
        OK(MPI_Get(in + i * bytes, bytes, MPI_BYTE, target, i * bytes, bytes, MPI_BYTE, w.win));
    OK(MPI_Win_flush_all(w.win));
    for (int i = 0; i < MANY; i++)
        FILLED(in + i * bytes, bytes, 100 * me + i, "what was got back");
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < MANY; i++)
        FILLED(w.mine + i * bytes, bytes, 100 * from + i, "what was put");
    free(out);
    free(in);
    close_window(&w);
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor))
            continue;
        whole(flavor);
        spread(flavor);
    }
    far_away(0);
    far_away(1);
    units();
    many();
    return end("rma_large");
}
