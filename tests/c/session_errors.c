/* Bad input to what sessions have: the right class, and words that name what was wrong. Run with the initial error
 * handler MPI_ERRORS_RETURN, as some of these errors belong to no object. */
#include "check.h"

#include <pthread.h>

static void wrong(int code, int class, const char *words)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;
    SAME(class_of(code), class, "the class of '%s'", words);
    MPI_Error_string(code, text, &len);
    CHECK(strstr(text, words) != NULL, "'%s' is not in '%s'", words, text);
}

static int calls, last_class;

static void on_session(MPI_Session *session, int *code, ...)
{
    CHECK(*session == MPI_SESSION_NULL, "the handler of a session that was not made gets a session");
    calls++;
    last_class = class_of(*code);
}

static void on_comm(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    calls++;
    last_class = class_of(*code);
}

static void before(MPI_Session session)
{
    MPI_Group group;
    MPI_Info info;
    MPI_Errhandler handler;
    char name[64];
    int n = 0;

    wrong(MPI_Session_get_info(session, &info), MPI_ERR_SESSION, "session");
    wrong(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n), MPI_ERR_SESSION, "session");
    wrong(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &n, name), MPI_ERR_SESSION, "session");
    wrong(MPI_Session_get_pset_info(session, "mpi://SELF", &info), MPI_ERR_SESSION, "session");
    wrong(MPI_Group_from_session_pset(session, "mpi://SELF", &group), MPI_ERR_SESSION, "session");
    wrong(MPI_Session_get_errhandler(session, &handler), MPI_ERR_SESSION, "session");
    wrong(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN), MPI_ERR_SESSION, "session");
    wrong(MPI_Session_call_errhandler(session, MPI_ERR_OTHER), MPI_ERR_SESSION, "session");
    wrong(MPI_Session_finalize(&session), MPI_ERR_SESSION, "session");
}

static void init(void)
{
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Errhandler handler, of_comm;
    MPI_Info info, gone;

    MPI_Session_create_errhandler(on_session, &handler);
    MPI_Comm_create_errhandler(on_comm, &of_comm);
    MPI_Info_create(&info);
    gone = info;
    MPI_Info_set(info, "thread_level", "MPI_THREAD_SOME");
    wrong(MPI_Session_init(info, MPI_ERRORS_RETURN, &session), MPI_ERR_INFO_VALUE, "MPI_THREAD_SOME");
    wrong(MPI_Session_init(info, MPI_ERRORS_RETURN, &session), MPI_ERR_INFO_VALUE, "MPI_THREAD_MULTIPLE");
    calls = 0;
    wrong(MPI_Session_init(info, handler, &session), MPI_ERR_INFO_VALUE, "thread_level");
    SAME(calls, 1, "calls of the error handler of MPI_Session_init");
    SAME(last_class, MPI_ERR_INFO_VALUE, "the class that it gets");
    MPI_Info_free(&info);
    wrong(MPI_Session_init(gone, handler, &session), MPI_ERR_INFO, "info");
    wrong(MPI_Session_init(MPI_INFO_NULL, handler, NULL), MPI_ERR_ARG, "session");
    SAME(calls, 3, "calls of the error handler of MPI_Session_init");
    wrong(MPI_Session_init(MPI_INFO_NULL, of_comm, &session), MPI_ERR_ERRHANDLER, "Session");
    wrong(MPI_Session_init(MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &session), MPI_ERR_ERRHANDLER, "MPI_ERRHANDLER_NULL");
    CHECK(session == MPI_SESSION_NULL, "a session that was not made has a handle");
    MPI_Errhandler_free(&handler);
    MPI_Errhandler_free(&of_comm);
    before(MPI_SESSION_NULL);
}

