/* Attributes that are set, read, copied and deleted as the user says: on communicators, datatypes, and by the deprecated
 * names; predefined ones; keys that are freed; keys that are wrong. (What callbacks may do: attribute_callbacks.c.) */
#include "check.h"

/* What the callbacks were called with. */
static struct {
    char what;
    uintptr_t object;
    int key;
    char *value;
    void *extra;
} calls[64];
static int n_calls;

static void note(char what, uintptr_t object, int key, void *value, void *extra)
{
    CHECK(n_calls < 64, "too many calls of callbacks");
    calls[n_calls].what = what;
    calls[n_calls].object = object;
    calls[n_calls].key = key;
    calls[n_calls].value = value;
    calls[n_calls++].extra = extra;
}

/* Just one call was such a one. */
static void called(int line, char what, uintptr_t object, int key, char *value, void *extra)
{
    int found = 0;
    for (int i = 0; i < n_calls; i++)
        found += calls[i].what == what && calls[i].object == object && calls[i].key == key &&
                 calls[i].value == value && calls[i].extra == extra;
    if (found != 1)
        fail(__FILE__, line, "of %d calls %d are '%c' of object %#lx, key %#x, value %p", n_calls, found, what,
             (unsigned long)object, (unsigned)key, (void *)value);
}

#define CALLED(what, object, key, value, extra) called(__LINE__, what, (uintptr_t)(object), key, value, extra)

/* So many calls since the last time. */
static void called_times(int line, int times)
{
    same(__FILE__, line, n_calls, times, "calls of callbacks");
    n_calls = 0;
}

#define CALLED_TIMES(times) called_times(__LINE__, times)

static char extra[8], space[100];

/* A copy is the next byte. */
static int copy(MPI_Comm comm, int key, void *extra_state, void *value, void *new, int *flag)
{
    note('c', (uintptr_t)comm, key, value, extra_state);
    *(char **)new = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int copy_not(MPI_Comm comm, int key, void *extra_state, void *value, void *new, int *flag)
{
    note('n', (uintptr_t)comm, key, value, extra_state);
    *(char **)new = NULL;
    *flag = 0;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra_state)
{
    note('d', (uintptr_t)comm, key, value, extra_state);
    return MPI_SUCCESS;
}

static int copy_type(MPI_Datatype type, int key, void *extra_state, void *value, void *new, int *flag)
{
    note('c', (uintptr_t)type, key, value, extra_state);
    *(char **)new = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_type(MPI_Datatype type, int key, void *value, void *extra_state)
{
    note('d', (uintptr_t)type, key, value, extra_state);
    return MPI_SUCCESS;
}

/* The communicator has this under the key; NULL: nothing. */
static void has(int line, MPI_Comm comm, int key, char *expected)
{
    char *value = extra;
    int flag = -1;
    succeeded(__FILE__, line, MPI_Comm_get_attr(comm, key, &value, &flag), "MPI_Comm_get_attr");
    same(__FILE__, line, flag, expected != NULL, "flag of MPI_Comm_get_attr");
    if (value != (expected != NULL ? expected : extra))
        fail(__FILE__, line, "the attribute is %p, not %p", (void *)value, (void *)expected);
}

#define HAS(comm, key, expected) has(__LINE__, comm, key, expected)

static int key_of(MPI_Comm_copy_attr_function *copy_fn, int with_delete, void *extra_state)
{
    int key = MPI_KEYVAL_INVALID;
    OK(MPI_Comm_create_keyval(copy_fn, with_delete ? delete : MPI_COMM_NULL_DELETE_FN, &key, extra_state));
    CHECK(key != MPI_KEYVAL_INVALID, "MPI_Comm_create_keyval gives MPI_KEYVAL_INVALID");
    return key;
}

static void keys_are_unique(void)
{
    static int keys[1000] = {MPI_KEYVAL_INVALID};
    for (int i = 0; i < 1000; i++) {
        keys[i] = key_of(MPI_COMM_NULL_COPY_FN, 0, NULL);
        OK(MPI_Comm_set_attr(MPI_COMM_WORLD, keys[i], &keys[i]));
    }
    /* Two equal ones would now have one value. */
    for (int i = 0; i < 1000; i++)
        HAS(MPI_COMM_WORLD, keys[i], (char *)&keys[i]);
    for (int i = 0; i < 1000; i++) {
        OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, keys[i]));
        OK(MPI_Comm_free_keyval(&keys[i]));
        SAME(keys[i], MPI_KEYVAL_INVALID, "a freed key");
    }
}

