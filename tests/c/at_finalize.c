/* What the user has MPI do at its end: delete callbacks of MPI_COMM_SELF. "order": when they are called, and what they may
 * do. "fails": one fails. "sessions": at the end of a session none is called. */
#include "check.h"

static int called[16], n_called;

/* All of MPI works here, as at any other time. */
static void use_everything(void)
{
    int initialized, finalized, rank, sum, one = 1, got = -1, flag, key;
    void *value;
    MPI_Comm copy;
    MPI_Session session;
    MPI_Datatype type;
    OK(MPI_Initialized(&initialized));
    OK(MPI_Finalized(&finalized));
    SAME(initialized, 1, "MPI_Initialized inside Finalize");
    SAME(finalized, 0, "MPI_Finalized inside Finalize");
    OK(MPI_Comm_rank(MPI_COMM_SELF, &rank));
    SAME(rank, 0, "rank in MPI_COMM_SELF");
    OK(MPI_Comm_get_attr(MPI_COMM_SELF, MPI_TAG_UB, &value, &flag));
    SAME(flag, 1, "flag of MPI_TAG_UB");
    OK(MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % ranks, 1, &got, 1, MPI_INT, (me + ranks - 1) % ranks, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    SAME(got, (me + ranks - 1) % ranks, "message of the rank to the left");
    OK(MPI_Sendrecv(&me, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    SAME(got, me, "message to itself");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy));
    SAME(sum, ranks, "sum inside Finalize");
    OK(MPI_Comm_free(&copy));
    OK(MPI_Type_contiguous(5, MPI_INT, &type));
    OK(MPI_Type_free(&type));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Session_finalize(&session));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &key));
    OK(MPI_Comm_delete_attr(MPI_COMM_SELF, key));
    OK(MPI_Comm_free_keyval(&key));
}

/* The extra state is the number of the key. */
static int note(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)key, (void)value;
    CHECK(comm == MPI_COMM_SELF, "the callback got another communicator");
    use_everything();
    called[n_called++] = (int)(intptr_t)extra;
    return MPI_SUCCESS;
}

static int last_key;

/* MPI_COMM_SELF is through when this is called, and gets another attribute all the same. */
static int note_of_world(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)key, (void)value;
    CHECK(comm == MPI_COMM_WORLD, "the callback got another communicator");
    called[n_called++] = (int)(intptr_t)extra;
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, last_key, NULL));
    return MPI_SUCCESS;
}

static int late_key;

/* Sets one more, under a key that was there and under one that is new. */
static int set_more(MPI_Comm comm, int key, void *value, void *extra)
{
    int new_key;
    ERROR(MPI_ERR_OTHER, MPI_Finalize(), "running already");
    note(comm, key, value, extra);
    OK(MPI_Comm_set_attr(comm, late_key, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note, &new_key, (void *)21));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, new_key, NULL));
    OK(MPI_Comm_free_keyval(&new_key));
    return MPI_SUCCESS;
}

static int new_key(MPI_Comm_delete_attr_function *function, int number)
{
    int key;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, function, &key, (void *)(intptr_t)number));
    return key;
}

static void last_set_first_called(void)
{
    int finalized, keys[6];
    for (int i = 0; i < 6; i++)
        keys[i] = new_key(i == 3 ? set_more : note, i);
    late_key = new_key(note, 20);
    last_key = new_key(note, 31);
    int of_world = new_key(note_of_world, 30), never_set = new_key(note, 40);
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, of_world, NULL));
    /* Not in the order of the keys. */
    const int order[] = {4, 1, 0, 3, 5, 2};
    for (int i = 0; i < 6; i++)
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, keys[order[i]], NULL));
    /* 1 is set again, and so is now the last; 0 is no more. */
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, keys[1], NULL));
    OK(MPI_Comm_delete_attr(MPI_COMM_SELF, keys[0]));
    SAME(n_called, 2, "callbacks of what was replaced and deleted");
    n_called = 0;
    /* A key that the user has freed is in use all the same. */
    for (int i = 0; i < 6; i++)
        OK(MPI_Comm_free_keyval(&keys[i]));
    CHECK(never_set != MPI_KEYVAL_INVALID, "a key that is not used at all is not valid");
    OK(MPI_Finalize());
    OK(MPI_Finalized(&finalized));
    SAME(finalized, 1, "MPI_Finalized after Finalize");
    const int expected[] = {1, 2, 5, 3, 21, 20, 4, 30, 31};
    SAME(n_called, (int)(sizeof expected / sizeof *expected), "callbacks at Finalize");
    for (int i = 0; i < n_called; i++)
        SAME(called[i], expected[i], "callback %d", i);
}

