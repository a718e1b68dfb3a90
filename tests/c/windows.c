/* Windows as objects: attributes, names, hints, error handlers; wrong arguments; windows of sessions, and those that
 * nobody frees. (Their memory: window_memory.c.) */
#include "windows.h"

static char space[100], extra[4];

/* The calls of callbacks, as letters and the place of the value in `space`. */
static struct {
    char what;
    long at;
    MPI_Win win;
    int key;
    void *extra;
} calls[32];
static int n_calls;
static int delete_result = MPI_SUCCESS;

static void note(char what, MPI_Win win, int key, void *value, void *extra_state)
{
    CHECK(n_calls < 32, "too many calls of callbacks");
    calls[n_calls].what = what;
    calls[n_calls].at = (char *)value - space;
    calls[n_calls].win = win;
    calls[n_calls].key = key;
    calls[n_calls++].extra = extra_state;
}

static int copy(MPI_Win win, int key, void *extra_state, void *value, void *new, int *flag)
{
    note('c', win, key, value, extra_state);
    *(void **)new = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Win win, int key, void *value, void *extra_state)
{
    note('d', win, key, value, extra_state);
    return delete_result;
}

/* The values of deleted attributes since the last time, in order, as places in `space`; -1 ends them. */
static void deleted(int line, const long *expected)
{
    int i = 0;
    for (; expected[i] >= 0; i++) {
        if (i >= n_calls || calls[i].what != 'd' || calls[i].at != expected[i])
            fail(__FILE__, line, "call %d of %d is not the deletion of %ld", i, n_calls, expected[i]);
    }
    same(__FILE__, line, n_calls, i, "calls of callbacks");
    n_calls = 0;
}

#define DELETED(...) deleted(__LINE__, (const long[]){__VA_ARGS__ __VA_OPT__(, ) - 1})

static void has(int line, MPI_Win win, int key, void *expected)
{
    void *value = extra;
    int flag = -1;
    succeeded(__FILE__, line, MPI_Win_get_attr(win, key, &value, &flag), "MPI_Win_get_attr");
    same(__FILE__, line, flag, expected != NULL, "flag of MPI_Win_get_attr");
    if (value != (expected != NULL ? expected : extra))
        fail(__FILE__, line, "the attribute is %p, not %p", value, expected);
}

#define HAS(win, key, expected) has(__LINE__, win, key, expected)

static void attributes(void)
{
    MPI_Win win = new_window(), other = new_window(), handle = win;
    int key[4], unused, number;
    for (int i = 0; i < 4; i++)
        OK(MPI_Win_create_keyval(copy, delete, &key[i], extra));
    OK(MPI_Win_create_keyval(MPI_WIN_DUP_FN, MPI_WIN_NULL_DELETE_FN, &unused, NULL));
    HAS(win, key[0], NULL);
    OK(MPI_Win_delete_attr(win, key[0]));
    OK(MPI_Win_set_attr(win, key[2], space + 2));
    OK(MPI_Win_set_attr(win, key[0], space));
    OK(MPI_Win_set_attr(win, key[3], space + 3));
    OK(MPI_Win_set_attr(win, unused, space + 9));
    OK(MPI_Win_set_attr(win, key[1], space + 1));
    OK(MPI_Win_set_attr(other, key[0], space + 50));
    HAS(win, key[0], space);
    HAS(other, key[0], space + 50);
    HAS(other, key[1], NULL);
    DELETED();
    /* One value in place of another: the old one is deleted first, and the new one is the youngest. */
    OK(MPI_Win_set_attr(win, key[2], space + 22));
    CHECK(calls[0].win == win && calls[0].key == key[2] && calls[0].extra == extra, "arguments of the callback");
    DELETED(2);
    HAS(win, key[2], space + 22);
    OK(MPI_Win_delete_attr(win, key[0]));
    DELETED(0);
    HAS(win, key[0], NULL);
    HAS(other, key[0], space + 50);
    /* A key that is freed lives on in attributes. */
    number = key[3];
    OK(MPI_Win_free_keyval(&key[3]));
    SAME(key[3], MPI_KEYVAL_INVALID, "a freed key");
    HAS(win, number, space + 3);
    HAS(other, number, NULL);
    OK(MPI_Win_set_attr(other, number, space + 53));
    key[3] = number;
    OK(MPI_Win_free_keyval(&key[3]));
    SAME(key[3], MPI_KEYVAL_INVALID, "a key freed twice");
    HAS(other, number, space + 53);
    /* With the window all go, the last one set first. */
    free_window(&win);
    for (int i = 0; i < n_calls; i++)
        CHECK(calls[i].win == handle, "window of a callback");
    DELETED(22, 1, 3);
    HAS(other, number, space + 53);
    OK(MPI_Win_delete_attr(other, number));
    DELETED(53);
    ERROR(MPI_ERR_KEYVAL, MPI_Win_set_attr(other, number, space), hex(number), "not valid");
    free_window(&other);
    DELETED(50);
    for (int i = 0; i < 3; i++)
        OK(MPI_Win_free_keyval(&key[i]));
    OK(MPI_Win_free_keyval(&unused));
}

