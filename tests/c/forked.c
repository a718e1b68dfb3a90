/* A process whose last session is over forks a child, which exits as programs do: that is none of the parent's business. Its next
 * sessions talk to those that the last one talked to, and to new ones. */
#include "check.h"

#include <sys/wait.h>

/* Everybody sends to the next but `distance - 1`. */
static void session(int distance)
{
    static char out[100000], in[sizeof out];
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "weft.tests.forked", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &ranks));
    int to = (me + distance) % ranks, from = (me + ranks - distance % ranks) % ranks;
    const int lengths[] = {1, 5000, sizeof out};
    for (int i = 0; i < 3; i++) {
        fill(out, lengths[i], me + i);
        OK(MPI_Sendrecv(out, lengths[i], MPI_BYTE, to, i, in, lengths[i], MPI_BYTE, from, i, comm, MPI_STATUS_IGNORE));
        FILLED(in, lengths[i], from + i, "message");
    }
    OK(MPI_Comm_disconnect(&comm));
    OK(MPI_Session_finalize(&session));
}

int main(void)
{
    for (int round = 1; round <= 4; round++) {
        session(round);
        int status;
        fflush(stdout);
        pid_t child = fork();
        CHECK(child >= 0, "fork failed");
        if (child == 0)
            exit(0);
        CHECK(waitpid(child, &status, 0) == child, "the child is not there");
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %d", status);
    }
    session(1);
    if (me == 0)
        printf("forked: ok with %d ranks\n", ranks);
    return 0;
}
