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
    MPI_Finalize();
    return 0;
}
