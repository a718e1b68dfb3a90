/* Wrong arguments: each gives its class, and a text that names the procedure, the argument and the value.
 *
 * With an argument, one call outside Init and Finalize, for the test to see what happens then: "before", "after",
 * "twice". */
#include "check.h"

static int values[16], other[16];
static int number, number2;
static MPI_Request request = MPI_REQUEST_NULL;
static MPI_Status status;

static void point_to_point(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    char beyond[32];
    snprintf(beyond, sizeof beyond, "%d", ranks);
    ERROR(MPI_ERR_RANK, MPI_Send(values, 1, MPI_INT, ranks, 0, world), "destination", beyond);
    ERROR(MPI_ERR_RANK, MPI_Send(values, 1, MPI_INT, -77, 0, world), "destination", "-77");
    ERROR(MPI_ERR_RANK, MPI_Send(values, 1, MPI_INT, MPI_ANY_SOURCE, 0, world), "destination");
    ERROR(MPI_ERR_RANK, MPI_Ssend(values, 1, MPI_INT, 1000000, 0, world), "destination", "1000000");
    ERROR(MPI_ERR_RANK, MPI_Isend(values, 1, MPI_INT, ranks, 0, world, &request), "destination", beyond);
    ERROR(MPI_ERR_RANK, MPI_Recv(values, 1, MPI_INT, ranks, 0, world, &status), "source", beyond);
    ERROR(MPI_ERR_RANK, MPI_Irecv(values, 1, MPI_INT, -55, 0, world, &request), "source", "-55");
    ERROR(MPI_ERR_RANK, MPI_Probe(ranks, 0, world, &status), "source", beyond);
    ERROR(MPI_ERR_RANK, MPI_Iprobe(ranks, 0, world, &number, &status), "source", beyond);
    ERROR(MPI_ERR_RANK,
          MPI_Sendrecv(values, 1, MPI_INT, ranks, 0, other, 1, MPI_INT, 0, 0, world, &status), "destination", beyond);
    ERROR(MPI_ERR_RANK, MPI_Sendrecv(values, 1, MPI_INT, MPI_PROC_NULL, 0, other, 1, MPI_INT, ranks, 0, world, &status),
          "source", beyond);
    ERROR(MPI_ERR_RANK, MPI_Send_c(values, 1, MPI_INT, ranks, 0, world), "destination", beyond);

    ERROR(MPI_ERR_COUNT, MPI_Send(values, -1, MPI_INT, 0, 0, world), "count", "-1");
    ERROR(MPI_ERR_COUNT, MPI_Send_c(values, -3, MPI_INT, 0, 0, world), "count", "-3");
    ERROR(MPI_ERR_COUNT, MPI_Isend(values, -2, MPI_INT, 0, 0, world, &request), "count", "-2");
    ERROR(MPI_ERR_COUNT, MPI_Recv(values, -2147483647, MPI_INT, 0, 0, world, &status), "count", "-2147483647");
    ERROR(MPI_ERR_COUNT, MPI_Irecv(values, -5, MPI_INT, 0, 0, world, &request), "count", "-5");
    ERROR(MPI_ERR_COUNT, MPI_Sendrecv(values, 1, MPI_INT, 0, 0, other, -4, MPI_INT, 0, 0, world, &status), "recvcount",
          "-4");
    ERROR(MPI_ERR_COUNT, MPI_Sendrecv_replace(values, -4, MPI_INT, 0, 0, 0, 0, world, &status), "count", "-4");

    ERROR(MPI_ERR_TAG, MPI_Send(values, 1, MPI_INT, 0, -9, world), "tag", "-9", "MPI_TAG_UB");
    ERROR(MPI_ERR_TAG, MPI_Isend(values, 1, MPI_INT, 0, MPI_ANY_TAG, world, &request), "tag");
    ERROR(MPI_ERR_TAG, MPI_Recv(values, 1, MPI_INT, 0, -99, world, &status), "tag", "-99");
    ERROR(MPI_ERR_TAG, MPI_Irecv(values, 1, MPI_INT, 0, -98, world, &request), "tag", "-98");
    ERROR(MPI_ERR_TAG, MPI_Probe(0, -97, world, &status), "tag", "-97");
    ERROR(MPI_ERR_TAG, MPI_Sendrecv(values, 1, MPI_INT, 0, 0, other, 1, MPI_INT, 0, -8, world, &status), "tag", "-8");

    ERROR(MPI_ERR_BUFFER, MPI_Send(NULL, 3, MPI_INT, 0, 0, world), "buf", "3");
    ERROR(MPI_ERR_BUFFER, MPI_Isend(NULL, 1, MPI_INT, 0, 0, world, &request), "buf", "1");
    ERROR(MPI_ERR_BUFFER, MPI_Recv(NULL, 4, MPI_INT, 0, 0, world, &status), "buf", "4");
    ERROR(MPI_ERR_BUFFER, MPI_Irecv(NULL, 4, MPI_INT, 0, 0, world, &request), "buf", "4");
    ERROR(MPI_ERR_ARG, MPI_Isend(values, 1, MPI_INT, MPI_PROC_NULL, 0, world, NULL), "request");
    ERROR(MPI_ERR_ARG, MPI_Iprobe(0, 0, world, NULL, &status), "flag");
}

