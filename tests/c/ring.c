/* Values go around rings by Sendrecv and Sendrecv_replace, of several sizes and types, and come home changed by all. */
#include "check.h"

enum { MOST = 100000 };

static void replace(MPI_Comm comm, int count)
{
    int rank, size;
    static int64_t values[MOST];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < count; i++)
        values[i] = (int64_t)rank * 1000000 + i;
    for (int step = 0; step < size; step++) {
        MPI_Status status;
        MPI_Sendrecv_replace(values, count, MPI_INT64_T, (rank + 1) % size, 3, (rank + size - 1) % size, 3, comm,
                             &status);
        STATUS(status, (rank + size - 1) % size, 3, count * 8);
        int from = (rank + size * 2 - 1 - step) % size;
        for (int i = 0; i < count; i++) {
            SAME(values[i], (int64_t)from * 1000000 + i + step, "value %d after %d steps", i, step + 1);
            values[i]++;
        }
    }
}

static void exchange(MPI_Comm comm, int count)
{
    int rank, size;
    static float out[MOST], in[MOST];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    /* There and back at once, with different numbers of elements. */
    for (int i = 0; i < count; i++)
        out[i] = (float)(rank * 10 + i);
    for (int direction = 1; direction >= -1; direction -= 2) {
        int to = (rank + direction + size) % size, from = (rank - direction + size) % size;
        MPI_Status status;
        int sent = count - rank % 2 * (count > 0);
        MPI_Sendrecv(out, sent, MPI_FLOAT, to, rank, in, MOST, MPI_FLOAT, from, from, comm, &status);
        int received = count - from % 2 * (count > 0);
        STATUS(status, from, from, received * 4);
        for (int i = 0; i < received; i++)
            CHECK(in[i] == (float)(from * 10 + i), "element %d: expected %g, got %g", i, (double)(from * 10 + i),
                  (double)in[i]);
    }
}

/* The ends of a line talk to nobody. */
static void line(void)
{
    int left = me > 0 ? me - 1 : MPI_PROC_NULL, right = me + 1 < ranks ? me + 1 : MPI_PROC_NULL;
    int mine = me, theirs = -5;
    MPI_Status status;
    MPI_Sendrecv(&mine, 1, MPI_INT, right, 1, &theirs, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &status);
    if (left == MPI_PROC_NULL) {
        SAME(theirs, -5, "buffer of a receive from MPI_PROC_NULL");
        STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    } else {
        SAME(theirs, left, "value from the left");
        STATUS(status, left, 1, 4);
    }
    MPI_Sendrecv_replace(&mine, 1, MPI_INT, left, 1, right, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    SAME(mine, right == MPI_PROC_NULL ? me : right, "value from the right");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const int counts[] = {0, 1, 7, 500, 3000, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        replace(MPI_COMM_WORLD, counts[i]);
        exchange(MPI_COMM_WORLD, counts[i]);
        replace(MPI_COMM_SELF, counts[i]);
        exchange(MPI_COMM_SELF, counts[i]);
    }
    line();
    return end("ring");
}
