/* What outlives a session, what does not, and what a session tells of itself.
 *
 *     session_objects            datatypes, operations, info, error handlers over several sessions
 *     session_objects kinds K    the kinds of memory are K, as the launcher asked
 *     session_objects sets       the process sets that the launcher named (see tests/programs/sessions.rs)
 *     session_objects mismatch   string tags that differ: a hang whose report names them
 */
#include "check.h"

static void get(MPI_Info info, const char *key, char *value)
{
    int flag, len = MPI_MAX_INFO_VAL;
    OK(MPI_Info_get_string(info, key, &len, value, &flag));
    CHECK(flag, "the info has no key %s", key);
}

static void is(const char *got, const char *expected, const char *what)
{
    CHECK(strcmp(got, expected) == 0, "%s: expected '%s', got '%s'", what, expected, got);
}

static MPI_Session open_with(const char *key, const char *value)
{
    MPI_Session session;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    if (key != NULL)
        OK(MPI_Info_set(info, key, value));
    OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    OK(MPI_Info_free(&info));
    return session;
}

static MPI_Comm everybody(MPI_Session session)
{
    MPI_Group group;
    MPI_Comm comm;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "weft.tests.objects", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &ranks));
    return comm;
}

/* What is asked for is granted, what is not known is left out, and an info object is not changed. */
static void granted(void)
{
    const char *levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
    char value[MPI_MAX_INFO_VAL];
    MPI_Session session;
    MPI_Info info;

    for (int level = 0; level < 4; level++) {
        session = open_with("thread_level", levels[level]);
        OK(MPI_Session_get_info(session, &info));
        get(info, "thread_level", value);
        is(value, levels[level], "thread_level as asked for");
        get(info, "mpi_memory_alloc_kinds", value);
        is(value, "mpi,system", "the default of mpi_memory_alloc_kinds");
        /* It is a copy: each call gives a new one. */
        OK(MPI_Info_set(info, "thread_level", "mine"));
        OK(MPI_Info_free(&info));
        OK(MPI_Session_get_info(session, &info));
        get(info, "thread_level", value);
        is(value, levels[level], "thread_level asked for again");
        OK(MPI_Info_free(&info));
        OK(MPI_Session_finalize(&session));
    }
    session = open_with("mpi_memory_alloc_kinds", "cuda:device,mpi:alloc_mem,system,mpi:win_allocate:alloc_mem");
    OK(MPI_Session_get_info(session, &info));
    get(info, "thread_level", value);
    is(value, "MPI_THREAD_MULTIPLE", "the default thread_level");
    get(info, "mpi_memory_alloc_kinds", value);
    is(value, "mpi,system,mpi:alloc_mem,mpi:win_allocate:alloc_mem", "the kinds asked for that there are");
    OK(MPI_Info_free(&info));
    MPI_Comm comm = everybody(session);
    OK(MPI_Comm_get_info(comm, &info));
    get(info, "mpi_memory_alloc_kinds", value);
    is(value, "mpi,system,mpi:alloc_mem,mpi:win_allocate:alloc_mem", "the kinds of a derived communicator");
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_disconnect(&comm));
    OK(MPI_Session_finalize(&session));
    /* Hints of other libraries are ignored. */
    session = open_with("other_library_hint", "whatever");
    OK(MPI_Session_finalize(&session));
}

static void maximum(void *in, void *inout, int *len, MPI_Datatype *type)
{
    const int *from = in;
    int *to = inout;
    (void)type;
    for (int at = 0; at < *len; at++)
        to[2 * at] = from[2 * at] > to[2 * at] ? from[2 * at] : to[2 * at];
}

static int handled, handled_class;

static void on_comm(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled++;
    handled_class = class_of(*code);
}

static void on_session(MPI_Session *session, int *code, ...)
{
    (void)session;
    handled++;
    handled_class = class_of(*code);
}

