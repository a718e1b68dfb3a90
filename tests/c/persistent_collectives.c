/* Persistent collective operations (MPI 5.0 section 6.13): started again and again with new contents, in place too; what may be freed
 * before; inactive and active requests in all calls; errors of the arguments, of each start, and of what an active request does not
 * allow. (All procedures on all kinds of communicators: collectives.c and intercomm.c; many at once: many_collectives.c.) With
 * "apart", ranks make different operations, which is an error; with "left", the last rank does not start what the others wait for. */
#include "check.h"

enum { STARTS = 5, LONG = 40000 };

static const MPI_Comm world = MPI_COMM_WORLD;

static void start(MPI_Request *request)
{
    MPI_Status status;
    int flag = 1;
    OK(MPI_Start(request));
    /* It may have ended. */
    OK(MPI_Request_get_status(*request, &flag, MPI_STATUS_IGNORE));
    status.MPI_ERROR = MPI_ERR_OTHER;
    OK(MPI_Wait(request, &status));
    STATUS_EMPTY(status);
    CHECK(*request != MPI_REQUEST_NULL, "a persistent request stays");
}

static int sum(int first, int end)
{
    return (end - first) * (first + end - 1) / 2;
}

/* Counts, displacements and datatypes as the call has them matter, and not what stands there later. */
static void arrays_are_kept(void)
{
    int *counts = allocate(ranks * sizeof *counts), *displs = allocate(ranks * sizeof *displs);
    MPI_Count *large = allocate(ranks * sizeof *large);
    MPI_Aint *places = allocate(ranks * sizeof *places);
    MPI_Datatype *types = allocate(ranks * sizeof *types);
    int *mine = allocate(2 * ranks * sizeof *mine), *all = allocate(2 * ranks * sizeof *all);
    MPI_Request requests[3];
    for (int i = 0; i < ranks; i++) {
        counts[i] = large[i] = 2;
        displs[i] = 2 * (ranks - 1 - i);
        places[i] = displs[i] * (MPI_Aint)sizeof(int);
        types[i] = MPI_INT;
    }
    OK(MPI_Allgatherv_init(mine, 2, MPI_INT, all, counts, displs, MPI_INT, world, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Alltoallw_init_c(mine, large, places, types, all, large, places, types, world, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Reduce_scatter_init(mine, all, counts, MPI_INT, MPI_MAX, world, MPI_INFO_NULL, &requests[2]));
    memset(counts, 0xff, ranks * sizeof *counts);
    memset(displs, 0xff, ranks * sizeof *displs);
    memset(large, 0xff, ranks * sizeof *large);
    memset(places, 0xff, ranks * sizeof *places);
    memset(types, 0xff, ranks * sizeof *types);
    for (int turn = 0; turn < STARTS; turn++) {
        mine[0] = me * 10 + turn;
        mine[1] = -mine[0];
        start(&requests[0]);
        for (int i = 0; i < ranks; i++) {
            SAME(all[2 * (ranks - 1 - i)], i * 10 + turn, "allgatherv, start %d, block %d", turn, i);
            SAME(all[2 * (ranks - 1 - i) + 1], -i * 10 - turn, "allgatherv, start %d, block %d", turn, i);
        }
        for (int i = 0; i < 2 * ranks; i++)
            mine[i] = (me * ranks + (ranks - 1 - i / 2)) * 100 + turn;
        start(&requests[1]);
        for (int i = 0; i < ranks; i++)
            SAME(all[2 * (ranks - 1 - i)], (i * ranks + me) * 100 + turn, "alltoallw, start %d, block %d", turn, i);
        for (int i = 0; i < 2 * ranks; i++)
            mine[i] = me + i + turn;
        start(&requests[2]);
        SAME(all[1], ranks - 1 + 2 * me + 1 + turn, "reduce_scatter, start %d", turn);
    }
    for (int i = 0; i < 3; i++)
        OK(MPI_Request_free(&requests[i]));
    free(counts), free(displs), free(large), free(places), free(types), free(mine), free(all);
}

/* Each start replaces the operand. */
static void in_place(void)
{
    int value, both[2];
    MPI_Request sums, scan;
    OK(MPI_Allreduce_init(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &sums));
    OK(MPI_Scan_init(MPI_IN_PLACE, both, 2, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &scan));
    value = 1;
    for (int turn = 0, expected = 1; turn < STARTS; turn++) {
        start(&sums);
        expected *= ranks;
        SAME(value, expected, "allreduce in place, start %d", turn);
        both[0] = me;
        both[1] = turn;
        start(&scan);
        SAME(both[0], sum(0, me + 1), "scan in place, start %d", turn);
        SAME(both[1], turn * (me + 1), "scan in place, start %d", turn);
    }
    OK(MPI_Request_free(&sums));
    OK(MPI_Request_free(&scan));
}

static int called;

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int size;
    /* It was freed; here it is one that can be asked. */
    OK(MPI_Type_size(*type, &size));
    SAME(size, 2 * sizeof(int), "the size of the datatype that an operation is given");
    for (int i = 0; i < 2 * *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
    called++;
}

/* Datatypes, operations, info objects and communicators are freed before the first start. */
static void freed_before(void)
{
    MPI_Datatype pair;
    MPI_Op op;
    MPI_Info info;
    MPI_Comm copy;
    MPI_Request requests[4];
    int mine[2 * LONG], total[2 * LONG], message[2 * LONG];
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Op_create(add, 0, &op));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_nobody_knows", "true"));
    OK(MPI_Comm_dup(world, &copy));
    OK(MPI_Allreduce_init(mine, total, 1, pair, op, copy, info, &requests[0]));
    OK(MPI_Allreduce_init_c(mine, total, LONG, pair, op, copy, info, &requests[1]));
    OK(MPI_Bcast_init(message, LONG, pair, ranks - 1, copy, info, &requests[2]));
    OK(MPI_Barrier_init(copy, info, &requests[3]));
    OK(MPI_Type_free(&pair));
    OK(MPI_Op_free(&op));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&copy));
    for (int turn = 0; turn < STARTS; turn++) {
        for (int i = 0; i < 2 * LONG; i++) {
            mine[i] = me + i + turn;
            message[i] = me == ranks - 1 ? i * 3 + turn : -1;
        }
        start(&requests[turn % 2]);
        int count = turn % 2 ? 2 * LONG : 2;
        for (int i = 0; i < count; i++)
            SAME(total[i], sum(0, ranks) + ranks * (i + turn), "allreduce, start %d, element %d", turn, i);
        start(&requests[3]);
        start(&requests[2]);
        for (int i = 0; i < 2 * LONG; i++)
            SAME(message[i], i * 3 + turn, "bcast, start %d, element %d", turn, i);
    }
    CHECK(ranks == 1 || called > 0, "the operation was called");
    for (int i = 0; i < 4; i++)
        OK(MPI_Request_free(&requests[i]));
}