static void values_are_kept(void)
{
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    int key = key_of(copy, 1, extra), flag;
    HAS(comm, key, NULL);
    OK(MPI_Comm_delete_attr(comm, key));
    OK(MPI_Comm_set_attr(comm, key, space));
    HAS(comm, key, space);
    HAS(MPI_COMM_WORLD, key, NULL);
    HAS(MPI_COMM_SELF, key, NULL);
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, space + 50));
    HAS(comm, key, space);
    HAS(MPI_COMM_SELF, key, space + 50);
    OK(MPI_Comm_delete_attr(MPI_COMM_SELF, key));
    CALLED('d', MPI_COMM_SELF, key, space + 50, extra);
    CALLED_TIMES(1);
    /* One value in place of another: the old one is deleted first. */
    OK(MPI_Comm_set_attr(comm, key, space + 1));
    CALLED('d', comm, key, space, extra);
    CALLED_TIMES(1);
    HAS(comm, key, space + 1);
    OK(MPI_Comm_delete_attr(comm, key));
    CALLED('d', comm, key, space + 1, extra);
    CALLED_TIMES(1);
    HAS(comm, key, NULL);
    /* A communicator that is younger than the key. */
    MPI_Comm younger;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &younger));
    HAS(younger, key, NULL);
    OK(MPI_Comm_set_attr(younger, key, space + 2));
    HAS(younger, key, space + 2);
    OK(MPI_Comm_free(&younger));
    CALLED_TIMES(1);
    /* A null pointer is a value, too. */
    char *value = space;
    OK(MPI_Comm_set_attr(comm, key, NULL));
    OK(MPI_Comm_get_attr(comm, key, &value, &flag));
    CHECK(flag && value == NULL, "the null pointer that was set is not there");
    OK(MPI_Comm_free(&comm));
    CALLED_TIMES(1);
    OK(MPI_Comm_free_keyval(&key));
}

static MPI_Request pending;

/* The four ways to a duplicate. */
static MPI_Comm begin_duplicate(MPI_Comm comm, int how)
{
    MPI_Comm new = MPI_COMM_NULL;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    pending = MPI_REQUEST_NULL;
    switch (how) {
    case 0:
        OK(MPI_Comm_dup(comm, &new));
        break;
    case 1:
        OK(MPI_Comm_idup(comm, &new, &pending));
        break;
    case 2:
        OK(MPI_Comm_dup_with_info(comm, info, &new));
        break;
    default:
        OK(MPI_Comm_idup_with_info(comm, info, &new, &pending));
    }
    OK(MPI_Info_free(&info));
    return new;
}

static void copied_at_duplication(int how)
{
    MPI_Comm parent, new;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    int own = key_of(copy, 1, extra), never = key_of(MPI_COMM_NULL_COPY_FN, 1, extra + 1);
    int always = key_of(MPI_COMM_DUP_FN, 1, extra + 2), refused = key_of(copy_not, 1, extra + 3);
    int gone = key_of(copy, 1, extra + 4), later = key_of(copy, 1, extra + 5);
    OK(MPI_Comm_set_attr(parent, own, space));
    OK(MPI_Comm_set_attr(parent, never, space + 10));
    OK(MPI_Comm_set_attr(parent, always, space + 20));
    OK(MPI_Comm_set_attr(parent, refused, space + 30));
    OK(MPI_Comm_set_attr(parent, gone, space + 40));
    OK(MPI_Comm_delete_attr(parent, gone));
    CALLED_TIMES(1);
    new = begin_duplicate(parent, how);
    CALLED('c', parent, own, space, extra);
    CALLED('n', parent, refused, space + 30, extra + 3);
    CALLED_TIMES(2);
    /* What changes now is not copied, not even where the duplicate is still in the making. */
    OK(MPI_Comm_set_attr(parent, own, space + 5));
    OK(MPI_Comm_set_attr(parent, later, space + 60));
    CALLED_TIMES(1);
    OK(MPI_Wait(&pending, MPI_STATUS_IGNORE));
    HAS(new, own, space + 1);
    HAS(new, never, NULL);
    HAS(new, always, space + 20);
    HAS(new, refused, NULL);
    HAS(new, gone, NULL);
    HAS(new, later, NULL);
    HAS(parent, own, space + 5);
    HAS(parent, never, space + 10);
    HAS(parent, always, space + 20);
    HAS(parent, refused, space + 30);
    together(new);
    MPI_Comm handle = new;
    /* All that are set are deleted with their communicator, either way. */
    if (how % 2 == 0)
        OK(MPI_Comm_free(&new));
    else
        OK(MPI_Comm_disconnect(&new));
    CALLED('d', handle, own, space + 1, extra);
    CALLED('d', handle, always, space + 20, extra + 2);
    CALLED_TIMES(2);
    handle = parent;
    OK(MPI_Comm_free(&parent));
    CALLED('d', handle, own, space + 5, extra);
    CALLED('d', handle, never, space + 10, extra + 1);
    CALLED('d', handle, always, space + 20, extra + 2);
    CALLED('d', handle, refused, space + 30, extra + 3);
    CALLED('d', handle, later, space + 60, extra + 5);
    CALLED_TIMES(5);
    int *all[] = {&own, &never, &always, &refused, &gone, &later};
    for (int i = 0; i < 6; i++)
        OK(MPI_Comm_free_keyval(all[i]));
}