/* Made in one session, used in the next, with none in between. */
static void survive(void)
{
    MPI_Session first = open_with(NULL, NULL), second;
    MPI_Datatype spread;
    MPI_Op op;
    MPI_Info info;
    MPI_Errhandler comm_handler, session_handler;
    char value[MPI_MAX_INFO_VAL];

    OK(MPI_Type_create_resized(MPI_INT, 0, 8, &spread));
    OK(MPI_Type_commit(&spread));
    OK(MPI_Op_create(maximum, 1, &op));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "thread_level", "MPI_THREAD_FUNNELED"));
    OK(MPI_Comm_create_errhandler(on_comm, &comm_handler));
    OK(MPI_Session_create_errhandler(on_session, &session_handler));
    OK(MPI_Session_finalize(&first));

    OK(MPI_Session_init(info, session_handler, &second));
    OK(MPI_Info_free(&info));
    OK(MPI_Session_get_info(second, &info));
    get(info, "thread_level", value);
    is(value, "MPI_THREAD_FUNNELED", "the thread level of an info from the first session");
    OK(MPI_Info_free(&info));
    MPI_Comm comm = everybody(second);
    int pairs[6], most[6];
    for (int at = 0; at < 6; at++)
        pairs[at] = 10 * me + at, most[at] = -1;
    OK(MPI_Allreduce(pairs, most, 3, spread, op, comm));
    for (int at = 0; at < 6; at++)
        SAME(most[at], at % 2 == 0 ? 10 * (ranks - 1) + at : -1, "place %d of a datatype with an operation", at);

    OK(MPI_Comm_set_errhandler(comm, comm_handler));
    handled = 0;
    MPI_Send(NULL, 0, MPI_INT, ranks, 0, comm);
    SAME(handled, 1, "calls of the communicator's error handler");
    SAME(handled_class, MPI_ERR_RANK, "the class that it gets");
    MPI_Info wrong;
    MPI_Session_get_pset_info(second, "mpi://NOWHERE", &wrong);
    SAME(handled, 2, "calls of the session's error handler");
    SAME(handled_class, MPI_ERR_ARG, "the class that it gets");
    OK(MPI_Session_set_errhandler(second, MPI_ERRORS_RETURN));
    SAME(class_of(MPI_Session_get_pset_info(second, "mpi://NOWHERE", &wrong)), MPI_ERR_ARG, "an unknown process set");
    SAME(handled, 2, "calls of the handler that the session had before");
    OK(MPI_Session_set_errhandler(second, session_handler));
    MPI_Errhandler same_handler;
    OK(MPI_Session_get_errhandler(second, &same_handler));
    CHECK(same_handler == session_handler, "another error handler comes back");
    OK(MPI_Errhandler_free(&same_handler));
    OK(MPI_Session_call_errhandler(second, MPI_ERR_OTHER));
    SAME(handled, 3, "calls of the session's error handler");
    SAME(handled_class, MPI_ERR_OTHER, "the class that it gets");
    OK(MPI_Errhandler_free(&comm_handler));
    OK(MPI_Errhandler_free(&session_handler));
    OK(MPI_Type_free(&spread));
    OK(MPI_Op_free(&op));
    OK(MPI_Comm_disconnect(&comm));
    OK(MPI_Session_finalize(&second));
}

static int deleted;

static int on_delete(MPI_Comm comm, int keyval, void *value, void *state)
{
    (void)comm, (void)keyval, (void)value, (void)state;
    deleted++;
    return MPI_SUCCESS;
}

/* What a session's end leaves of objects that were derived from it: another session is there, so MPI runs. */
static void derived(void)
{
    MPI_Session other = open_with(NULL, NULL), ending = open_with(NULL, NULL), copy;
    MPI_Comm comm = everybody(ending), freed = everybody(ending), alive = everybody(other), created;
    MPI_Group group, empty;
    MPI_Request request;
    int keyval, n, buffer = -1;

    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &keyval, NULL));
    OK(MPI_Comm_set_attr(comm, keyval, NULL));
    OK(MPI_Comm_set_attr(freed, keyval, NULL));
    deleted = 0;
    OK(MPI_Comm_free(&freed));
    SAME(deleted, 1, "delete callbacks of a freed communicator");
    OK(MPI_Comm_group(comm, &group));
    OK(MPI_Group_difference(group, group, &empty));
    CHECK(empty == MPI_GROUP_EMPTY, "a difference of a group with itself is not empty");
    /* A collective that only one process calls, and whose messages inside a group are told apart from others. */
    MPI_Request alone = MPI_REQUEST_NULL;
    int one = 1, all = 0;
    if (ranks >= 3) {
        MPI_Comm half, inter;
        OK(MPI_Comm_split(comm, me % 2, me, &half));
        OK(MPI_Intercomm_create(half, 0, comm, 1 - me % 2, 77, &inter));
        if (me == 0)
            OK(MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, inter, &alone));
    }
    /* Never received: the program is wrong, and gets an error. */
    OK(MPI_Irecv(&buffer, 1, MPI_INT, MPI_ANY_SOURCE, 77, comm, &request));
    copy = ending;
    OK(MPI_Session_finalize(&ending));
    CHECK(ending == MPI_SESSION_NULL, "the handle of a finalized session is not null");
    SAME(deleted, 1, "delete callbacks once the session is finalized");
    OK(MPI_Comm_free_keyval(&keyval));

    OK(MPI_Comm_set_errhandler(alive, MPI_ERRORS_RETURN));
    SAME(class_of(MPI_Comm_size(comm, &n)), MPI_ERR_COMM, "a communicator of a finalized session");
    SAME(class_of(MPI_Send(&n, 1, MPI_INT, 0, 0, comm)), MPI_ERR_COMM, "a send on it");
    SAME(class_of(MPI_Comm_free(&comm)), MPI_ERR_COMM, "freeing it");
    SAME(class_of(MPI_Comm_disconnect(&comm)), MPI_ERR_COMM, "disconnecting it");
    SAME(class_of(MPI_Group_size(group, &n)), MPI_ERR_GROUP, "a group of a finalized session");
    SAME(class_of(MPI_Comm_create_from_group(group, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &created)), MPI_ERR_GROUP,
         "a communicator of it");
    SAME(class_of(MPI_Group_free(&group)), MPI_ERR_GROUP, "freeing it");
    SAME(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_SESSION, "a request of a finalized session");
    if (me == 0 && ranks >= 3)
        SAME(class_of(MPI_Wait(&alone, MPI_STATUS_IGNORE)), MPI_ERR_SESSION, "a collective of a finalized session");
    SAME(class_of(MPI_Session_get_num_psets(copy, MPI_INFO_NULL, &n)), MPI_ERR_SESSION, "a finalized session");
    SAME(class_of(MPI_Group_from_session_pset(copy, "mpi://SELF", &group)), MPI_ERR_SESSION, "a group of it");
    SAME(class_of(MPI_Session_finalize(&copy)), MPI_ERR_SESSION, "finalizing it again");
    /* The other one works on. */
    int sum = -1;
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, alive));
    SAME(sum, ranks * (ranks - 1) / 2, "the sum of the ranks");
    OK(MPI_Comm_disconnect(&alive));
    OK(MPI_Session_finalize(&other));
    SAME(class_of(MPI_Session_get_num_psets(other, MPI_INFO_NULL, &n)), MPI_ERR_SESSION, "a null session");
}