static void tags_and_sets(MPI_Session session)
{
    MPI_Group group, self, others;
    MPI_Comm comm = MPI_COMM_SELF;
    MPI_Errhandler handler;
    MPI_Info info;
    char tag[MPI_MAX_STRINGTAG_LEN + 1];
    int n, size;

    wrong(MPI_Group_from_session_pset(session, "mpi://EVERYBODY", &group), MPI_ERR_ARG, "mpi://EVERYBODY");
    CHECK(group == MPI_GROUP_NULL, "the group of an unknown process set is not null");
    wrong(MPI_Session_get_pset_info(session, "nowhere", &info), MPI_ERR_ARG, "mpi://WORLD");
    wrong(MPI_Session_get_pset_info(session, "\xff", &info), MPI_ERR_ARG, "UTF-8");
    wrong(MPI_Session_get_pset_info(session, NULL, &info), MPI_ERR_ARG, "pset_name");
    wrong(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &n, tag), MPI_ERR_ARG, "-1");
    n = -1;
    wrong(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &n, tag), MPI_ERR_ARG, "pset_len");
    n = 4;
    OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &n, tag));
    CHECK(strcmp(tag, "mpi") == 0 && n == 12, "a name cut to 4 bytes is '%s' of %d", tag, n);

    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &self));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    wrong(MPI_Comm_create_from_group(self, "", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG, "0 bytes");
    wrong(MPI_Comm_create_from_group(self, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG, "stringtag");
    memset(tag, 'x', sizeof tag);
    tag[MPI_MAX_STRINGTAG_LEN] = 0;
    wrong(MPI_Comm_create_from_group(self, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG,
          "MPI_MAX_STRINGTAG_LEN");
    tag[MPI_MAX_STRINGTAG_LEN - 1] = 0;
    OK(MPI_Comm_create_from_group(self, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Comm_size(comm, &size));
    SAME(size, 1, "the size of a communicator of this process alone");
    OK(MPI_Comm_disconnect(&comm));

    /* The handler that the communicator would have had gets the error. */
    MPI_Comm_create_errhandler(on_comm, &handler);
    calls = 0;
    wrong(MPI_Comm_create_from_group(self, "", MPI_INFO_NULL, handler, &comm), MPI_ERR_ARG, "stringtag");
    SAME(calls, 1, "calls of the error handler of MPI_Comm_create_from_group");
    wrong(MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, handler, &comm), MPI_ERR_GROUP,
          "MPI_GROUP_NULL");
    wrong(MPI_Comm_create_from_group(self, "x", MPI_INFO_NULL, handler, NULL), MPI_ERR_ARG, "newcomm");
    MPI_Errhandler_free(&handler);
    OK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK(comm == MPI_COMM_NULL, "a communicator of nobody is not null");
    OK(MPI_Group_difference(group, self, &others));
    if (others != MPI_GROUP_EMPTY) {
        wrong(MPI_Comm_create_from_group(others, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_GROUP,
              "not in the group");
        OK(MPI_Group_free(&others));
    }
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&self));
}

/* Two threads finalize one session: one of them does. */
static pthread_barrier_t both;

static void *finalize(void *handle)
{
    MPI_Session session = *(MPI_Session *)handle;
    pthread_barrier_wait(&both);
    return (void *)(intptr_t)class_of(MPI_Session_finalize(&session));
}

static void twice(void)
{
    pthread_barrier_init(&both, NULL, 2);
    for (int round = 0; round < 200; round++) {
        MPI_Session session;
        pthread_t threads[2];
        void *classes[2];
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
        for (int at = 0; at < 2; at++)
            pthread_create(&threads[at], NULL, finalize, &session);
        for (int at = 0; at < 2; at++)
            pthread_join(threads[at], &classes[at]);
        SAME((intptr_t)classes[0] + (intptr_t)classes[1], MPI_ERR_SESSION, "one success and one class");
    }
    pthread_barrier_destroy(&both);
}

int main(void)
{
    MPI_Session session, copy, first;
    MPI_Comm comm;
    MPI_Group group;
    int n;

    init();
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    init();
    tags_and_sets(session);
    copy = session;
    wrong(MPI_Session_finalize(NULL), MPI_ERR_ARG, "session");
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Group_size(group, &ranks));
    OK(MPI_Group_rank(group, &me));
    OK(MPI_Comm_create_from_group(group, "left", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Session_finalize(&session));
    /* MPI does not run any more: what is left over is an error, and not a crash. */
    before(copy);
    wrong(MPI_Session_finalize(&session), MPI_ERR_SESSION, "MPI_SESSION_NULL");
    SAME(class_of(MPI_Comm_rank(comm, &n)), MPI_ERR_OTHER, "a communicator where MPI does not run");
    SAME(class_of(MPI_Group_size(group, &n)), MPI_ERR_OTHER, "a group where MPI does not run");
    SAME(class_of(MPI_Comm_create_from_group(group, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm)), MPI_ERR_GROUP,
         "a communicator of a group where MPI does not run");
    /* A handle of the session before is not one of the next. */
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &first));
    before(copy);
    OK(MPI_Session_get_num_psets(first, MPI_INFO_NULL, &n));
    OK(MPI_Session_finalize(&first));
    twice();
    if (me == 0)
        printf("session_errors: ok with %d ranks\n", ranks);
    return 0;
}