static int of_comm_delete(MPI_Comm comm, int key, void *value, void *extra_state)
{
    (void)comm, (void)key, (void)value, (void)extra_state;
    FAIL("a communicator's callback was called");
}

/* Windows, communicators and datatypes have keys of their own, and the library's keys can only be read. */
static void wrong_keys(void)
{
    MPI_Win win = new_window();
    int of_win, of_comm, of_type, flag;
    void *value;
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &of_win, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, of_comm_delete, &of_comm, NULL));
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &of_type, NULL));
    const struct {
        int key;
        const char *word;
    } bad[] = {
        {MPI_KEYVAL_INVALID, "MPI_KEYVAL_INVALID"},
        {of_comm, "communicators"},
        {of_type, "datatypes"},
        {MPI_TAG_UB, "predefined"},
        {-5, "not valid"},
        {0x7fffffff, "not valid"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int key = bad[i].key;
        ERROR(MPI_ERR_KEYVAL, MPI_Win_set_attr(win, key, space), bad[i].word);
        ERROR(MPI_ERR_KEYVAL, MPI_Win_get_attr(win, key, &value, &flag), bad[i].word);
        ERROR(MPI_ERR_KEYVAL, MPI_Win_delete_attr(win, key), bad[i].word);
        ERROR(MPI_ERR_KEYVAL, MPI_Win_free_keyval(&key), bad[i].word);
        SAME(key, bad[i].key, "a key that was not freed");
    }
    const int predefined[] = {MPI_WIN_BASE, MPI_WIN_SIZE, MPI_WIN_DISP_UNIT, MPI_WIN_CREATE_FLAVOR, MPI_WIN_MODEL};
    for (int i = 0; i < 5; i++) {
        int key = predefined[i];
        ERROR(MPI_ERR_KEYVAL, MPI_Win_set_attr(win, key, space), "predefined");
        ERROR(MPI_ERR_KEYVAL, MPI_Win_delete_attr(win, key), "predefined");
        ERROR(MPI_ERR_KEYVAL, MPI_Win_free_keyval(&key), "predefined");
        ERROR(MPI_ERR_KEYVAL, MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag), "windows");
    }
    ERROR(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_WORLD, of_win, space), "windows");
    ERROR(MPI_ERR_KEYVAL, MPI_Type_set_attr(MPI_INT, of_win, space), "windows");
    ERROR(MPI_ERR_ARG, MPI_Win_get_attr(win, MPI_WIN_BASE, NULL, &flag), "attribute_val");
    ERROR(MPI_ERR_ARG, MPI_Win_get_attr(win, MPI_WIN_BASE, &value, NULL), "flag");
    OK(MPI_Win_free_keyval(&of_win));
    OK(MPI_Comm_free_keyval(&of_comm));
    OK(MPI_Type_free_keyval(&of_type));
    free_window(&win);
}

