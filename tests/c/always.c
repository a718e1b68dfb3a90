/* What may be called at any time, from any thread (MPI 5.0 section 11.4.1), is called by several threads at once: before
 * Init, between Init and Finalize, after Finalize, and meanwhile. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 200 };

static int is_world_over, is_world_begun;
static atomic_int stop;

/* Before Init and after Finalize the initial error handler would end the program: each call has to succeed. */
static void info_objects(int thread)
{
    MPI_Info info, copy;
    char key[32], value[32], got[64];
    int flag, length, count;
    OK(MPI_Info_create(&info));
    for (int i = 0; i < 5; i++) {
        snprintf(key, sizeof key, "key %d", i);
        snprintf(value, sizeof value, "%d of thread %d", i, thread);
        OK(MPI_Info_set(info, key, value));
    }
    OK(MPI_Info_delete(info, "key 2"));
    OK(MPI_Info_get_nkeys(info, &count));
    SAME(count, 4, "MPI_Info_get_nkeys");
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_free(&info));
    CHECK(info == MPI_INFO_NULL, "MPI_Info_free leaves the handle");
    OK(MPI_Info_get_nthkey(copy, 2, key));
    CHECK(strcmp(key, "key 3") == 0, "MPI_Info_get_nthkey: %s", key);
    length = sizeof got;
    OK(MPI_Info_get_string(copy, "key 3", &length, got, &flag));
    snprintf(value, sizeof value, "3 of thread %d", thread);
    CHECK(flag && strcmp(got, value) == 0 && length == (int)strlen(value) + 1, "MPI_Info_get_string: %s", got);
    length = 0;
    OK(MPI_Info_get_string(copy, "key 2", &length, got, &flag));
    SAME(flag, 0, "MPI_Info_get_string of a key that was deleted");
    /* Deprecated, and always available as well. */
    OK(MPI_Info_get_valuelen(copy, "key 4", &length, &flag));
    SAME(flag, 1, "MPI_Info_get_valuelen");
    OK(MPI_Info_get(copy, "key 4", 63, got, &flag));
    CHECK(flag && got[0] == '4', "MPI_Info_get: %s", got);
    MPI_Info same = MPI_Info_fromint(MPI_Info_toint(copy));
    CHECK(same == copy, "an info handle as an integer");
    OK(MPI_Info_free(&copy));
    OK(MPI_Info_create_env(0, NULL, &info));
    OK(MPI_Info_get_nkeys(info, &count));
    CHECK(count > 0, "MPI_Info_create_env gives nothing");
    OK(MPI_Info_free(&info));
}

static void on_session(MPI_Session *session, int *code, ...)
{
    (void)session, (void)code;
}

static void error_handlers(void)
{
    MPI_Errhandler handler;
    OK(MPI_Session_create_errhandler(on_session, &handler));
    CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(handler)) == handler, "an error handler as an integer");
    OK(MPI_Errhandler_free(&handler));
    CHECK(handler == MPI_ERRHANDLER_NULL, "MPI_Errhandler_free leaves the handle");
    int class, length;
    char text[MPI_MAX_ERROR_STRING];
    for (int code = 0; code <= MPI_ERR_ABI; code++) {
        OK(MPI_Error_class(code, &class));
        SAME(class, code, "MPI_Error_class of a class");
        OK(MPI_Error_string(code, text, &length));
        SAME(length, strlen(text), "MPI_Error_string");
    }
}

static void inquiries(int thread)
{
    int flag, major, minor, length;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    OK(MPI_Initialized(&flag));
    if (thread == 0)
        SAME(flag, is_world_begun, "MPI_Initialized");
    OK(MPI_Finalized(&flag));
    if (thread == 0)
        SAME(flag, is_world_over, "MPI_Finalized");
    OK(MPI_Get_version(&major, &minor));
    SAME(major * 10 + minor, 50, "MPI_Get_version");
    OK(MPI_Abi_get_version(&major, &minor));
    SAME(major, MPI_ABI_VERSION, "MPI_Abi_get_version");
    MPI_Info info;
    OK(MPI_Abi_get_info(&info));
    info_says(info, "mpi_count_size", "8");
    OK(MPI_Info_free(&info));
    OK(MPI_Abi_get_fortran_info(&info));
    CHECK(info == MPI_INFO_NULL, "something is known of Fortran");
    OK(MPI_Abi_get_fortran_booleans(4, &major, &minor, &flag));
    SAME(flag, 0, "is_set");
    OK(MPI_Get_library_version(text, &length));
    SAME(length, strlen(text), "MPI_Get_library_version");
}

/* A session may be opened, used and closed at any time, too (section 11.3.1), and its error handler called. */
static void a_session(int thread)
{
    MPI_Session session;
    MPI_Errhandler handler;
    OK(MPI_Session_create_errhandler(on_session, &handler));
    OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    inquiries(thread);
    OK(MPI_Session_finalize(&session));
}

static void all_of_it(int thread, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        info_objects(thread);
        error_handlers();
        inquiries(thread);
        if (i % 50 == 49)
            a_session(thread);
    }
}

static void *in_thread(void *number)
{
    all_of_it((int)(intptr_t)number, ROUNDS);
    return NULL;
}

/* While another thread goes through Init and Finalize. */
static void *meanwhile(void *number)
{
    while (!atomic_load(&stop)) {
        info_objects((int)(intptr_t)number);
        error_handlers();
        inquiries((int)(intptr_t)number);
    }
    return NULL;
}

static void from_threads(void)
{
    pthread_t threads[THREADS];
    for (intptr_t i = 1; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, in_thread, (void *)i) == 0, "no thread");
    all_of_it(0, ROUNDS);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    MPI_Info early;
    char value[16];
    int length = sizeof value, flag;
    OK(MPI_Info_create(&early));
    OK(MPI_Info_set(early, "made", "early"));
    from_threads();
    CHECK(pthread_create(&thread, NULL, meanwhile, (void *)9) == 0, "no thread");
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    is_world_begun = 1;
    from_threads();
    MPI_Finalize();
    is_world_over = 1;
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    from_threads();
    /* MPI_Finalize does not free what the program has made. */
    OK(MPI_Info_get_string(early, "made", &length, value, &flag));
    CHECK(flag && strcmp(value, "early") == 0, "an info object from before Init: %s", value);
    OK(MPI_Info_free(&early));
    if (me == 0)
        printf("always: ok with %d ranks\n", ranks);
    return 0;
}