/* Other ways to a new communicator copy nothing. */
static void copied_at_no_other_time(void)
{
    MPI_Comm parent, new[5];
    MPI_Group group;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    int own = key_of(copy, 1, extra), always = key_of(MPI_COMM_DUP_FN, 1, extra);
    OK(MPI_Comm_set_attr(parent, own, space));
    OK(MPI_Comm_set_attr(parent, always, space));
    OK(MPI_Comm_group(parent, &group));
    OK(MPI_Comm_split(parent, 0, me, &new[0]));
    OK(MPI_Comm_create(parent, group, &new[1]));
    OK(MPI_Comm_create_group(parent, group, 0, &new[2]));
    OK(MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &new[3]));
    OK(MPI_Comm_create_from_group(group, "weft.tests.attributes", MPI_INFO_NULL, MPI_ERRORS_RETURN, &new[4]));
    for (int i = 0; i < 5; i++) {
        HAS(new[i], own, NULL);
        HAS(new[i], always, NULL);
        OK(MPI_Comm_free(&new[i]));
    }
    CALLED_TIMES(0);
    if (ranks > 1) {
        /* Nor does making an intercommunicator copy what its parts have, or merging it what it has. */
        MPI_Comm half, inter, merged;
        OK(MPI_Comm_split(parent, me % 2, me, &half));
        OK(MPI_Comm_set_attr(half, own, space));
        OK(MPI_Intercomm_create(half, 0, parent, 1 - me % 2, 0, &inter));
        HAS(inter, own, NULL);
        OK(MPI_Comm_set_attr(inter, always, space));
        OK(MPI_Intercomm_merge(inter, me % 2, &merged));
        HAS(merged, always, NULL);
        CALLED_TIMES(0);
        OK(MPI_Comm_free(&merged));
        CALLED_TIMES(0);
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&half));
        CALLED_TIMES(2);
    }
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_free(&parent));
    CALLED_TIMES(2);
    OK(MPI_Comm_free_keyval(&own));
    OK(MPI_Comm_free_keyval(&always));
}

static void freed_keys_live_on(void)
{
    MPI_Comm parent, new;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    int key = key_of(copy, 1, extra), number = key;
    OK(MPI_Comm_set_attr(parent, key, space));
    OK(MPI_Comm_free_keyval(&key));
    SAME(key, MPI_KEYVAL_INVALID, "a freed key");
    CALLED_TIMES(0);
    /* Who kept the number still sees the attribute, and callbacks are called. */
    HAS(parent, number, space);
    HAS(MPI_COMM_SELF, number, NULL);
    new = begin_duplicate(parent, 0);
    CALLED('c', parent, number, space, extra);
    CALLED_TIMES(1);
    OK(MPI_Comm_delete_attr(parent, number));
    CALLED('d', parent, number, space, extra);
    CALLED_TIMES(1);
    HAS(new, number, space + 1);
    /* Freed once more while it is in use, it is what it was. */
    key = number;
    OK(MPI_Comm_free_keyval(&key));
    SAME(key, MPI_KEYVAL_INVALID, "a key freed twice");
    HAS(new, number, space + 1);
    /* The last attribute goes, and with it the key. */
    MPI_Comm handle = new;
    OK(MPI_Comm_free(&new));
    CALLED('d', handle, number, space + 1, extra);
    CALLED_TIMES(1);
    int flag;
    char *value;
    ERROR(MPI_ERR_KEYVAL, MPI_Comm_get_attr(parent, number, &value, &flag), hex(number), "not valid");
    ERROR(MPI_ERR_KEYVAL, MPI_Comm_set_attr(parent, number, space), hex(number), "not valid");
    ERROR(MPI_ERR_KEYVAL, MPI_Comm_delete_attr(parent, number), hex(number), "not valid");
    OK(MPI_Comm_free(&parent));
    CALLED_TIMES(0);
}