/* A delete callback that fails: so does what called it, and nothing else changes. */
static void failing_callbacks(void)
{
    MPI_Win win = new_window(), handle = win;
    int key, before;
    OK(MPI_Win_create_keyval(copy, delete, &before, NULL));
    OK(MPI_Win_create_keyval(copy, delete, &key, NULL));
    OK(MPI_Win_set_attr(win, before, space));
    OK(MPI_Win_set_attr(win, key, space + 1));
    delete_result = MPI_ERR_RANK;
    ERROR(MPI_ERR_RANK, MPI_Win_delete_attr(win, key), "delete callback", hex(key));
    HAS(win, key, space + 1);
    ERROR(MPI_ERR_RANK, MPI_Win_set_attr(win, key, space + 2), "delete callback", hex(key));
    HAS(win, key, space + 1);
    DELETED(1, 1);
    /* Only rank 0 fails to free it at first; the others wait for it. */
    delete_result = me == 0 ? MPI_ERR_RANK : MPI_SUCCESS;
    if (me == 0) {
        ERROR(MPI_ERR_RANK, MPI_Win_free(&win), "delete callback", hex(key));
        CHECK(win == handle, "a window that was not freed lost its handle");
        HAS(win, key, space + 1);
        HAS(win, before, space);
        DELETED(1);
        delete_result = MPI_SUCCESS;
    }
    free_window(&win);
    DELETED(1, 0);
    OK(MPI_Win_free_keyval(&key));
    OK(MPI_Win_free_keyval(&before));
}

static int busy_key, other_key;

/* All of the window is still there, and so is MPI. */
static int busy_delete(MPI_Win win, int key, void *value, void *extra_state)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag, sum, one = 1, *size;
    MPI_Win inner;
    (void)extra_state;
    HAS(win, key, value);
    OK(MPI_Win_delete_attr(win, key));
    OK(MPI_Win_set_attr(win, other_key, space + 7));
    OK(MPI_Win_get_name(win, name, &length));
    SAME(length, 4, "length of the name in a callback");
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &size, &flag));
    CHECK(flag && *size == 1, "MPI_WIN_DISP_UNIT in a callback");
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, ranks, "sum inside a callback");
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &inner));
    OK(MPI_Win_free(&inner));
    OK(MPI_Win_free_keyval(&busy_key));
    return MPI_SUCCESS;
}

static void callbacks_call_mpi(void)
{
    MPI_Win win = new_window();
    OK(MPI_Win_create_keyval(copy, busy_delete, &busy_key, NULL));
    OK(MPI_Win_create_keyval(copy, delete, &other_key, NULL));
    OK(MPI_Win_set_name(win, "busy"));
    OK(MPI_Win_set_attr(win, busy_key, space));
    free_window(&win);
    SAME(busy_key, MPI_KEYVAL_INVALID, "key that its own callback freed");
    /* What the callback set goes with the window, too. */
    DELETED(7);
    OK(MPI_Win_free_keyval(&other_key));
}

static void name_is(MPI_Win win, const char *expected)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length = -1;
    memset(name, 'x', sizeof name);
    OK(MPI_Win_get_name(win, name, &length));
    CHECK(strcmp(name, expected) == 0, "the name is '%s', not '%s'", name, expected);
    SAME(length, strlen(expected), "length of the name");
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length;
    MPI_Win win = new_window();
    name_is(win, "");
    OK(MPI_Win_set_name(win, "a window"));
    name_is(win, "a window");
    memset(name, 'n', MPI_MAX_OBJECT_NAME - 1);
    OK(MPI_Win_set_name(win, name));
    name_is(win, name);
    name[MPI_MAX_OBJECT_NAME - 1] = 'n';
    ERROR(MPI_ERR_ARG, MPI_Win_set_name(win, name), "win_name", "MPI_MAX_OBJECT_NAME");
    ERROR(MPI_ERR_ARG, MPI_Win_set_name(win, NULL), "win_name");
    ERROR(MPI_ERR_ARG, MPI_Win_get_name(win, NULL, &length), "win_name");
    name_is(MPI_WIN_NULL, "MPI_WIN_NULL");
    free_window(&win);
}

static void hint_is(MPI_Win win, const char *key, const char *expected)
{
    MPI_Info info;
    OK(MPI_Win_get_info(win, &info));
    info_says(info, key, expected);
    OK(MPI_Info_free(&info));
}