/* Each procedure that takes a communicator says what is wrong with it. */
static void communicators(void)
{
    MPI_Comm freed, copy;
    MPI_Group group;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &freed));
    copy = freed;
    OK(MPI_Comm_free(&freed));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    const struct {
        MPI_Comm handle;
        const char *word;
    } bad[] = {
        {MPI_COMM_NULL, "MPI_COMM_NULL"},
        {copy, hex((uintptr_t)copy)},
        {(MPI_Comm)group, hex((uintptr_t)group)},
        {(MPI_Comm)MPI_INT, hex((uintptr_t)MPI_INT)},
        {(MPI_Comm)0, "0"},
        {(MPI_Comm)(uintptr_t)0xdeadbeefcafe, "0xdeadbeefcafe"},
        {(MPI_Comm)values, hex((uintptr_t)values)},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        MPI_Comm comm = bad[i].handle;
        const char *word = bad[i].word;
        ERROR(MPI_ERR_COMM, MPI_Comm_rank(comm, &number), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Comm_size(comm, &number), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Send(values, 1, MPI_INT, 0, 0, comm), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Recv(values, 1, MPI_INT, 0, 0, comm, &status), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Irecv(values, 1, MPI_INT, 0, 0, comm, &request), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Iprobe(0, 0, comm, &number, &status), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Barrier(comm), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Bcast(values, 1, MPI_INT, 0, comm), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Allreduce(values, other, 1, MPI_INT, MPI_SUM, comm), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Comm_dup(comm, &freed), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Comm_split(comm, 0, 0, &freed), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Comm_set_attr(comm, MPI_TAG_UB, values), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Comm_get_attr(comm, MPI_TAG_UB, values, &number), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Comm_delete_attr(comm, MPI_TAG_UB), "communicator", word);
        ERROR(MPI_ERR_COMM, MPI_Comm_compare(MPI_COMM_WORLD, comm, &number), "communicator", word);
        freed = comm;
        ERROR(MPI_ERR_COMM, MPI_Comm_free(&freed), "communicator", word);
    }
    freed = MPI_COMM_WORLD;
    ERROR(MPI_ERR_COMM, MPI_Comm_free(&freed), "predefined");
    ERROR(MPI_ERR_ARG, MPI_Comm_rank(MPI_COMM_WORLD, NULL), "rank");
    ERROR(MPI_ERR_ARG, MPI_Comm_split(MPI_COMM_WORLD, -3, 0, &freed), "color", "-3");
    OK(MPI_Group_free(&group));
}

