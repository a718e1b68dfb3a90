/* The short-message calls of rank 0, for benches/instructions/count to count instructions in: 8 bytes between two ranks.
   usage: instructions ROUNDS FILE   FILE is an empty file by which the ranks tell each other without MPI.
   Each case is a function of its own, by whose name its instructions are found. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile long *turn;
static int rank;

/* The other rank waits for `number` without MPI. */
static void tell(long number)
{
    __atomic_store_n(&turn[8 * rank], number, __ATOMIC_RELEASE);
}

static void hear(long number)
{
    while (__atomic_load_n(&turn[8 * (1 - rank)], __ATOMIC_ACQUIRE) < number)
        usleep(10);
}

static char out[8] = "message", in[8];
static MPI_Request request;
static MPI_Status status;
static int flag;

enum { WINDOW = 64 };
static char words[WINDOW][8];
static MPI_Request requests[WINDOW];

#define CASE __attribute__((noinline)) static void

CASE case_send(void)
{
    MPI_Send(out, 8, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
}

CASE case_isend_wait(void)
{
    MPI_Isend(out, 8, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

CASE case_iprobe_nothing(void)
{
    MPI_Iprobe(1, 6, MPI_COMM_WORLD, &flag, &status);
}

CASE case_recv_in_transport(void)
{
    MPI_Recv(in, 8, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &status);
}

CASE case_recv_unexpected(void)
{
    MPI_Recv(in, 8, MPI_CHAR, 1, 4, MPI_COMM_WORLD, &status);
}

CASE case_irecv(void)
{
    MPI_Irecv(in, 8, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &request);
}

CASE case_wait_in_transport(void)
{
    MPI_Wait(&request, &status);
}

/* What counts for the message rate. */
CASE case_window_isend(void)
{
    int i;
    for (i = 0; i < WINDOW; i++)
        MPI_Isend(words[i], 8, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

CASE case_window_irecv(void)
{
    int i;
    for (i = 0; i < WINDOW; i++)
        MPI_Irecv(words[i], 8, MPI_CHAR, 1, 8, MPI_COMM_WORLD, &requests[i]);
}

CASE case_window_waitall(void)
{
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

/* The window of rank 1, of MPI_Win_allocate or MPI_Win_create; rank 0 alone acts. */
static MPI_Win window;
static long long one = 1, before, memory[8];

CASE case_put(void)
{
    MPI_Put(out, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, window);
}

CASE case_put_flush(void)
{
    MPI_Put(out, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, window);
    MPI_Win_flush(1, window);
}

CASE case_get_flush(void)
{
    MPI_Get(in, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, window);
    MPI_Win_flush(1, window);
}

CASE case_created_put_flush(void)
{
    MPI_Put(out, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, window);
    MPI_Win_flush(1, window);
}

CASE case_created_get_flush(void)
{
    MPI_Get(in, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, window);
    MPI_Win_flush(1, window);
}

CASE case_accumulate_flush(void)
{
    double number = 1;
    MPI_Accumulate(&number, 1, MPI_DOUBLE, 1, 1, 1, MPI_DOUBLE, MPI_SUM, window);
    MPI_Win_flush(1, window);
}

CASE case_fetch_and_op_flush(void)
{
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 1, 2, MPI_SUM, window);
    MPI_Win_flush(1, window);
}

CASE case_compare_and_swap_flush(void)
{
    MPI_Compare_and_swap(&one, &one, &before, MPI_INT64_T, 1, 3, window);
    MPI_Win_flush(1, window);
}

CASE case_lock_unlock(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
    MPI_Win_unlock(1, window);
}

CASE case_lock_shared_unlock(void)
{
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    MPI_Win_unlock(1, window);
}

CASE case_lock_all_unlock_all(void)
{
    MPI_Win_lock_all(0, window);
    MPI_Win_unlock_all(window);
}

/* While rank 1 waits in a barrier, or makes no call of MPI. */
static void one_sided(long rounds)
{
    long i;
    void *mine;
    MPI_Win_allocate(sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
    for (i = 0; rank == 0 && i < rounds; i++) {
        case_lock_unlock();
        case_lock_shared_unlock();
        case_lock_all_unlock_all();
    }
    if (rank == 0)
        MPI_Win_lock_all(0, window);
    for (i = 0; rank == 0 && i < rounds; i++) {
        case_put();
        case_put_flush();
        case_get_flush();
        case_accumulate_flush();
        case_fetch_and_op_flush();
        case_compare_and_swap_flush();
    }
    if (rank == 0)
        MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Win_create(memory, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (rank == 0)
        MPI_Win_lock_all(0, window);
    else
        hear(4 * rounds + 1);
    for (i = 0; rank == 0 && i < rounds; i++) {
        case_created_put_flush();
        case_created_get_flush();
    }
    if (rank == 0) {
        MPI_Win_unlock_all(window);
        tell(4 * rounds + 1);
    }
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    long i, k, rounds = argc > 1 ? atol(argv[1]) : 1000;
    int file;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3 || (file = open(argv[2], O_RDWR)) < 0 || ftruncate(file, 4096) != 0) {
        fprintf(stderr, "usage: instructions ROUNDS FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (turn == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    /* Both sides know each other, in both directions. */
    MPI_Sendrecv(out, 8, MPI_CHAR, 1 - rank, 0, in, 8, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (i = 1; i <= rounds; i++) {
        if (rank == 1) {
            MPI_Recv(in, 8, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &status);
            MPI_Recv(in, 8, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &status);
            for (k = 0; k < WINDOW; k++)
                MPI_Recv(in, 8, MPI_CHAR, 0, 7, MPI_COMM_WORLD, &status);
            hear(4 * i - 3);
            MPI_Send(out, 8, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
            tell(4 * i - 3);
            hear(4 * i - 2);
            MPI_Send(out, 8, MPI_CHAR, 0, 4, MPI_COMM_WORLD);
            tell(4 * i - 2);
            hear(4 * i - 1);
            MPI_Send(out, 8, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
            tell(4 * i - 1);
            hear(4 * i);
            for (k = 0; k < WINDOW; k++)
                MPI_Send(out, 8, MPI_CHAR, 0, 8, MPI_COMM_WORLD);
            tell(4 * i);
            continue;
        }
        case_send();
        case_isend_wait();
        case_window_isend();
        case_iprobe_nothing();
        if (flag)
            MPI_Abort(MPI_COMM_WORLD, 2);
        tell(4 * i - 3);
        hear(4 * i - 3);
        case_recv_in_transport();
        tell(4 * i - 2);
        hear(4 * i - 2);
        MPI_Iprobe(1, 4, MPI_COMM_WORLD, &flag, &status);
        if (!flag)
            MPI_Abort(MPI_COMM_WORLD, 3);
        case_recv_unexpected();
        case_irecv();
        MPI_Test(&request, &flag, &status);
        tell(4 * i - 1);
        hear(4 * i - 1);
        case_wait_in_transport();
        case_window_irecv();
        tell(4 * i);
        hear(4 * i);
        case_window_waitall();
    }
    one_sided(rounds);
    MPI_Finalize();
    return 0;
}