static void hints(void)
{
    MPI_Info info;
    MPI_Win win = new_window();
    char *base;
    hint_is(win, "no_locks", "false");
    hint_is(win, "accumulate_ordering", "rar,raw,war,waw");
    hint_is(win, "accumulate_ops", "same_op_no_op");
    hint_is(win, "same_size", "false");
    hint_is(win, "weft_progress_thread", "false");
    hint_is(win, "mpi_memory_alloc_kinds", "mpi,system");
    free_window(&win);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "no_locks", "true"));
    OK(MPI_Info_set(info, "accumulate_ordering", "none"));
    OK(MPI_Info_set(info, "same_size", "true"));
    OK(MPI_Info_set(info, "accumulate_ops", "some_op"));
    OK(MPI_Info_set(info, "of_another_library", "yes"));
    OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "8192"));
    OK(MPI_Win_allocate(64, 1, info, MPI_COMM_WORLD, &base, &win));
    SAME((uintptr_t)base % 8192, 0, "alignment of memory");
    hint_is(win, "no_locks", "true");
    hint_is(win, "accumulate_ordering", "none");
    hint_is(win, "same_size", "true");
    hint_is(win, "accumulate_ops", "same_op_no_op");
    hint_is(win, "of_another_library", NULL);
    hint_is(win, "mpi_minimum_memory_alignment", "8192");
    OK(MPI_Info_free(&info));
    /* What is not said again stays. */
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "accumulate_ops", "same_op"));
    OK(MPI_Info_set(info, "same_size", "false"));
    OK(MPI_Win_set_info(win, info));
    hint_is(win, "accumulate_ops", "same_op");
    hint_is(win, "accumulate_ordering", "none");
    hint_is(win, "same_size", "true");
    OK(MPI_Info_free(&info));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    ERROR(MPI_ERR_INFO, MPI_Win_set_info(win, MPI_INFO_NULL), "MPI_INFO_NULL");
    ERROR(MPI_ERR_ARG, MPI_Win_get_info(win, NULL), "info_used");
    free_window(&win);
    /* As all memory that MPI allocates. */
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "8192"));
    OK(MPI_Alloc_mem(10, info, &base));
    SAME((uintptr_t)base % 8192, 0, "alignment of memory of MPI_Alloc_mem");
    OK(MPI_Free_mem(base));
    OK(MPI_Info_free(&info));
}

static int handled, handled_code;
static MPI_Win handled_win;

static void of_win(MPI_Win *win, int *code, ...)
{
    handled++;
    handled_win = *win;
    handled_code = *code;
}

static void of_comm(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled += 100;
    handled_code = *code;
}

static void error_handlers(void)
{
    MPI_Errhandler handler, for_comm, got;
    MPI_Comm comm;
    MPI_Win win = MPI_WIN_NULL;
    int code;
    OK(MPI_Win_create_errhandler(of_win, &handler));
    OK(MPI_Comm_create_errhandler(of_comm, &for_comm));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, for_comm));
    /* Before there is a window, the communicator's; then the window's, which is not the communicator's. */
    handled = 0;
    code = MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, comm, &win);
    SAME(handled, 100, "calls of the communicator's handler");
    CHECK(handled_code == code && class_of(code) == MPI_ERR_SIZE, "code for the communicator's handler");
    OK(MPI_Win_create(memory, 1, 1, MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_get_errhandler(win, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL, "the initial error handler of a window");
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Win_set_errhandler(win, handler));
    OK(MPI_Win_get_errhandler(win, &got));
    CHECK(got == handler, "the error handler that was set");
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Errhandler_free(&handler));
    handled = 0;
    code = MPI_Win_attach(win, memory, 1);
    SAME(handled, 1, "calls of the window's handler");
    CHECK(handled_win == win && handled_code == code && class_of(code) == MPI_ERR_RMA_FLAVOR, "call of the handler");
    OK(MPI_Win_call_errhandler(win, MPI_ERR_TAG));
    SAME(handled, 2, "calls of the window's handler");
    CHECK(handled_win == win && handled_code == MPI_ERR_TAG, "call of the handler by MPI_Win_call_errhandler");
    code = MPI_Win_set_errhandler(win, for_comm);
    SAME(handled, 3, "calls of the window's handler");
    SAME(class_of(code), MPI_ERR_ERRHANDLER, "a communicator's handler for a window");
    code = MPI_Win_get_errhandler(win, NULL);
    SAME(class_of(code), MPI_ERR_ARG, "no place for the handler");
    /* A failing delete callback is an error of the window. */
    int key;
    OK(MPI_Win_create_keyval(copy, delete, &key, NULL));
    OK(MPI_Win_set_attr(win, key, space));
    delete_result = MPI_ERR_OTHER;
    handled = 0;
    code = MPI_Win_free(&win);
    SAME(handled, 1, "calls of the window's handler by MPI_Win_free");
    CHECK(win != MPI_WIN_NULL && handled_win == win && handled_code == code, "MPI_Win_free with a failing callback");
    delete_result = MPI_SUCCESS;
    free_window(&win);
    DELETED(0, 0);
    OK(MPI_Win_free_keyval(&key));
    OK(MPI_Errhandler_free(&for_comm));
    OK(MPI_Comm_free(&comm));
}