static int predefined_of(MPI_Comm comm, int key, int *there)
{
    int *value = NULL;
    OK(MPI_Comm_get_attr(comm, key, &value, there));
    return *there ? *value : -12345;
}

static void predefined_attributes(void)
{
    MPI_Comm new;
    int flag, tag_ub, got;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &new));
    MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF, new};
    for (int i = 0; i < 3; i++) {
        tag_ub = predefined_of(comms[i], MPI_TAG_UB, &flag);
        CHECK(flag && tag_ub >= 32767, "MPI_TAG_UB: flag %d, value %d", flag, tag_ub);
        got = predefined_of(comms[i], MPI_HOST, &flag);
        CHECK(flag && got == MPI_PROC_NULL, "MPI_HOST: flag %d, value %d", flag, got);
        got = predefined_of(comms[i], MPI_IO, &flag);
        CHECK(flag && got == MPI_ANY_SOURCE, "MPI_IO: flag %d, value %d", flag, got);
        got = predefined_of(comms[i], MPI_WTIME_IS_GLOBAL, &flag);
        CHECK(flag && (got == 0 || got == 1), "MPI_WTIME_IS_GLOBAL: flag %d, value %d", flag, got);
        got = predefined_of(comms[i], MPI_LASTUSEDCODE, &flag);
        CHECK(flag && got >= MPI_ERR_LASTCODE, "MPI_LASTUSEDCODE: flag %d, value %d", flag, got);
        got = predefined_of(comms[i], MPI_APPNUM, &flag);
        CHECK(!flag || got == 0, "MPI_APPNUM of the only program: %d", got);
        got = predefined_of(comms[i], MPI_UNIVERSE_SIZE, &flag);
        CHECK(!flag || got >= ranks, "MPI_UNIVERSE_SIZE: %d", got);
    }
    OK(MPI_Comm_free(&new));
    /* The largest tag works. */
    got = -1;
    OK(MPI_Sendrecv(&me, 1, MPI_INT, me, tag_ub, &got, 1, MPI_INT, me, tag_ub, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, me, "message with the largest tag");
}

static void type_has(int line, MPI_Datatype type, int key, char *expected)
{
    char *value = NULL;
    int flag = -1;
    succeeded(__FILE__, line, MPI_Type_get_attr(type, key, &value, &flag), "MPI_Type_get_attr");
    same(__FILE__, line, flag, expected != NULL, "flag of MPI_Type_get_attr");
    if (value != expected)
        fail(__FILE__, line, "the attribute is %p, not %p", (void *)value, (void *)expected);
}

#define TYPE_HAS(type, key, expected) type_has(__LINE__, type, key, expected)

