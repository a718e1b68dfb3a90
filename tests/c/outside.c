/* Calls where MPI does not run, under `mpiexec -initial-errhandler mpi_errors_return`: before Init, and after Finalize,
 * with a session open and without. Each procedure returns an error that says when it was called; none crashes. */
#include "check.h"

static const char *when;
static int number, flag, values[4];
static MPI_Comm comm, kept_comm;
static MPI_Request request = MPI_REQUEST_NULL;
static MPI_Status status;
static MPI_Group group, kept_group;
static MPI_Datatype type;
static MPI_Op op;

static void refused(int line, int code, const char *call, int class)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (class_of(code) != class)
        fail(__FILE__, line, "%s: %s: expected class %d, got %d", when, call, class, class_of(code));
    MPI_Error_string(code, text, &length);
    if (class == MPI_ERR_OTHER && strstr(text, when) == NULL)
        fail(__FILE__, line, "%s: %s: the text does not say so: %s", when, call, text);
}

#define REFUSED(call) refused(__LINE__, (call), #call, MPI_ERR_OTHER)

static void nothing(void *in, void *out, int *length, MPI_Datatype *datatype)
{
    (void)in, (void)out, (void)length, (void)datatype;
}

static void on_error(MPI_Comm *where, int *code, ...)
{
    (void)where, (void)code;
}

/* Whatever concerns the World Model, with a session open or not. */
static void world(void)
{
    MPI_Comm all = MPI_COMM_WORLD;
    REFUSED(MPI_Comm_rank(all, &number));
    REFUSED(MPI_Comm_size(MPI_COMM_SELF, &number));
    REFUSED(MPI_Send(values, 1, MPI_INT, 0, 0, all));
    REFUSED(MPI_Ssend(values, 1, MPI_INT, 0, 0, MPI_COMM_SELF));
    REFUSED(MPI_Recv(values, 1, MPI_INT, 0, 0, all, &status));
    REFUSED(MPI_Isend(values, 1, MPI_INT, 0, 0, all, &request));
    REFUSED(MPI_Irecv(values, 1, MPI_INT, 0, 0, all, &request));
    REFUSED(MPI_Iprobe(0, 0, all, &flag, &status));
    REFUSED(MPI_Sendrecv(values, 1, MPI_INT, 0, 0, values + 1, 1, MPI_INT, 0, 0, all, &status));
    REFUSED(MPI_Barrier(all));
    REFUSED(MPI_Bcast(values, 1, MPI_INT, 0, all));
    REFUSED(MPI_Allreduce(values, values + 1, 1, MPI_INT, MPI_SUM, all));
    REFUSED(MPI_Ibarrier(all, &request));
    REFUSED(MPI_Comm_dup(all, &comm));
    REFUSED(MPI_Comm_split(all, 0, 0, &comm));
    REFUSED(MPI_Comm_group(all, &group));
    REFUSED(MPI_Comm_get_attr(all, MPI_TAG_UB, values, &flag));
    REFUSED(MPI_Comm_set_name(all, "world"));
    REFUSED(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    REFUSED(MPI_Comm_call_errhandler(all, MPI_ERR_OTHER));
    REFUSED(MPI_Query_thread(&number));
    REFUSED(MPI_Is_thread_main(&flag));
    REFUSED(MPI_Finalize());
}

/* What needs MPI, and neither the World Model nor a session in particular. */
static void anything(void)
{
    char name[MPI_MAX_PROCESSOR_NAME];
    void *memory;
    MPI_Errhandler handler;
    REFUSED(MPI_Type_contiguous(2, MPI_INT, &type));
    REFUSED(MPI_Type_size(MPI_INT, &number));
    REFUSED(MPI_Op_create(nothing, 1, &op));
    REFUSED(MPI_Wait(&request, &status));
    REFUSED(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
    REFUSED(MPI_Get_processor_name(name, &number));
    REFUSED(MPI_Alloc_mem(64, MPI_INFO_NULL, &memory));
    REFUSED(MPI_Comm_create_errhandler(on_error, &handler));
    REFUSED(MPI_Group_size(MPI_GROUP_EMPTY, &number));
    REFUSED(MPI_Get_count(&status, MPI_INT, &number));
}

int main(int argc, char **argv)
{
    MPI_Session session;
    when = "before MPI_Init";
    world();
    anything();
    const int levels[] = {-1, MPI_THREAD_MULTIPLE + 1, 4711};
    for (int i = 0; i < 3; i++) {
        char text[MPI_MAX_ERROR_STRING], level[16];
        int code = MPI_Init_thread(NULL, NULL, levels[i], &number), length;
        SAME(class_of(code), MPI_ERR_ARG, "the class of a thread level that is none");
        MPI_Error_string(code, text, &length);
        snprintf(level, sizeof level, "%d", levels[i]);
        CHECK(strstr(text, level) != NULL && strstr(text, "MPI_THREAD_MULTIPLE") != NULL,
              "the text does not say which level is wrong and which are right: %s", text);
        MPI_Initialized(&flag);
        SAME(flag, 0, "MPI_Initialized after MPI_Init_thread with a thread level that is none");
    }
    begin(&argc, &argv);
    when = "already";
    REFUSED(MPI_Init(NULL, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &kept_comm));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &kept_group));
    MPI_Comm copy = kept_comm;
    OK(MPI_Finalize());
    when = "after MPI_Finalize";
    world();
    anything();
    REFUSED(MPI_Comm_free(&copy));
    REFUSED(MPI_Barrier(kept_comm));
    REFUSED(MPI_Group_size(kept_group, &number));
    REFUSED(MPI_Init(NULL, NULL));
    REFUSED(MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &number));
    /* A session goes on without the World Model. */
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    world();
    refused(__LINE__, MPI_Barrier(kept_comm), "MPI_Barrier", MPI_ERR_COMM);
    refused(__LINE__, MPI_Comm_free(&copy), "MPI_Comm_free", MPI_ERR_COMM);
    OK(MPI_Session_finalize(&session));
    anything();
    if (me == 0)
        printf("outside: ok with %d ranks\n", ranks);
    return 0;
}