/* Each procedure that takes a window says what is wrong with it. */
static void bad_windows(void)
{
    MPI_Win freed = new_window(), copy_of_it = freed;
    MPI_Group group;
    MPI_Info info;
    MPI_Errhandler handler;
    MPI_Aint size;
    int number, flag;
    void *value;
    free_window(&freed);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    const struct {
        MPI_Win handle;
        const char *word;
    } bad[] = {
        {MPI_WIN_NULL, "MPI_WIN_NULL"},
        {copy_of_it, hex((uintptr_t)copy_of_it)},
        {(MPI_Win)group, hex((uintptr_t)group)},
        {(MPI_Win)MPI_COMM_WORLD, hex((uintptr_t)MPI_COMM_WORLD)},
        {(MPI_Win)0, "0"},
        {(MPI_Win)(uintptr_t)0xdeadbeefcafe, "0xdeadbeefcafe"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        MPI_Win win = bad[i].handle;
        const char *word = bad[i].word;
        ERROR(MPI_ERR_WIN, MPI_Win_set_attr(win, MPI_WIN_BASE, space), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_delete_attr(win, MPI_WIN_BASE), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_get_group(win, &group), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_set_info(win, MPI_INFO_ENV), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_get_info(win, &info), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_set_name(win, "name"), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_get_errhandler(win, &handler), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_call_errhandler(win, MPI_ERR_TAG), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_attach(win, memory, 1), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_detach(win, memory), "window", word);
        ERROR(MPI_ERR_WIN, MPI_Win_shared_query(win, 0, &size, &number, &value), "window", word);
        freed = win;
        ERROR(MPI_ERR_WIN, MPI_Win_free(&freed), "window", word);
        CHECK(freed == win, "a window that was not freed lost its handle");
    }
    SAME(MPI_Win_toint(MPI_Win_fromint(12345)), 12345, "a window's handle as an integer");
    ERROR(MPI_ERR_ARG, MPI_Win_free(NULL), "win");
    OK(MPI_Group_free(&group));
}

/* Wrong arguments of one rank keep nobody waiting: no rank gets a window. */
static void bad_arguments(void)
{
    MPI_Win win = MPI_WIN_NULL;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Group group;
    void *base;
    ERROR(MPI_ERR_SIZE, MPI_Win_create(memory, -8, 1, MPI_INFO_NULL, world, &win), "size", "-8");
    ERROR(MPI_ERR_BASE, MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, world, &win), "base", "8");
    ERROR(MPI_ERR_SIZE, MPI_Win_create((void *)-16, 100, 1, MPI_INFO_NULL, world, &win), "size", "100");
    ERROR(MPI_ERR_DISP, MPI_Win_create(memory, 8, 0, MPI_INFO_NULL, world, &win), "disp_unit", "0");
    ERROR(MPI_ERR_DISP, MPI_Win_create_c(memory, 8, -4, MPI_INFO_NULL, world, &win), "disp_unit", "-4");
    ERROR(MPI_ERR_INFO, MPI_Win_create(memory, 8, 1, (MPI_Info)space, world, &win), "info");
    ERROR(MPI_ERR_ARG, MPI_Win_create(memory, 8, 1, MPI_INFO_NULL, world, NULL), "win");
    ERROR(MPI_ERR_COMM, MPI_Win_create(memory, 8, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), "MPI_COMM_NULL");
    ERROR(MPI_ERR_SIZE, MPI_Win_allocate(-8, 1, MPI_INFO_NULL, world, &base, &win), "size", "-8");
    ERROR(MPI_ERR_DISP, MPI_Win_allocate(8, -1, MPI_INFO_NULL, world, &base, &win), "disp_unit", "-1");
    ERROR(MPI_ERR_ARG, MPI_Win_allocate(8, 1, MPI_INFO_NULL, world, NULL, &win), "baseptr");
    ERROR(MPI_ERR_NO_MEM, MPI_Win_allocate(PTRDIFF_MAX, 1, MPI_INFO_NULL, world, &base, &win), "memory");
    ERROR(MPI_ERR_INFO, MPI_Win_create_dynamic((MPI_Info)space, world, &win), "info");
    ERROR(MPI_ERR_SIZE, MPI_Win_allocate_shared(-8, 1, MPI_INFO_NULL, world, &base, &win), "size", "-8");
    ERROR(MPI_ERR_SIZE, MPI_Win_allocate_shared(PTRDIFF_MAX, 1, MPI_INFO_NULL, world, &base, &win), "sizes");
    ERROR(MPI_ERR_RMA_SHARED, MPI_Win_allocate_shared((MPI_Aint)1 << 55, 1, MPI_INFO_NULL, world, &base, &win),
          me == 0 ? "no more than" : "first process");
    ERROR(MPI_ERR_ARG, MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, world, NULL, &win), "baseptr");
    CHECK(win == MPI_WIN_NULL, "a window that was not made has a handle");
    for (int wrong = 0; wrong < (brief() ? 1 : ranks); wrong++) {
        int code = MPI_Win_create(memory, 8, me == wrong ? -1 : 1, MPI_INFO_NULL, world, &win);
        SAME(class_of(code), me == wrong ? MPI_ERR_DISP : MPI_ERR_OTHER, "class where rank %d is wrong", wrong);
        CHECK(win == MPI_WIN_NULL, "a window that was not made has a handle");
        code = MPI_Win_allocate_shared(me == wrong ? -1 : 8, 1, MPI_INFO_NULL, world, &base, &win);
        SAME(class_of(code), me == wrong ? MPI_ERR_SIZE : MPI_ERR_OTHER, "class where rank %d is wrong", wrong);
    }
    if (ranks > 1) {
        MPI_Comm half, inter;
        OK(MPI_Comm_split(world, me % 2, me, &half));
        OK(MPI_Intercomm_create(half, 0, world, 1 - me % 2, 0, &inter));
        OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
        ERROR(MPI_ERR_COMM, MPI_Win_create_dynamic(MPI_INFO_NULL, inter, &win), "comm", "intercommunicator");
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&half));
    }
    win = new_window();
    ERROR(MPI_ERR_ARG, MPI_Win_get_group(win, NULL), "group");
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Group_free(&group));
    free_window(&win);
}

