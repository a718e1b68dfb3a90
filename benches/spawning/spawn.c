/* How long processes of another job take to speak.
   prints: spawn CHILDREN MILLISECONDS    from MPI_Comm_spawn until a message of each child has come, once per round
           connect 1 MILLISECONDS         from MPI_Comm_connect until a message has gone to the other job and back, once per round
   Arguments: rounds, and how many children are spawned. One rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void be_child(MPI_Comm parent, int argc, char **argv)
{
    int rank, round, value = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Send(&rank, 1, MPI_INT, 0, 1, parent);
    if (argc > 1 && strcmp(argv[1], "serve") == 0) {
        char port[MPI_MAX_PORT_NAME] = "";
        MPI_Comm inter;
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 2, parent);
        MPI_Comm_disconnect(&parent);
        for (round = atoi(argv[2]); round > 0; round--) {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
            MPI_Recv(&value, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
            MPI_Send(&value, 1, MPI_INT, 0, 3, inter);
            MPI_Comm_disconnect(&inter);
        }
        MPI_Close_port(port);
    } else {
        MPI_Comm_disconnect(&parent);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    int rounds = argc > 1 ? atoi(argv[1]) : 5, children = argc > 2 ? atoi(argv[2]) : 8, round, nth, value = 0;
    char port[MPI_MAX_PORT_NAME] = "", times[20];
    char *arguments[] = {"serve", times, NULL};
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        be_child(parent, argc, argv);
        MPI_Finalize();
        return 0;
    }
    for (round = 0; round < rounds; round++) {
        double start = MPI_Wtime();
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, children, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE);
        for (nth = 0; nth < children; nth++)
            MPI_Recv(&value, 1, MPI_INT, nth, 1, inter, MPI_STATUS_IGNORE);
        printf("spawn %d %.3f\n", children, (MPI_Wtime() - start) * 1e3);
        fflush(stdout);
        MPI_Comm_disconnect(&inter);
    }
    snprintf(times, sizeof times, "%d", rounds);
    MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE);
    MPI_Recv(&value, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
    MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 2, inter, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&inter);
    for (round = 0; round < rounds; round++) {
        double start = MPI_Wtime();
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        MPI_Send(&value, 1, MPI_INT, 0, 3, inter);
        MPI_Recv(&value, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
        printf("connect 1 %.3f\n", (MPI_Wtime() - start) * 1e3);
        fflush(stdout);
        MPI_Comm_disconnect(&inter);
    }
    MPI_Finalize();
    return 0;
}
