/* Three jobs: `three_jobs chain`: A spawns B, B spawns C. A process of A and C then know nothing of each other, but are connected through B: all end
 * together. `three_jobs ring`: A spawns B and C, which meet at a port; `three_jobs apart`: the same ring is taken apart one side after the other, each job
 * works on with those that it still has, and B ends while A and C are still connected. `three_jobs third`: A and C meet through B, over a communicator of
 * all three. */
#include "jobs.h"

static MPI_Comm spawned(char *program, char *what, char *mode, int count)
{
    char *arguments[] = {mode, what, NULL};
    MPI_Comm children;
    OK(MPI_Comm_spawn(program, arguments, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
    return children;
}

/* A communicator of all processes of the three jobs, A's first: `ab` and `bc` as B sees them, NULL elsewhere. */
static MPI_Comm of_all(MPI_Comm ab, MPI_Comm bc, int low)
{
    MPI_Comm both, all, inter;
    if (ab != MPI_COMM_NULL) {
        OK(MPI_Intercomm_merge(ab, !low, &both));
        OK(MPI_Barrier(both));
    } else {
        both = MPI_COMM_WORLD;
    }
    /* Processes of A and B with those of C: B's first process and C's first are the leaders. */
    int size;
    OK(MPI_Comm_size(both, &size));
    if (bc != MPI_COMM_NULL && ab != MPI_COMM_NULL) {
        /* B. */
        int leader;
        OK(MPI_Comm_remote_size(ab, &leader));
        MPI_Comm bridge;
        OK(MPI_Intercomm_merge(bc, 0, &bridge));
        int of_b;
        OK(MPI_Comm_size(MPI_COMM_WORLD, &of_b));
        OK(MPI_Intercomm_create(both, leader, bridge, of_b, 5, &inter));
        OK(MPI_Comm_disconnect(&bridge));
    } else if (ab != MPI_COMM_NULL) {
        /* A. */
        int of_a;
        OK(MPI_Comm_size(MPI_COMM_WORLD, &of_a));
        OK(MPI_Intercomm_create(both, of_a, MPI_COMM_NULL, 0, 5, &inter));
    } else {
        /* C. */
        MPI_Comm bridge;
        OK(MPI_Intercomm_merge(bc, 1, &bridge));
        OK(MPI_Intercomm_create(MPI_COMM_WORLD, 0, bridge, 0, 5, &inter));
        OK(MPI_Comm_disconnect(&bridge));
    }
    OK(MPI_Intercomm_merge(inter, ab == MPI_COMM_NULL, &all));
    talk(inter, ab != MPI_COMM_NULL);
    gather_across(inter, ab != MPI_COMM_NULL);
    OK(MPI_Comm_disconnect(&inter));
    if (both != MPI_COMM_WORLD)
        OK(MPI_Comm_disconnect(&both));
    return all;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, b, c, all;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&parent));
    CHECK(argc >= 2, "which mode?");
    char *mode = argv[1], *who = argc > 2 ? argv[2] : "A", port[MPI_MAX_PORT_NAME] = "";
    int apart = strcmp(mode, "apart") == 0, ring = apart || strcmp(mode, "ring") == 0, third = strcmp(mode, "third") == 0;
    if (*who == 'A' && !ring) {
        b = spawned(argv[0], "B", mode, 3);
        work(b, 1);
        if (third) {
            all = of_all(b, MPI_COMM_NULL, 1);
            gather_within(all);
            OK(MPI_Comm_disconnect(&all));
        }
    } else if (*who == 'B' && !ring) {
        work(parent, 0);
        c = spawned(argv[0], "C", mode, 2);
        work(c, 1);
        if (third) {
            all = of_all(parent, c, 0);
            gather_within(all);
            OK(MPI_Comm_disconnect(&all));
        }
    } else if (*who == 'C' && !ring) {
        work(parent, 0);
        if (third) {
            all = of_all(MPI_COMM_NULL, parent, 0);
            gather_within(all);
            OK(MPI_Comm_disconnect(&all));
        }
    } else if (*who == 'A') {
        b = spawned(argv[0], "B", mode, 2);
        c = spawned(argv[0], "C", mode, 3);
        work(b, 1);
        work(c, 1);
        /* The port of B's, for C. */
        if (me == 0) {
            OK(MPI_Recv(port, sizeof port, MPI_CHAR, 0, 6, b, MPI_STATUS_IGNORE));
            OK(MPI_Send(port, sizeof port, MPI_CHAR, 0, 6, c));
        }
        gather_across(b, 1);
        gather_across(c, 1);
        if (apart) {
            OK(MPI_Comm_disconnect(&b));
            work(c, 1);
            OK(MPI_Comm_disconnect(&c));
        }
    } else if (*who == 'B') {
        work(parent, 0);
        if (me == 0) {
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            OK(MPI_Send(port, sizeof port, MPI_CHAR, 0, 6, parent));
        }
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
        work(c, 1);
        gather_across(parent, 0);
        if (apart) {
            OK(MPI_Comm_disconnect(&parent));
            work(c, 1);
            OK(MPI_Comm_disconnect(&c));
        }
    } else {
        work(parent, 0);
        if (me == 0)
            OK(MPI_Recv(port, sizeof port, MPI_CHAR, 0, 6, parent, MPI_STATUS_IGNORE));
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &b));
        work(b, 0);
        gather_across(parent, 0);
        if (apart) {
            work(b, 0);
            OK(MPI_Comm_disconnect(&b));
            work(parent, 0);
            OK(MPI_Comm_disconnect(&parent));
        }
    }
    if (*who != 'A') {
        MPI_Finalize();
        return 0;
    }
    return end("three_jobs");
}
