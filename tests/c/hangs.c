/* A program that comes to no good end, having said something: what of it arrives, and what is told?
 *
 * hangs HOW: each rank prints a line and the beginning of one, and flushes neither.
 *   waits    rank 0 receives what nobody sends, rank 1 sleeps outside of MPI, the others are in a barrier
 *   crashes  then rank 1 gets a SIGSEGV of its own
 *   aborts   then rank 1 calls MPI_Abort
 *   leaves   nobody waits, and rank 0 leaves things behind at MPI_Finalize */
#define _GNU_SOURCE
#include "check.h"

#include <execinfo.h>
#include <signal.h>

/* Prints the functions that this process is in. */
static void frames(int signal)
{
    (void)signal;
    void *addresses[64];
    backtrace_symbols_fd(addresses, backtrace(addresses, 64), 2);
    static const char end[] = "end of the frames\n";
    if (write(2, end, sizeof end - 1) < 0)
        _exit(98);
}

static void leave_things(void)
{
    int value = 5;
    MPI_Request send, receive, persistent;
    MPI_Isend(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &send);
    MPI_Comm named, unnamed;
    MPI_Comm_dup(MPI_COMM_SELF, &named);
    MPI_Comm_set_name(named, "halo");
    MPI_Comm_dup(MPI_COMM_SELF, &unnamed);
    static int room[3];
    MPI_Irecv(room, 3, MPI_INT, 0, 2, named, &receive);
    MPI_Recv_init(room, 1, MPI_INT, 0, 3, named, &persistent);
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
    MPI_Group group;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Win window;
    void *memory;
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &window);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "colour", "blue");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *how = argc > 1 ? argv[1] : "";
    printf("rank %d is process %d\n", me, (int)getpid());
    printf("then it");
    if (strcmp(how, "leaves") == 0) {
        printf("\n");
        if (me == 0)
            leave_things();
        return end("hangs");
    }
    MPI_Comm halo;
    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Comm_set_name(halo, "halo");
    /* The first call loads a library, which a handler must not. */
    void *address;
    backtrace(&address, 1);
    signal(SIGUSR1, me == 1 ? SIG_IGN : frames);
    if (me == 1) {
        if (strcmp(how, "crashes") == 0)
            raise(SIGSEGV);
        if (strcmp(how, "aborts") == 0)
            MPI_Abort(MPI_COMM_WORLD, 5);
        for (;;)
            pause();
    }
    int value;
    if (me == 0)
        MPI_Recv(&value, 1, MPI_INT, ranks - 1, 7, halo, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return end("hangs");
}