/* What each call says of a request that has not been started, or was waited for. */
static void inactive(void)
{
    MPI_Request request, both[2];
    MPI_Status status, statuses[2];
    int flag, index, count, indices[2];
    OK(MPI_Barrier_init(world, MPI_INFO_NULL, &request));
    for (int turn = 0; turn < 2; turn++) {
        both[0] = MPI_REQUEST_NULL, both[1] = request;
        OK(MPI_Wait(&request, &status));
        STATUS_EMPTY(status);
        OK(MPI_Test(&request, &flag, &status));
        SAME(flag, 1, "MPI_Test");
        OK(MPI_Request_get_status(request, &flag, &status));
        SAME(flag, 1, "MPI_Request_get_status");
        STATUS_EMPTY(status);
        OK(MPI_Waitall(2, both, statuses));
        OK(MPI_Testany(2, both, &index, &flag, &status));
        SAME(index, MPI_UNDEFINED, "MPI_Testany's index");
        SAME(flag, 1, "MPI_Testany");
        OK(MPI_Waitsome(2, both, &count, indices, statuses));
        SAME(count, MPI_UNDEFINED, "MPI_Waitsome");
        ERROR(MPI_ERR_REQUEST, MPI_Cancel(&request), "inactive");
        OK(MPI_Start(&both[1]));
        OK(MPI_Waitany(2, both, &index, &status));
        SAME(index, 1, "MPI_Waitany's index");
        SAME(both[1], request, "the handle");
    }
    OK(MPI_Request_free(&request));
    SAME(request, MPI_REQUEST_NULL, "a freed request");
}