static void datatypes(void)
{
    MPI_Datatype fresh, freed, type;
    OK(MPI_Type_contiguous(2, MPI_INT, &fresh));
    OK(MPI_Type_contiguous(2, MPI_INT, &freed));
    OK(MPI_Type_commit(&freed));
    type = freed;
    OK(MPI_Type_free(&freed));
    const struct {
        MPI_Datatype handle;
        const char *word;
    } bad[] = {
        {MPI_DATATYPE_NULL, "MPI_DATATYPE_NULL"},
        {type, hex((uintptr_t)type)},
        {(MPI_Datatype)MPI_COMM_WORLD, hex((uintptr_t)MPI_COMM_WORLD)},
        {(MPI_Datatype)(uintptr_t)0xdeadbeefcafe, "0xdeadbeefcafe"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        MPI_Datatype wrong = bad[i].handle;
        const char *word = bad[i].word;
        ERROR(MPI_ERR_TYPE, MPI_Send(values, 1, wrong, 0, 0, MPI_COMM_WORLD), "datatype", word);
        ERROR(MPI_ERR_TYPE, MPI_Irecv(values, 1, wrong, 0, 0, MPI_COMM_WORLD, &request), "datatype", word);
        ERROR(MPI_ERR_TYPE, MPI_Bcast(values, 1, wrong, 0, MPI_COMM_WORLD), "datatype", word);
        ERROR(MPI_ERR_TYPE, MPI_Allreduce(values, other, 1, wrong, MPI_SUM, MPI_COMM_WORLD), "datatype", word);
        ERROR(MPI_ERR_TYPE, MPI_Type_size(wrong, &number), "datatype", word);
        ERROR(MPI_ERR_TYPE, MPI_Type_set_attr(wrong, MPI_TAG_UB, values), "datatype", word);
        ERROR(MPI_ERR_TYPE, MPI_Type_get_attr(wrong, MPI_TAG_UB, values, &number), "datatype", word);
        ERROR(MPI_ERR_TYPE, MPI_Type_delete_attr(wrong, MPI_TAG_UB), "datatype", word);
        ERROR(MPI_ERR_TYPE, MPI_Type_vector(1, 1, 1, wrong, &freed), "datatype", word);
        freed = wrong;
        ERROR(MPI_ERR_TYPE, MPI_Type_free(&freed), "datatype", word);
        freed = wrong;
        ERROR(MPI_ERR_TYPE, MPI_Type_commit(&freed), "datatype", word);
    }
    ERROR(MPI_ERR_TYPE, MPI_Send(values, 1, fresh, 0, 0, MPI_COMM_WORLD), "commit", hex((uintptr_t)fresh));
    ERROR(MPI_ERR_TYPE, MPI_Recv(values, 1, fresh, 0, 0, MPI_COMM_WORLD, &status), "commit");
    ERROR(MPI_ERR_TYPE, MPI_Bcast(values, 1, fresh, 0, MPI_COMM_WORLD), "commit");
    freed = MPI_INT;
    ERROR(MPI_ERR_TYPE, MPI_Type_free(&freed), "predefined");
    ERROR(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &freed), "count", "-1");
    ERROR(MPI_ERR_COUNT, MPI_Type_vector(-2, 1, 1, MPI_INT, &freed), "count", "-2");
    OK(MPI_Type_free(&fresh));
}

static void requests_and_messages(void)
{
    MPI_Request ended, copy, array[2];
    MPI_Message message;
    OK(MPI_Isend(values, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &ended));
    copy = ended;
    OK(MPI_Wait(&ended, &status));
    const char *word = hex((uintptr_t)copy);
    ended = copy;
    ERROR(MPI_ERR_REQUEST, MPI_Wait(&ended, &status), "request", word);
    ERROR(MPI_ERR_REQUEST, MPI_Test(&ended, &number, &status), "request", word);
    ERROR(MPI_ERR_REQUEST, MPI_Request_free(&ended), "request", word);
    ERROR(MPI_ERR_REQUEST, MPI_Cancel(&ended), "request", word);
    array[0] = MPI_REQUEST_NULL;
    array[1] = copy;
    ERROR(MPI_ERR_REQUEST, MPI_Waitall(2, array, MPI_STATUSES_IGNORE), "request", word);
    ERROR(MPI_ERR_REQUEST, MPI_Waitany(2, array, &number, &status), "request", word);
    ERROR(MPI_ERR_REQUEST, MPI_Testsome(2, array, &number, &number2, &status), "request", word);
    ended = (MPI_Request)MPI_COMM_WORLD;
    ERROR(MPI_ERR_REQUEST, MPI_Wait(&ended, &status), "request", hex((uintptr_t)MPI_COMM_WORLD));
    ended = MPI_REQUEST_NULL;
    ERROR(MPI_ERR_REQUEST, MPI_Cancel(&ended), "MPI_REQUEST_NULL");
    ERROR(MPI_ERR_REQUEST, MPI_Request_free(&ended), "MPI_REQUEST_NULL");
    ERROR(MPI_ERR_ARG, MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE), "array_of_requests");
    ERROR(MPI_ERR_COUNT, MPI_Waitall(-2, array, MPI_STATUSES_IGNORE), "count", "-2");
    message = MPI_MESSAGE_NULL;
    ERROR(MPI_ERR_REQUEST, MPI_Mrecv(values, 1, MPI_INT, &message, &status), "MPI_MESSAGE_NULL");
    message = (MPI_Message)(uintptr_t)0xdeadbeefcafe;
    ERROR(MPI_ERR_REQUEST, MPI_Mrecv(values, 1, MPI_INT, &message, &status), "message", "0xdeadbeefcafe");
}

