/* Sessions beside processes that come and go: a session's communicator spawns, process sets are each job's own, and groups with processes of two jobs
 * make communicators (MPI_Comm_create_from_group, MPI_Intercomm_create_from_groups). `spawn_sessions N`: N processes are spawned. `spawn_sessions N only`:
 * by a program that does not call MPI_Init. */
#include "jobs.h"

static MPI_Group set(MPI_Session session, const char *name, int size)
{
    MPI_Group group;
    int got;
    OK(MPI_Group_from_session_pset(session, name, &group));
    OK(MPI_Group_size(group, &got));
    SAME(got, size, "size of %s", name);
    return group;
}

/* The group of both jobs and each one's, first by communicators of the world model, then by a session's. */
static void by_groups(MPI_Comm inter, int low)
{
    MPI_Comm all, made;
    MPI_Group whole, local, remote, again;
    int size, rank, result;
    OK(MPI_Intercomm_merge(inter, !low, &all));
    OK(MPI_Comm_group(all, &whole));
    OK(MPI_Comm_group(inter, &local));
    OK(MPI_Comm_remote_group(inter, &remote));
    OK(MPI_Comm_size(all, &size));
    OK(MPI_Comm_rank(all, &rank));
    for (int round = 0; round < 3; round++) {
        OK(MPI_Comm_create_from_group(whole, "weft test, all", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
        OK(MPI_Comm_compare(all, made, &result));
        SAME(result, MPI_CONGRUENT, "the communicator of the whole group");
        gather_within(made);
        OK(MPI_Comm_disconnect(&made));
        OK(MPI_Intercomm_create_from_groups(local, 0, remote, 0, "weft test, two", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
        OK(MPI_Comm_compare(inter, made, &result));
        SAME(result, MPI_CONGRUENT, "the intercommunicator of two groups");
        talk(made, low);
        gather_across(made, low);
        OK(MPI_Comm_disconnect(&made));
    }
    /* Every second process. */
    int range[1][3] = {{0, size - 1, 2}};
    OK(MPI_Group_range_incl(whole, 1, range, &again));
    if (rank % 2 == 0) {
        OK(MPI_Comm_create_from_group(again, "weft test, some", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
        gather_within(made);
        /* It may be the last that the two jobs have in common. */
        OK(MPI_Comm_disconnect(&all));
        gather_within(made);
        OK(MPI_Comm_disconnect(&made));
    } else {
        OK(MPI_Comm_disconnect(&all));
    }
    OK(MPI_Group_free(&again));
    OK(MPI_Group_free(&whole));
    OK(MPI_Group_free(&local));
    OK(MPI_Group_free(&remote));
}

static void sets(MPI_Session session, int size)
{
    MPI_Group world = set(session, "mpi://WORLD", size), self = set(session, "mpi://SELF", 1);
    MPI_Comm comm;
    OK(MPI_Comm_create_from_group(world, "weft test, a world", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    gather_within(comm);
    OK(MPI_Comm_disconnect(&comm));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&self));
}

static void be_parent(MPI_Session session, char *program, int count)
{
    MPI_Comm children, comm;
    MPI_Group world;
    int size;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    OK(MPI_Comm_create_from_group(world, "weft test, to spawn", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&world));
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &ranks));
    for (int round = 0; round < 2; round++) {
        OK(MPI_Comm_spawn(program, MPI_ARGV_NULL, count, MPI_INFO_NULL, 0, comm, &children, MPI_ERRCODES_IGNORE));
        OK(MPI_Comm_remote_size(children, &size));
        SAME(size, count, "number of children");
        work(children, 1);
        by_groups(children, 1);
        sets(session, ranks);
        OK(MPI_Comm_disconnect(&children));
    }
    OK(MPI_Comm_disconnect(&comm));
    sets(session, ranks);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    MPI_Session session;
    int count = argc > 1 ? atoi(argv[1]) : 2;
    if (argc > 2) {
        /* A session ends, and the next one does the same. */
        for (int round = 0; round < 2; round++) {
            OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
            be_parent(session, argv[0], count);
            OK(MPI_Session_finalize(&session));
        }
        if (me == 0)
            printf("spawn_sessions: ok with %d ranks\n", ranks);
        return 0;
    }
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&parent));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
        sets(session, ranks);
        work(parent, 0);
        by_groups(parent, 0);
        OK(MPI_Comm_disconnect(&parent));
        sets(session, ranks);
        OK(MPI_Session_finalize(&session));
        MPI_Finalize();
        return 0;
    }
    be_parent(session, argv[0], count);
    OK(MPI_Session_finalize(&session));
    return end("spawn_sessions");
}
