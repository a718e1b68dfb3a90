/* What attribute callbacks may do: fail, on some ranks or on all, and call MPI, also on attributes of the same object. */
#include "check.h"

/* Copies that were made and not yet deleted. */
static int live;
static char space[100];
/* What the failing callbacks return, if not MPI_SUCCESS. */
static int copy_result, delete_result;
static MPI_Comm parent;

static int counting_copy(MPI_Comm comm, int key, void *extra, void *value, void *new, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)new = value;
    *flag = 1;
    live++;
    return MPI_SUCCESS;
}

/* Whatever communicator this is for, it can be asked. */
static int counting_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    int size, flag;
    void *seen;
    (void)extra;
    OK(MPI_Comm_size(comm, &size));
    SAME(size, ranks, "size of the communicator of a delete callback");
    OK(MPI_Comm_get_attr(comm, key, &seen, &flag));
    CHECK(flag && seen == value, "the attribute that is being deleted can't be read");
    live--;
    return MPI_SUCCESS;
}

static int failing_copy(MPI_Comm comm, int key, void *extra, void *value, void *new, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)new = value;
    *flag = 1;
    live += copy_result == MPI_SUCCESS;
    return copy_result;
}

static int failing_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    live -= delete_result == MPI_SUCCESS;
    return delete_result;
}

static void has(int line, MPI_Comm comm, int key, void *expected)
{
    void *value = NULL;
    int flag = -1;
    succeeded(__FILE__, line, MPI_Comm_get_attr(comm, key, &value, &flag), "MPI_Comm_get_attr");
    same(__FILE__, line, flag, expected != NULL, "flag of MPI_Comm_get_attr");
    if (value != expected)
        fail(__FILE__, line, "the attribute is %p, not %p", value, expected);
}

#define HAS(comm, key, expected) has(__LINE__, comm, key, expected)

static int duplicate(int how, MPI_Comm comm, MPI_Comm *new)
{
    MPI_Request request;
    int code;
    switch (how) {
    case 0:
        return MPI_Comm_dup(comm, new);
    case 1:
        return MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, new);
    case 2:
        code = MPI_Comm_idup(comm, new, &request);
        break;
    default:
        code = MPI_Comm_idup_with_info(comm, MPI_INFO_NULL, new, &request);
    }
    return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A copy callback fails on one rank, or on all: so does the duplication, on all, and nothing is left behind. */
static void failing_copies(void)
{
    MPI_Comm new;
    int keys[3], own_code, length;
    char text[MPI_MAX_ERROR_STRING], rank[32];
    OK(MPI_Add_error_code(MPI_ERR_BUFFER, &own_code));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_create_keyval(i == 1 ? failing_copy : counting_copy, i == 1 ? failing_delete : counting_delete,
                                  &keys[i], NULL));
        OK(MPI_Comm_set_attr(parent, keys[i], space + i));
    }
    /* Rank `ranks` stands for all. */
    for (int failing = 0; failing <= ranks; failing++)
        for (int how = 0; how < 4; how++) {
            int fails = failing == me || failing == ranks;
            copy_result = !fails ? MPI_SUCCESS : how % 2 ? own_code : MPI_ERR_RANK;
            live = 0;
            new = MPI_COMM_NULL;
            int code = duplicate(how, parent, &new);
            CHECK(code != MPI_SUCCESS, "way %d to duplicate succeeds though a copy callback failed at %d", how, failing);
            MPI_Error_string(code, text, &length);
            if (!fails) {
                snprintf(rank, sizeof rank, "at rank %d", failing);
                SAME(class_of(code), MPI_ERR_OTHER, "class where another rank's callback failed");
                CHECK(strstr(text, "copy callback failed") && strstr(text, rank), "the text is: %s", text);
            } else if (how % 2) {
                SAME(code, own_code, "the code that the callback returned");
                SAME(class_of(code), MPI_ERR_BUFFER, "class of a code of the user's");
            } else {
                SAME(class_of(code), MPI_ERR_RANK, "class that the callback returned");
                CHECK(strstr(text, "MPI_Comm_") == text && strstr(text, "copy callback"), "the text is: %s", text);
            }
            SAME(live, 0, "copies that were not deleted");
            for (int i = 0; i < 3; i++)
                HAS(parent, keys[i], space + i);
        }
    copy_result = delete_result = MPI_SUCCESS;
    for (int how = 0; how < 4; how++) {
        OK(duplicate(how, parent, &new));
        SAME(live, 3, "copies");
        together(new);
        OK(MPI_Comm_free(&new));
        SAME(live, 0, "copies after the communicator was freed");
    }
    OK(MPI_Comm_free(&parent));
    for (int i = 0; i < 3; i++)
        OK(MPI_Comm_free_keyval(&keys[i]));
    OK(MPI_Remove_error_code(own_code));
}