/* Freed communicators cost the session's end nothing: they part while it goes on. */
static void many_freed(void)
{
    MPI_Session session = open_with(NULL, NULL);
    MPI_Comm world = everybody(session), copy;
    for (int number = 0; number < 300; number++) {
        int sum = -1;
        OK(MPI_Comm_dup(world, &copy));
        OK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, copy));
        SAME(sum, number * ranks, "a sum on duplicate %d", number);
        OK(MPI_Comm_free(&copy));
    }
    OK(MPI_Session_finalize(&session));
}

static void sets(const char *program)
{
    MPI_Session session = open_with(NULL, NULL);
    int count, len, rank, size;
    char name[MPI_MAX_PSET_NAME_LEN], names[4096] = "", value[MPI_MAX_INFO_VAL];
    MPI_Info info;
    MPI_Group group;
    MPI_Comm comm;

    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    for (int n = 0; n < count; n++) {
        len = sizeof name;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &len, name));
        OK(MPI_Session_get_pset_info(session, name, &info));
        get(info, "mpi_size", value);
        OK(MPI_Info_free(&info));
        OK(MPI_Group_from_session_pset(session, name, &group));
        OK(MPI_Group_size(group, &size));
        SAME(size, atoi(value), "the size of the group of %s", name);
        OK(MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
        int sum = 0, one = 1;
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
        SAME(sum, size, "the members of %s that take part", name);
        OK(MPI_Comm_disconnect(&comm));
        OK(MPI_Group_rank(group, &rank));
        CHECK(rank >= 0, "this process is not in %s", name);
        OK(MPI_Group_free(&group));
        snprintf(names + strlen(names), sizeof names - strlen(names), " %s=%d/%s", name, rank, value);
    }
    SAME(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, &len, name)), MPI_ERR_ARG, "a set too many");
    /* A set of others has a group, too. */
    OK(MPI_Group_from_session_pset(session, "weft://b", &group));
    OK(MPI_Group_size(group, &size));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    printf("%s sees%s and b of %d\n", program, names, size);
}

static void mismatch(void)
{
    MPI_Session session = open_with(NULL, NULL);
    MPI_Group group;
    MPI_Comm comm;
    int rank;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Group_rank(group, &rank));
    MPI_Comm_create_from_group(group, rank == 0 ? "this" : "that", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Barrier(comm);
    printf("process %d came out\n", rank);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "sets") == 0) {
        sets(argv[2]);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "mismatch") == 0) {
        mismatch();
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "kinds") == 0) {
        char value[MPI_MAX_INFO_VAL];
        MPI_Info info;
        MPI_Session session = open_with(NULL, NULL);
        OK(MPI_Session_get_info(session, &info));
        get(info, "mpi_memory_alloc_kinds", value);
        is(value, argv[2], "the launcher's kinds");
        OK(MPI_Info_free(&info));
        OK(MPI_Session_finalize(&session));
        session = open_with("mpi_memory_alloc_kinds", "system");
        OK(MPI_Session_get_info(session, &info));
        get(info, "mpi_memory_alloc_kinds", value);
        is(value, "mpi,system", "kinds of the info, which counts before the launcher");
        OK(MPI_Info_free(&info));
        OK(MPI_Session_finalize(&session));
        MPI_Init(NULL, NULL);
        OK(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
        get(info, "mpi_memory_alloc_kinds", value);
        is(value, argv[2], "the kinds of the World Model");
        OK(MPI_Info_free(&info));
        MPI_Finalize();
        return 0;
    }
    granted();
    survive();
    many_freed();
    derived();
    if (me == 0)
        printf("session_objects: ok with %d ranks\n", ranks);
    return 0;
}
