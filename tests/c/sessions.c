/* Sessions one after the other and at once, with traffic; disconnected, freed and left communicators. */
#include "check.h"

#include <string.h>

enum { CYCLES = 30 };

/* A session, a communicator of all, traffic on it, and its end in one of three ways. */
static void cycle(int how)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm world, copy;
    int rank, size, got = -1, sum = -1;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "weft.tests.sessions", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &world);
    MPI_Group_free(&group);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, world,
                 MPI_STATUS_IGNORE);
    CHECK(got == (rank + size - 1) % size, "got %d from the left neighbour", got);
    MPI_Comm_dup(world, &copy);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy);
    CHECK(sum == size * (size - 1) / 2, "the sum of the ranks is %d", sum);
    if (how == 0) {
        MPI_Comm_disconnect(&copy);
        MPI_Comm_disconnect(&world);
    } else if (how == 1) {
        MPI_Comm_free(&copy);
        MPI_Comm_free(&world);
    }
    MPI_Session_finalize(&session);
    CHECK(session == MPI_SESSION_NULL, "a finalized session's handle is not null");
    CHECK(how != 0 || world == MPI_COMM_NULL, "a disconnected communicator's handle is not null");
}

/* What a session tells of itself. */
static void facts(void)
{
    MPI_Session session;
    MPI_Info info;
    char text[MPI_MAX_INFO_VAL];
    int flag, sets, n, code, class, len = sizeof text;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_get_info(session, &info);
    MPI_Info_get_string(info, "thread_level", &len, text, &flag);
    CHECK(flag && strcmp(text, "MPI_THREAD_MULTIPLE") == 0, "thread_level is %s", flag ? text : "absent");
    MPI_Info_free(&info);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets);
    CHECK(sets >= 2, "there are %d process sets", sets);
    for (n = 0; n < sets; n++) {
        char name[MPI_MAX_PSET_NAME_LEN];
        len = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &len, NULL);
        CHECK(len > 1 && len <= (int)sizeof name, "the name of set %d has %d bytes", n, len);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &len, name);
        CHECK((int)strlen(name) + 1 == len, "'%s' has not %d bytes", name, len);
        MPI_Session_get_pset_info(session, name, &info);
        len = sizeof text;
        MPI_Info_get_string(info, "mpi_size", &len, text, &flag);
        CHECK(flag && atoi(text) >= 1, "set %s has no mpi_size", name);
        MPI_Info_free(&info);
    }
    code = MPI_Session_get_pset_info(session, "mpi://NOWHERE", &info);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_ARG, "an unknown process set gives class %d", class);
    MPI_Session_finalize(&session);
}

int main(void)
{
    MPI_Session outer;
    MPI_Group group;
    int k, rank, size;

    for (k = 0; k < CYCLES; k++)
        cycle(k % 3);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &outer);
    for (k = 0; k < CYCLES; k++)
        cycle(k % 3);
    facts();
    MPI_Init(NULL, NULL);
    cycle(0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Finalize();
    /* A session outlives the World Model, and works on. */
    MPI_Group_from_session_pset(outer, "mpi://WORLD", &group);
    MPI_Group_size(group, &k);
    CHECK(k == size, "the world has %d processes, then %d", size, k);
    MPI_Group_free(&group);
    MPI_Session_finalize(&outer);
    cycle(1);
    if (rank == 0)
        printf("sessions: ok with %d ranks\n", size);
    return 0;
}