/* A delete callback fails: so does what called it, and the attribute stays. */
static void failing_deletes(void)
{
    MPI_Comm comm, handle;
    int before, key;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &before, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, failing_delete, &key, NULL));
    OK(MPI_Comm_set_attr(comm, before, space));
    OK(MPI_Comm_set_attr(comm, key, space + 1));
    delete_result = MPI_ERR_RANK;
    ERROR(MPI_ERR_RANK, MPI_Comm_delete_attr(comm, key), "delete callback", hex(key));
    HAS(comm, key, space + 1);
    ERROR(MPI_ERR_RANK, MPI_Comm_set_attr(comm, key, space + 2), "delete callback", hex(key));
    HAS(comm, key, space + 1);
    handle = comm;
    ERROR(MPI_ERR_RANK, MPI_Comm_free(&comm), "delete callback", hex(key));
    CHECK(comm == handle, "a communicator that was not freed lost its handle");
    HAS(comm, key, space + 1);
    HAS(comm, before, space);
    together(comm);
    /* Only rank 0 fails to disconnect at first; the others wait for it. */
    delete_result = me == 0 ? MPI_ERR_RANK : MPI_SUCCESS;
    if (me == 0) {
        ERROR(MPI_ERR_RANK, MPI_Comm_disconnect(&comm), "delete callback", hex(key));
        CHECK(comm == handle, "a communicator that was not disconnected lost its handle");
        HAS(comm, key, space + 1);
        delete_result = MPI_SUCCESS;
    }
    OK(MPI_Comm_disconnect(&comm));
    CHECK(comm == MPI_COMM_NULL, "MPI_Comm_disconnect left the handle");
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Comm_free_keyval(&before));
}

static int type_copy(MPI_Datatype type, int key, void *extra, void *value, void *new, int *flag)
{
    (void)type;
    return failing_copy(MPI_COMM_NULL, key, extra, value, new, flag);
}

static int type_delete(MPI_Datatype type, int key, void *value, void *extra)
{
    int size;
    (void)key, (void)value, (void)extra;
    OK(MPI_Type_size(type, &size));
    live -= delete_result == MPI_SUCCESS;
    return delete_result;
}