/* A window of a session: freed in time, and not freed. */
static void of_session(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Win freed, left, copy_of_it;
    int key, *base;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "windows", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Win_create_keyval(copy, delete, &key, NULL));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &freed));
    OK(MPI_Win_allocate(sizeof *base, 1, MPI_INFO_NULL, comm, &base, &left));
    *base = 4711;
    OK(MPI_Win_set_attr(freed, key, space + 1));
    OK(MPI_Win_set_attr(left, key, space + 2));
    free_window(&freed);
    DELETED(1);
    copy_of_it = left;
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_disconnect(&comm));
    OK(MPI_Session_finalize(&session));
    ERROR(MPI_ERR_WIN, MPI_Win_set_attr(left, key, space), hex((uintptr_t)copy_of_it), "session");
    /* Callbacks are called when an object is freed, and memory goes with its window. */
    DELETED();
    SAME(*base, 4711, "memory of a window that nobody has freed");
    OK(MPI_Win_free_keyval(&key));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    attributes();
    wrong_keys();
    failing_callbacks();
    callbacks_call_mpi();
    names();
    hints();
    error_handlers();
    bad_windows();
    bad_arguments();
    of_session();
    /* Those that nobody frees: their callbacks are not called, and their memory stays. */
    MPI_Win left, shared_left;
    int key, *base, *shared_base;
    OK(MPI_Win_create_keyval(copy, delete, &key, NULL));
    OK(MPI_Win_allocate(sizeof *base, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &left));
    OK(MPI_Win_allocate_shared(sizeof *base, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared_base, &shared_left));
    OK(MPI_Win_set_attr(left, key, space));
    *base = *shared_base = 1234 + me;
    int status = end("windows");
    DELETED();
    CHECK(*base == 1234 + me && *shared_base == 1234 + me, "memory of windows that nobody has freed");
    return status;
}