static void datatypes(void)
{
    MPI_Datatype old, new, handle;
    int own, never, always;
    OK(MPI_Type_create_keyval(copy_type, delete_type, &own, extra));
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_type, &never, extra));
    OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &always, extra));
    OK(MPI_Type_contiguous(3, MPI_INT, &old));
    OK(MPI_Type_set_attr(old, own, space));
    OK(MPI_Type_set_attr(old, never, space + 10));
    OK(MPI_Type_set_attr(old, always, space + 20));
    TYPE_HAS(old, own, space);
    OK(MPI_Type_dup(old, &new));
    CALLED('c', old, own, space, extra);
    CALLED_TIMES(1);
    TYPE_HAS(new, own, space + 1);
    TYPE_HAS(new, never, NULL);
    TYPE_HAS(new, always, space + 20);
    OK(MPI_Type_set_attr(new, own, space + 7));
    CALLED('d', new, own, space + 1, extra);
    CALLED_TIMES(1);
    OK(MPI_Type_delete_attr(new, own));
    CALLED('d', new, own, space + 7, extra);
    CALLED_TIMES(1);
    OK(MPI_Type_free(&new));
    CALLED_TIMES(0);
    /* A type made of it has none of its attributes. */
    OK(MPI_Type_contiguous(2, old, &new));
    TYPE_HAS(new, always, NULL);
    OK(MPI_Type_free(&new));
    handle = old;
    OK(MPI_Type_free(&old));
    CALLED('d', handle, own, space, extra);
    CALLED('d', handle, never, space + 10, extra);
    CALLED_TIMES(2);
    /* Predefined ones have attributes, too. */
    OK(MPI_Type_set_attr(MPI_INT, own, space));
    TYPE_HAS(MPI_INT, own, space);
    TYPE_HAS(MPI_FLOAT, own, NULL);
    OK(MPI_Type_delete_attr(MPI_INT, own));
    CALLED('d', MPI_INT, own, space, extra);
    CALLED_TIMES(1);
    OK(MPI_Type_free_keyval(&own));
    OK(MPI_Type_free_keyval(&never));
    OK(MPI_Type_free_keyval(&always));
    SAME(own, MPI_KEYVAL_INVALID, "a freed key");
}

/* The names of MPI-1 do the same to the same keys. */
static void deprecated_names(void)
{
    MPI_Comm comm, new;
    int own, never, always, flag;
    char *value;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Keyval_create(copy, delete, &own, extra));
    OK(MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &never, NULL));
    OK(MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &always, NULL));
    OK(MPI_Attr_put(comm, own, space));
    OK(MPI_Attr_put(comm, never, space + 10));
    OK(MPI_Comm_set_attr(comm, always, space + 20));
    OK(MPI_Comm_dup(comm, &new));
    HAS(new, own, space + 1);
    HAS(new, never, NULL);
    OK(MPI_Attr_get(new, always, &value, &flag));
    CHECK(flag && value == space + 20, "MPI_Attr_get: flag %d, value %p", flag, (void *)value);
    OK(MPI_Attr_get(new, never, &value, &flag));
    SAME(flag, 0, "flag of MPI_Attr_get");
    OK(MPI_Attr_get(new, MPI_TAG_UB, &value, &flag));
    SAME(flag, 1, "flag of MPI_Attr_get of MPI_TAG_UB");
    OK(MPI_Attr_delete(new, own));
    CALLED('d', new, own, space + 1, extra);
    CALLED_TIMES(2);
    OK(MPI_Comm_free(&new));
    OK(MPI_Comm_free(&comm));
    CALLED_TIMES(1);
    OK(MPI_Keyval_free(&own));
    OK(MPI_Comm_free_keyval(&never));
    OK(MPI_Keyval_free(&always));
    SAME(own, MPI_KEYVAL_INVALID, "a key freed by MPI_Keyval_free");
}