static void collectives(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    char beyond[32];
    snprintf(beyond, sizeof beyond, "%d", ranks);
    ERROR(MPI_ERR_ROOT, MPI_Bcast(values, 1, MPI_INT, ranks, world), "root", beyond);
    ERROR(MPI_ERR_ROOT, MPI_Bcast(values, 1, MPI_INT, -4, world), "root", "-4");
    ERROR(MPI_ERR_ROOT, MPI_Reduce(values, other, 1, MPI_INT, MPI_SUM, ranks, world), "root", beyond);
    ERROR(MPI_ERR_ROOT, MPI_Gather(values, 1, MPI_INT, other, 1, MPI_INT, ranks, world), "root", beyond);
    ERROR(MPI_ERR_ROOT, MPI_Scatter(values, 1, MPI_INT, other, 1, MPI_INT, ranks, world), "root", beyond);
    ERROR(MPI_ERR_ROOT, MPI_Ibcast(values, 1, MPI_INT, ranks, world, &request), "root", beyond);
    ERROR(MPI_ERR_COUNT, MPI_Bcast(values, -1, MPI_INT, 0, world), "count", "-1");
    ERROR(MPI_ERR_COUNT, MPI_Allreduce(values, other, -1, MPI_INT, MPI_SUM, world), "count", "-1");
    ERROR(MPI_ERR_COUNT, MPI_Allgather(values, -1, MPI_INT, other, 1, MPI_INT, world), "sendcount", "-1");
    ERROR(MPI_ERR_BUFFER, MPI_Bcast(NULL, 2, MPI_INT, 0, world), "buffer", "2");
    ERROR(MPI_ERR_BUFFER, MPI_Allreduce(NULL, other, 2, MPI_INT, MPI_SUM, world), "sendbuf", "2");
    ERROR(MPI_ERR_BUFFER, MPI_Allreduce(values, NULL, 2, MPI_INT, MPI_SUM, world), "recvbuf", "2");

    MPI_Op freed = MPI_OP_NULL;
    ERROR(MPI_ERR_OP, MPI_Allreduce(values, other, 1, MPI_INT, MPI_OP_NULL, world), "operation", "MPI_OP_NULL");
    ERROR(MPI_ERR_OP, MPI_Allreduce(values, other, 1, MPI_INT, (MPI_Op)MPI_COMM_WORLD, world), "operation",
          hex((uintptr_t)MPI_COMM_WORLD));
    ERROR(MPI_ERR_OP, MPI_Allreduce(values, other, 1, MPI_DOUBLE, MPI_BAND, world), "MPI_BAND");
    ERROR(MPI_ERR_OP, MPI_Reduce_local(values, other, 1, MPI_FLOAT, MPI_BXOR), "MPI_BXOR");
    ERROR(MPI_ERR_OP, MPI_Op_free(&freed), "MPI_OP_NULL");
    freed = MPI_SUM;
    ERROR(MPI_ERR_OP, MPI_Op_free(&freed), "predefined");
}

static void other_objects(void)
{
    MPI_Group group, group_copy, none;
    MPI_Info info, info_copy;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    int beyond = ranks;
    char word[32];
    snprintf(word, sizeof word, "%d", ranks);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    ERROR(MPI_ERR_RANK, MPI_Group_incl(group, 1, &beyond, &none), word);
    int twice[2] = {0, 0}, ranges[2][3] = {{0, 0, 1}, {0, 0, 1}};
    ERROR(MPI_ERR_RANK, MPI_Group_incl(group, 2, twice, &none), "rank 0 twice");
    ERROR(MPI_ERR_RANK, MPI_Group_excl(group, 2, twice, &none), "rank 0 twice");
    ERROR(MPI_ERR_RANK, MPI_Group_range_incl(group, 2, ranges, &none), "rank 0 twice");
    ERROR(MPI_ERR_RANK, MPI_Group_range_excl(group, 2, ranges, &none), "rank 0 twice");
    group_copy = group;
    OK(MPI_Group_free(&group));
    ERROR(MPI_ERR_GROUP, MPI_Group_size(group_copy, &number), "group", hex((uintptr_t)group_copy));
    ERROR(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &number), "MPI_GROUP_NULL");
    ERROR(MPI_ERR_GROUP, MPI_Group_free(&group_copy), "group", hex((uintptr_t)group_copy));
    OK(MPI_Info_create(&info));
    info_copy = info;
    ERROR(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "weaver"), "weaver");
    OK(MPI_Info_free(&info));
    ERROR(MPI_ERR_INFO, MPI_Info_set(info_copy, "a", "b"), "info", hex((uintptr_t)info_copy));
    ERROR(MPI_ERR_INFO, MPI_Info_free(&info), "MPI_INFO_NULL");
    ERROR(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), "MPI_ERRHANDLER_NULL");
    ERROR(MPI_ERR_ERRHANDLER, MPI_Errhandler_free(&handler), "error handler");
    ERROR(MPI_ERR_ARG, MPI_Error_class(1 << 28, &number), "errorcode", "268435456");
    ERROR(MPI_ERR_UNSUPPORTED_OPERATION, MPI_Register_datarep("x", NULL, NULL, NULL, NULL));
    ERROR(MPI_ERR_SPAWN, MPI_Comm_spawn("no such program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF,
                                        (MPI_Comm *)values, MPI_ERRCODES_IGNORE), "no such program");
}

