/* MPI_Comm_join: two processes of a job, or of two, that have a socket. Afterwards the socket is theirs again, and empty. `join`: ranks in pairs; with
 * `join FILE N`: process N (0 or 1) of two jobs of one process each. */
#include "jobs.h"
#include <sys/socket.h>
#include <sys/un.h>

static void join(int socket, int low)
{
    MPI_Comm inter;
    char byte = low ? 'l' : 'h', other = 0;
    for (int round = 0; round < 2; round++) {
        OK(MPI_Comm_join(socket, &inter));
        int size;
        OK(MPI_Comm_remote_size(inter, &size));
        SAME(size, 1, "remote size");
        work(inter, low);
        OK(MPI_Comm_disconnect(&inter));
        /* What comes now is the program's own. */
        CHECK(write(socket, &byte, 1) == 1 && read(socket, &other, 1) == 1 && other == (low ? 'h' : 'l'),
              "the socket gives %d", other);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm inter;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    ERROR(MPI_ERR_ARG, MPI_Comm_join(-1, &inter), "fd is -1");
    ERROR(MPI_ERR_ARG, MPI_Comm_join(1000000, &inter), "fd is 1000000");
    int pair = socket(AF_UNIX, SOCK_STREAM, 0), connected = pair;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int low = argc > 2 ? atoi(argv[2]) == 0 : me % 2 == 0;
    if (argc > 1) {
        snprintf(address.sun_path, sizeof address.sun_path, "%s", argv[1]);
    } else {
        /* The name of the pair's socket, without a file. */
        int first = getpid();
        MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD);
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "weft-join-%d-%d", first, me / 2);
    }
    if (argc <= 1 && me == ranks - 1 && ranks % 2 == 1)
        return end("join");
    if (low) {
        CHECK(bind(pair, (struct sockaddr *)&address, sizeof address) == 0 && listen(pair, 1) == 0, "no socket");
        connected = accept(pair, NULL, NULL);
    } else {
        while (connect(pair, (struct sockaddr *)&address, sizeof address) != 0)
            usleep(1000);
    }
    CHECK(connected >= 0, "no connection");
    join(connected, low);
    return end("join");
}