static void wrong_keys(void)
{
    int of_comm = key_of(copy, 1, extra), of_type, of_win, flag, freed, copied;
    char *value;
    MPI_Comm world = MPI_COMM_WORLD, comm;
    MPI_Group group;
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &of_type, NULL));
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &of_win, NULL));
    freed = copied = key_of(copy, 1, NULL);
    OK(MPI_Comm_free_keyval(&freed));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_group(comm, &group));
    const struct {
        int key;
        const char *word;
    } bad[] = {
        {MPI_KEYVAL_INVALID, "MPI_KEYVAL_INVALID"},
        {copied, "freed"},
        {of_type, "datatypes"},
        {of_win, "windows"},
        {MPI_WIN_SIZE, "windows"},
        {-1, "0xffffffff"},
        {12345, "not valid"},
        {INT32_MAX, "not valid"},
        {INT32_MIN, "not valid"},
        {MPI_Comm_toint(comm), "not valid"},
        {MPI_Group_toint(group), "not valid"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *word = bad[i].word;
        ERROR(MPI_ERR_KEYVAL, MPI_Comm_get_attr(comm, bad[i].key, &value, &flag), "key", word);
        ERROR(MPI_ERR_KEYVAL, MPI_Attr_get(comm, bad[i].key, &value, &flag), "key", word);
        /* A predefined key is told as such where it would be changed. */
        word = bad[i].key == MPI_WIN_SIZE ? "predefined" : word;
        ERROR(MPI_ERR_KEYVAL, MPI_Comm_set_attr(comm, bad[i].key, space), "key", word);
        ERROR(MPI_ERR_KEYVAL, MPI_Comm_delete_attr(comm, bad[i].key), "key", word);
        ERROR(MPI_ERR_KEYVAL, MPI_Attr_put(comm, bad[i].key, space), "key", word);
        ERROR(MPI_ERR_KEYVAL, MPI_Attr_delete(comm, bad[i].key), "key", word);
        flag = bad[i].key;
        ERROR(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&flag), "key", word);
        SAME(flag, bad[i].key, "a key that could not be freed");
    }
    const int predefined[] = {MPI_TAG_UB, MPI_IO,           MPI_HOST,         MPI_WTIME_IS_GLOBAL,
                              MPI_APPNUM, MPI_LASTUSEDCODE, MPI_UNIVERSE_SIZE};
    for (size_t i = 0; i < sizeof predefined / sizeof *predefined; i++) {
        ERROR(MPI_ERR_KEYVAL, MPI_Comm_set_attr(world, predefined[i], space), "predefined");
        ERROR(MPI_ERR_KEYVAL, MPI_Comm_delete_attr(world, predefined[i]), "predefined");
        flag = predefined[i];
        ERROR(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&flag), "predefined");
        ERROR(MPI_ERR_KEYVAL, MPI_Type_get_attr(MPI_INT, predefined[i], &value, &flag), "communicators", "datatypes");
        ERROR(MPI_ERR_KEYVAL, MPI_Type_set_attr(MPI_INT, predefined[i], space), "predefined");
    }
    ERROR(MPI_ERR_KEYVAL, MPI_Type_set_attr(MPI_INT, of_comm, space), "communicators", "datatypes");
    ERROR(MPI_ERR_KEYVAL, MPI_Type_get_attr(MPI_INT, of_comm, &value, &flag), "communicators", "datatypes");
    ERROR(MPI_ERR_KEYVAL, MPI_Type_delete_attr(MPI_INT, of_win), "windows", "datatypes");
    ERROR(MPI_ERR_KEYVAL, MPI_Type_free_keyval(&of_comm), "communicators", "datatypes");
    ERROR(MPI_ERR_KEYVAL, MPI_Win_free_keyval(&of_type), "datatypes", "windows");

    ERROR(MPI_ERR_ARG, MPI_Comm_create_keyval(copy, delete, NULL, NULL), "keyval", "null");
    ERROR(MPI_ERR_ARG, MPI_Comm_create_keyval(copy, (MPI_Comm_delete_attr_function *)(uintptr_t)MPI_COMM_DUP_FN, &flag,
                                             NULL),
          "MPI_COMM_DUP_FN");
    ERROR(MPI_ERR_ARG, MPI_Comm_free_keyval(NULL), "keyval", "null");
    ERROR(MPI_ERR_ARG, MPI_Comm_get_attr(world, MPI_TAG_UB, NULL, &flag), "attribute_val", "null");
    ERROR(MPI_ERR_ARG, MPI_Comm_get_attr(world, MPI_TAG_UB, &value, NULL), "flag", "null");
    ERROR(MPI_ERR_COMM, MPI_Comm_set_attr(MPI_COMM_NULL, of_comm, space), "MPI_COMM_NULL");
    ERROR(MPI_ERR_COMM, MPI_Comm_get_attr(MPI_COMM_NULL, of_comm, &value, &flag), "MPI_COMM_NULL");
    ERROR(MPI_ERR_COMM, MPI_Comm_delete_attr(MPI_COMM_NULL, of_comm), "MPI_COMM_NULL");
    ERROR(MPI_ERR_TYPE, MPI_Type_set_attr(MPI_DATATYPE_NULL, of_type, space), "MPI_DATATYPE_NULL");
    /* None of these did anything. */
    HAS(comm, of_comm, NULL);
    CALLED_TIMES(0);
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free_keyval(&of_comm));
    OK(MPI_Type_free_keyval(&of_type));
    OK(MPI_Win_free_keyval(&of_win));
    SAME(of_win, MPI_KEYVAL_INVALID, "a freed key of windows");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    keys_are_unique();
    values_are_kept();
    for (int how = 0; how < 4; how++)
        copied_at_duplication(how);
    copied_at_no_other_time();
    freed_keys_live_on();
    predefined_attributes();
    datatypes();
    deprecated_names();
    wrong_keys();
    return end("attributes");
}