/* A handler of the user's sees the communicator and the code; the parent's handler is the child's. */
static MPI_Comm handled;
static int handled_class, handled_times;

static void handle(MPI_Comm *comm, int *code, ...)
{
    handled = *comm;
    handled_class = class_of(*code);
    handled_times++;
}

static void handlers(void)
{
    MPI_Errhandler handler, got;
    MPI_Comm parent, child;
    OK(MPI_Comm_create_errhandler(handle, &handler));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    OK(MPI_Comm_set_errhandler(parent, handler));
    OK(MPI_Errhandler_free(&handler));
    SAME(class_of(MPI_Send(values, 1, MPI_INT, ranks, 0, parent)), MPI_ERR_RANK, "class of MPI_Send");
    SAME(handled_times, 1, "calls of the handler");
    SAME(handled_class, MPI_ERR_RANK, "class that the handler got");
    CHECK(handled == parent, "the handler got another communicator");
    OK(MPI_Comm_dup(parent, &child));
    OK(MPI_Comm_get_errhandler(child, &got));
    OK(MPI_Errhandler_free(&got));
    MPI_Send(values, -1, MPI_INT, 0, 0, child);
    SAME(handled_times, 2, "calls of the inherited handler");
    SAME(handled_class, MPI_ERR_COUNT, "class that the inherited handler got");
    CHECK(handled == child, "the inherited handler got another communicator");
    MPI_Comm_call_errhandler(child, MPI_ERR_OTHER);
    SAME(handled_times, 3, "calls of the handler by MPI_Comm_call_errhandler");
    OK(MPI_Comm_free(&child));
    OK(MPI_Comm_free(&parent));
}

/* The names of all classes, and that a code of MPI_SUCCESS is itself. */
static void classes(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    for (int code = 0; code <= MPI_ERR_ABI; code++) {
        OK(MPI_Error_class(code, &class));
        SAME(class, code, "class of a class");
        OK(MPI_Error_string(code, text, &length));
        CHECK(length > 0 && length < MPI_MAX_ERROR_STRING, "length of the text of class %d: %d", code, length);
    }
}

static int outside(const char *when)
{
    int rank;
    if (strcmp(when, "before") == 0) {
        printf("code %d\n", class_of(MPI_Comm_rank(MPI_COMM_WORLD, &rank)));
        MPI_Init(NULL, NULL);
        MPI_Finalize();
        return 0;
    }
    MPI_Init(NULL, NULL);
    if (strcmp(when, "twice") == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        printf("code %d\n", class_of(MPI_Init(NULL, NULL)));
        MPI_Finalize();
        return 0;
    }
    if (strcmp(when, "within") == 0) {
        MPI_Send(&rank, 1, MPI_INT, 4711, 0, MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }
    if (strcmp(when, "after") == 0) {
        /* They go at Finalize with their communicators: the initial error handler counts from then on. */
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    MPI_Finalize();
    if (strcmp(when, "after") == 0)
        printf("code %d\n", class_of(MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD)));
    else
        printf("code %d\n", class_of(MPI_Init(NULL, NULL)));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return outside(argv[1]);
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    classes();
    point_to_point();
    communicators();
    datatypes();
    requests_and_messages();
    collectives();
    other_objects();
    handlers();
    /* None of the wrong calls left anything behind: messages still arrive. */
    int sum, one = 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, ranks, "sum after all errors");
    return end("errors");
}