static void failing_on_datatypes(void)
{
    MPI_Datatype old, new = MPI_INT, handle;
    int first, second, flag;
    void *value;
    live = 0;
    copy_result = delete_result = MPI_SUCCESS;
    OK(MPI_Type_create_keyval(type_copy, type_delete, &first, NULL));
    OK(MPI_Type_create_keyval(type_copy, type_delete, &second, NULL));
    OK(MPI_Type_contiguous(2, MPI_INT, &old));
    OK(MPI_Type_set_attr(old, first, space));
    OK(MPI_Type_dup(old, &new));
    SAME(live, 1, "copies");
    OK(MPI_Type_free(&new));
    SAME(live, 0, "copies after the type was freed");
    copy_result = MPI_ERR_COUNT;
    ERROR(MPI_ERR_COUNT, MPI_Type_dup(old, &new), "copy callback", hex(first));
    CHECK(new == MPI_DATATYPE_NULL, "a type that was not made has a handle");
    SAME(live, 0, "copies that were not deleted");
    delete_result = MPI_ERR_COUNT;
    ERROR(MPI_ERR_COUNT, MPI_Type_delete_attr(old, first), "delete callback", hex(first));
    ERROR(MPI_ERR_COUNT, MPI_Type_set_attr(old, first, space + 1), "delete callback", hex(first));
    handle = old;
    ERROR(MPI_ERR_COUNT, MPI_Type_free(&old), "delete callback", hex(first));
    CHECK(old == handle, "a type that was not freed lost its handle");
    OK(MPI_Type_get_attr(old, first, &value, &flag));
    CHECK(flag && value == space, "the attribute of a type that was not freed is gone");
    delete_result = MPI_SUCCESS;
    OK(MPI_Type_free(&old));
    OK(MPI_Type_free_keyval(&first));
    OK(MPI_Type_free_keyval(&second));
}

/* Keys of the callbacks that call MPI. */
static int busy_key, other_key;

static void communicate(MPI_Comm comm)
{
    int sum, one = 1;
    MPI_Comm copy;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, ranks, "sum inside a callback");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    together(copy);
    OK(MPI_Comm_free(&copy));
}

/* Reads, replaces and deletes attributes of the object that is being duplicated, its own among them. */
static int busy_copy(MPI_Comm comm, int key, void *extra, void *value, void *new, int *flag)
{
    (void)extra;
    communicate(comm);
    HAS(comm, key, value);
    OK(MPI_Comm_set_attr(comm, other_key, space + 11));
    HAS(comm, other_key, space + 11);
    OK(MPI_Comm_set_attr(comm, other_key, space + 12));
    OK(MPI_Comm_delete_attr(comm, key));
    HAS(comm, key, NULL);
    *(void **)new = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

/* Reads what goes, deletes it once more, which is nothing any more, sets another, and frees its own key. */
static int busy_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)extra;
    if (comm == parent)
        return MPI_SUCCESS;
    communicate(comm);
    HAS(comm, key, value);
    OK(MPI_Comm_delete_attr(comm, key));
    OK(MPI_Comm_set_attr(comm, other_key, space + 20));
    live++;
    SAME(key, busy_key, "key of the callback");
    OK(MPI_Comm_free_keyval(&busy_key));
    return MPI_SUCCESS;
}

static void callbacks_call_mpi(int how)
{
    MPI_Comm new;
    live = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    OK(MPI_Comm_create_keyval(busy_copy, busy_delete, &busy_key, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, counting_delete, &other_key, NULL));
    OK(MPI_Comm_set_attr(parent, busy_key, space + 1));
    OK(duplicate(how, parent, &new));
    SAME(live, -1, "replaced while the callback ran");
    live = 0;
    int number = busy_key, flag;
    void *value;
    HAS(new, busy_key, space + 2);
    HAS(new, other_key, NULL);
    HAS(parent, busy_key, NULL);
    HAS(parent, other_key, space + 12);
    /* What the delete callback sets goes with the communicator, too. */
    OK(MPI_Comm_free(&new));
    SAME(live, 0, "attribute that a delete callback set");
    SAME(busy_key, MPI_KEYVAL_INVALID, "key that its own callback freed");
    ERROR(MPI_ERR_KEYVAL, MPI_Comm_get_attr(parent, number, &value, &flag), "not valid");
    live = 1;
    OK(MPI_Comm_free(&parent));
    SAME(live, 0, "attribute that a copy callback set");
    OK(MPI_Comm_free_keyval(&other_key));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    failing_copies();
    failing_deletes();
    failing_on_datatypes();
    for (int how = 0; how < 4; how++)
        callbacks_call_mpi(how);
    return end("attribute_callbacks");
}