static int failing;

static int fail_once(MPI_Comm comm, int key, void *value, void *extra)
{
    note(comm, key, value, extra);
    return failing ? MPI_ERR_COUNT : MPI_SUCCESS;
}

/* Finalize fails before anything of MPI has gone, so it can be called again. Others wait for who has to. */
static void finalize_fails(void)
{
    int finalized;
    int first = new_key(note, 1), second = new_key(fail_once, 2), third = new_key(note, 3);
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, first, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, second, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, third, NULL));
    failing = 1;
    ERROR(MPI_ERR_COUNT, MPI_Finalize(), "delete callback");
    OK(MPI_Finalized(&finalized));
    SAME(finalized, 0, "MPI_Finalized after Finalize failed");
    use_everything();
    failing = 0;
    OK(MPI_Finalize());
    const int expected[] = {3, 2, 2, 1};
    SAME(n_called, 4, "callbacks at Finalize");
    for (int i = 0; i < 4; i++)
        SAME(called[i], expected[i], "callback %d", i);
}

static int count(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    n_called++;
    return failing ? MPI_ERR_COUNT : MPI_SUCCESS;
}

/* Copies for all ranks but the last. */
static int copy_for_most(MPI_Comm comm, int key, void *extra, void *value, void *new, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)new = value;
    *flag = 1;
    return failing && me == ranks - 1 ? MPI_ERR_COUNT : MPI_SUCCESS;
}

/* Callbacks come where a communicator is freed or disconnected, not where its session ends. */
static void a_session_ends_without(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comms[3], copy;
    int key;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_keyval(copy_for_most, count, &key, NULL));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_create_from_group(group, "weft.at_finalize", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comms[i]));
        OK(MPI_Comm_set_attr(comms[i], key, NULL));
    }
    OK(MPI_Comm_rank(comms[0], &me));
    OK(MPI_Comm_size(comms[0], &ranks));
    OK(MPI_Comm_dup(comms[0], &copy));
    SAME(n_called, 0, "callbacks before anything was freed");
    OK(MPI_Comm_free(&copy));
    SAME(n_called, 1, "callbacks when the copy was freed");
    /* Errors are the communicator's. There is no MPI_COMM_SELF whose handler could get them, and end the job. */
    failing = 1;
    ERROR(MPI_ERR_COUNT, MPI_Comm_free(&comms[0]), "delete callback");
    ERROR(MPI_ERR_COUNT, MPI_Comm_disconnect(&comms[0]), "delete callback");
    int class = me == ranks - 1 ? MPI_ERR_COUNT : MPI_ERR_OTHER;
    ERROR(class, MPI_Comm_dup(comms[1], &copy), "copy callback");
    MPI_Request request;
    if (me == ranks - 1)
        ERROR(class, MPI_Comm_idup(comms[1], &copy, &request), "copy callback");
    else {
        OK(MPI_Comm_idup(comms[1], &copy, &request));
        ERROR(class, MPI_Wait(&request, MPI_STATUS_IGNORE), "copy callback");
    }
    failing = 0;
    n_called = 1;
    OK(MPI_Comm_free(&comms[0]));
    SAME(n_called, 2, "callbacks when a communicator was freed");
    OK(MPI_Comm_disconnect(&comms[1]));
    SAME(n_called, 3, "callbacks when a communicator was disconnected");
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    SAME(n_called, 3, "callbacks at the end of the session");
    /* The key is there still: it belongs to no session. */
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "weft.at_finalize", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comms[0]));
    OK(MPI_Comm_set_attr(comms[0], key, NULL));
    OK(MPI_Comm_disconnect(&comms[0]));
    SAME(n_called, 4, "callbacks in the next session");
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "order";
    if (strcmp(what, "sessions") == 0)
        a_session_ends_without();
    else {
        begin(&argc, &argv);
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
        if (strcmp(what, "fails") == 0)
            finalize_fails();
        else
            last_set_first_called();
    }
    if (me == 0)
        printf("at_finalize: ok with %d ranks\n", ranks);
    return 0;
}