/* An active one is neither started, freed nor cancelled; it goes on. */
static void active(void)
{
    MPI_Request request, copy;
    int value = me == 0 ? 4711 : -1;
    OK(MPI_Bcast_init(&value, 1, MPI_INT, 0, world, MPI_INFO_NULL, &request));
    for (int turn = 0; turn < 2; turn++) {
        copy = request;
        value = me == 0 ? 4711 + turn : -1;
        OK(MPI_Start(&request));
        ERROR(MPI_ERR_REQUEST, MPI_Start(&request), "active");
        ERROR(MPI_ERR_REQUEST, MPI_Startall(1, &request), "array_of_requests[0]", "active");
        int flag;
        OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
        if (!flag) {
            ERROR(MPI_ERR_REQUEST, MPI_Request_free(&request), "persistent collective", "active");
            ERROR(MPI_ERR_REQUEST, MPI_Cancel(&request), "persistent collective", "active");
        }
        SAME(request, copy, "the handle");
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(value, 4711 + turn, "broadcast");
    }
    OK(MPI_Request_free(&request));

    /* One that surely has not ended. */
    if (ranks > 1) {
        int go = 0;
        OK(MPI_Barrier_init(world, MPI_INFO_NULL, &request));
        if (me > 0) {
            OK(MPI_Start(&request));
            ERROR(MPI_ERR_REQUEST, MPI_Request_free(&request), "persistent collective", "active");
            ERROR(MPI_ERR_REQUEST, MPI_Cancel(&request), "persistent collective", "active");
            OK(MPI_Send(&go, 1, MPI_INT, 0, 1, world));
        } else {
            for (int i = 1; i < ranks; i++)
                OK(MPI_Recv(&go, 1, MPI_INT, MPI_ANY_SOURCE, 1, world, MPI_STATUS_IGNORE));
            OK(MPI_Start(&request));
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&request));
    }
}

static void wrong_arguments(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int values[2] = {0, 0}, flag;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    MPI_Info gone = info;
    OK(MPI_Info_free(&info));
    ERROR(MPI_ERR_COMM, MPI_Barrier_init(MPI_COMM_NULL, MPI_INFO_NULL, &request));
    ERROR(MPI_ERR_INFO, MPI_Barrier_init(world, gone, &request));
    ERROR(MPI_ERR_ARG, MPI_Barrier_init(world, MPI_INFO_NULL, NULL), "request");
    ERROR(MPI_ERR_COUNT, MPI_Bcast_init(values, -1, MPI_INT, 0, world, MPI_INFO_NULL, &request), "count");
    ERROR(MPI_ERR_ROOT, MPI_Bcast_init(values, 1, MPI_INT, ranks, world, MPI_INFO_NULL, &request), "root");
    ERROR(MPI_ERR_TYPE, MPI_Bcast_init_c(values, 1, MPI_DATATYPE_NULL, 0, world, MPI_INFO_NULL, &request));
    ERROR(MPI_ERR_BUFFER, MPI_Bcast_init(MPI_IN_PLACE, 1, MPI_INT, 0, world, MPI_INFO_NULL, &request));
    ERROR(MPI_ERR_OP, MPI_Allreduce_init(values, values + 1, 1, MPI_INT, MPI_OP_NULL, world, MPI_INFO_NULL, &request));
    ERROR(MPI_ERR_OP, MPI_Allreduce_init(values, values + 1, 1, MPI_INT, MPI_REPLACE, world, MPI_INFO_NULL, &request));
    SAME(request, MPI_REQUEST_NULL, "no request was made");
    /* None of them has begun anything: the next ones match. */
    OK(MPI_Barrier_init(world, MPI_INFO_ENV, &request));
    start(&request);
    ERROR(MPI_ERR_REQUEST, MPI_Pready(0, request), "partitioned");
    ERROR(MPI_ERR_REQUEST, MPI_Parrived(request, 0, &flag), "partitioned");
    OK(MPI_Request_free(&request));
}

/* Buffers that overlap are found at each start; every process has the right result. */
static void overlapping(void)
{
    int values[LONG];
    MPI_Request request;
    MPI_Comm copy;
    OK(MPI_Comm_dup(world, &copy));
    OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    for (int count = 1; count <= LONG; count += LONG - 1) {
        int other[LONG], wrong = me % 2 == 0;
        int *send = wrong ? values : other;
        OK(MPI_Allreduce_init(send, values, count, MPI_INT, MPI_SUM, copy, MPI_INFO_NULL, &request));
        for (int turn = 0; turn < STARTS; turn++) {
            for (int i = 0; i < count; i++)
                send[i] = me + turn + i;
            OK(MPI_Start(&request));
            int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (wrong)
                ERROR(MPI_ERR_BUFFER, code, "overlap");
            else
                OK(code);
            for (int i = 0; i < count; i++)
                SAME(values[i], sum(0, ranks) + ranks * (turn + i), "allreduce, start %d, element %d", turn, i);
        }
        OK(MPI_Request_free(&request));
    }
    OK(MPI_Comm_free(&copy));
}

