/* A program that has sessions and no World Model. Run with the initial error handler MPI_ERRORS_RETURN. */
#include "check.h"

/* Messages from and to nobody, which belong to no communicator once they are matched. */
static void nobody(MPI_Comm comm)
{
    int value = 7, flag;
    MPI_Message message;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    OK(MPI_Mprobe(MPI_PROC_NULL, 3, comm, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC, "the message of nobody");
    OK(MPI_Imrecv(&value, 1, MPI_INT, &message, &request));
    CHECK(message == MPI_MESSAGE_NULL, "the message is left");
    OK(MPI_Wait(&request, &status));
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Improbe(MPI_PROC_NULL, 3, comm, &flag, &message, &status));
    SAME(flag, 1, "flag of MPI_Improbe");
    OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    SAME(value, 7, "what nobody sent");
}

/* What is the World Model's is not there; that a session is, the message says. */
static void world(void)
{
    int number;
    const MPI_Comm predefined[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    const char *names[] = {"MPI_COMM_WORLD", "MPI_COMM_SELF"};
    for (int i = 0; i < 2; i++) {
        ERROR(MPI_ERR_OTHER, MPI_Comm_rank(predefined[i], &number), names[i], "before MPI_Init", "a session is initialized");
        ERROR(MPI_ERR_OTHER, MPI_Send(&number, 1, MPI_INT, 0, 0, predefined[i]), names[i], "MPI_Comm_create_from_group");
    }
    ERROR(MPI_ERR_OTHER, MPI_Query_thread(&number), "before MPI_Init", "a session is initialized");
}

int main(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int number;
    ERROR(MPI_ERR_OTHER, MPI_Comm_rank(MPI_COMM_WORLD, &number), "before MPI_Init", "no session");
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "weft.tests.session_only", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &ranks));
    nobody(comm);
    world();
    OK(MPI_Comm_disconnect(&comm));
    OK(MPI_Session_finalize(&session));
    ERROR(MPI_ERR_OTHER, MPI_Comm_rank(MPI_COMM_WORLD, &number), "no session");
    if (me == 0)
        printf("session_only: ok with %d ranks\n", ranks);
    return 0;
}
