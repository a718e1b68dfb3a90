/* Short puts and gets while their target comes and goes: it computes, or waits in a call of MPI. What was flushed is there, and nothing that was
 * put before it comes later. */
#include "rma.h"

enum { CELLS = 64, MOST = 12 };

static unsigned long long seed = 7;

static unsigned random_below(unsigned bound)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(seed >> 33) % bound;
}

static void compute(double seconds)
{
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        ;
}

/* Some puts and gets of rank 0, each flushed or ended by an unlock; `cells` is what has been put. */
static void put_and_get(struct window *w, long *cells, int rounds, int held)
{
    static long values[MOST];
    for (int round = 0; round < rounds; round++) {
        int number = 1 + (int)random_below(MOST), at = (int)random_below(CELLS - MOST + 1), gap = 1 + (int)random_below(2);
        int gets = random_below(3) == 0;
        if (!held)
            OK(MPI_Win_lock(random_below(2) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 1, 0, w->win));
        for (int i = 0; i < number; i++) {
            int cell = at + i;
            if (gap == 2 && i % 2)
                continue;
            values[i] = gets ? -1 : (long)random_below(1000000);
            if (gets) {
                OK(MPI_Get(&values[i], 1, MPI_LONG, 1, cell, 1, MPI_LONG, w->win));
            } else {
                OK(MPI_Put(&values[i], 1, MPI_LONG, 1, cell, 1, MPI_LONG, w->win));
                cells[cell] = values[i];
            }
        }
        if (!held)
            OK(MPI_Win_unlock(1, w->win));
        else if (random_below(2))
            OK(MPI_Win_flush(1, w->win));
        else
            OK(MPI_Win_flush_all(w->win));
        for (int i = 0; gets && i < number; i++)
            if (gap == 1 || i % 2 == 0)
                SAME(values[i], cells[at + i], "what was got");
        /* Now and then the target has time to find what it was asked for long ago. */
        if (random_below(8) == 0)
            compute(20e-6);
    }
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    int rounds = brief() ? 60 : 300;
    for (int flavor = CREATED; ranks > 1 && flavor <= ALLOCATED; flavor++) {
        struct window w = open_window(flavor, CELLS * sizeof(long), sizeof(long), MPI_COMM_WORLD);
        long cells[CELLS] = {0};
        for (int turn = 0; turn < 12; turn++) {
            int held = turn % 2;
            OK(MPI_Barrier(MPI_COMM_WORLD));
            if (me == 0) {
                if (held)
                    OK(MPI_Win_lock_all(0, w.win));
                put_and_get(&w, cells, rounds, held);
                if (held)
                    OK(MPI_Win_unlock_all(w.win));
            } else if (me == 1 && turn % 4 < 2) {
                /* In a call every now and then. */
                for (int i = 0; i < 40; i++) {
                    int flag;
                    compute(i % 5 * 10e-6);
                    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                }
            }
            OK(MPI_Bcast(cells, CELLS, MPI_LONG, 0, MPI_COMM_WORLD));
            OK(MPI_Barrier(MPI_COMM_WORLD));
            if (me == 1) {
                OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, w.win));
                for (int i = 0; i < CELLS; i++)
                    SAME(((long *)w.mine)[i], cells[i], "a cell");
                OK(MPI_Win_unlock(1, w.win));
            }
        }
        close_window(&w);
    }
    return end("rma_asked");
}