/* A message that is too long fails its start, and not the next. */
static void truncated(void)
{
    char message[8];
    MPI_Request request;
    if (ranks == 1)
        return;
    int count = me == ranks - 1 ? 4 : 8;
    OK(MPI_Bcast_init(message, count, MPI_CHAR, 0, world, MPI_INFO_NULL, &request));
    for (int turn = 0; turn < STARTS; turn++) {
        memset(message, me == 0 ? 'a' + turn : '-', sizeof message);
        OK(MPI_Start(&request));
        int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (count == 4)
            SAME(class_of(code), MPI_ERR_TRUNCATE, "class of start %d", turn);
        else
            OK(code);
        SAME(message[3], 'a' + turn, "start %d", turn);
    }
    OK(MPI_Request_free(&request));
}

/* Requests that are made in one order and started in another on each rank. */
static void other_orders(void)
{
    enum { N = 6 };
    MPI_Request requests[N], together[N + 2];
    int values[N], sums[N], in = -1, out;
    for (int i = 0; i < N; i++)
        OK(MPI_Allreduce_init(&values[i], &sums[i], 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &requests[i]));
    MPI_Request send, receive;
    OK(MPI_Send_init(&out, 1, MPI_INT, (me + 1) % ranks, 3, world, &send));
    OK(MPI_Recv_init(&in, 1, MPI_INT, (me + ranks - 1) % ranks, 3, world, &receive));
    for (int turn = 0; turn < STARTS; turn++) {
        for (int i = 0; i < N; i++) {
            values[i] = i * 100 + turn + me;
            together[i] = requests[(i * (me % 2 ? 1 : N - 1) + turn) % N];
        }
        out = me * 10 + turn;
        together[N] = send;
        together[N + 1] = receive;
        OK(MPI_Startall(N + 2, together));
        OK(MPI_Barrier(world));
        OK(MPI_Waitall(N + 2, together, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++)
            SAME(sums[i], ranks * (i * 100 + turn) + sum(0, ranks), "sum %d, start %d", i, turn);
        SAME(in, (me + ranks - 1) % ranks * 10 + turn, "message, start %d", turn);
    }
    for (int i = 0; i < N; i++)
        OK(MPI_Request_free(&requests[i]));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
}

/* Of a session, which ends with an inactive one left. */
static void of_a_session(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Request request;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "weft.tests.persistent", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &request));
    start(&request);
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_disconnect(&comm));
    OK(MPI_Session_finalize(&session));
    ERROR(MPI_ERR_REQUEST, MPI_Start(&request));
}

/* Ranks that make different operations are told, at each start. */
static void apart(void)
{
    int value = 0, code;
    MPI_Request request;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (me == 0)
        code = MPI_Bcast_init(&value, 1, MPI_INT, ranks - 1, world, MPI_INFO_NULL, &request);
    else
        code = MPI_Reduce_init(&me, &value, 1, MPI_INT, MPI_SUM, ranks - 1, world, MPI_INFO_NULL, &request);
    /* Where memory is shared, making one finds it already. */
    int made = code == MPI_SUCCESS;
    if (made) {
        OK(MPI_Start(&request));
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    /* Who only sends need not notice. */
    if (me == 0 || me == ranks - 1) {
        SAME(class_of(code), MPI_ERR_OTHER, "class of the error");
        OK(MPI_Error_string(code, text, &length));
        CHECK(strstr(text, "MPI_Bcast_init") && strstr(text, "MPI_Reduce_init"), "%s", text);
    }
    if (made)
        OK(MPI_Request_free(&request));
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (strcmp(which, "apart") == 0) {
        apart();
        return end("persistent_collectives");
    }
    if (strcmp(which, "left") == 0) {
        int value = 0;
        MPI_Request request;
        OK(MPI_Bcast_init(&value, 1, MPI_INT, ranks - 1, world, MPI_INFO_NULL, &request));
        if (me != ranks - 1)
            start(&request);
        return end("persistent_collectives");
    }
    arrays_are_kept();
    in_place();
    freed_before();
    inactive();
    active();
    wrong_arguments();
    overlapping();
    truncated();
    other_orders();
    of_a_session();
    /* An inactive one is left. */
    MPI_Request left;
    OK(MPI_Barrier_init(world, MPI_INFO_NULL, &left));
    start(&left);
    return end("persistent_collectives");
}
