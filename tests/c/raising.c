/* Which error handler gets an error, and with which code; what a handler makes of the code is what the call returns (MPI 5.0
 * section 9.3). Statuses of several requests have an error code if and only if the call says so (section 3.2.5). */
#include "check.h"

enum { UNTOUCHED = 4711 };

/* What the handler saw last, and the code that it leaves behind (0: what it got). */
static MPI_Comm comm;
static int calls, seen, leave, left;

static void on_comm(MPI_Comm *at, int *code, ...)
{
    CHECK(*at == comm, "the handler of another communicator was called");
    calls++;
    seen = *code;
    if (leave)
        *code = left;
}

static int calls_of_self;

static void on_self(MPI_Comm *at, int *code, ...)
{
    (void)at, (void)code;
    calls_of_self++;
}

static void on_win(MPI_Win *at, int *code, ...)
{
    (void)at;
    calls++;
    seen = *code;
    if (leave)
        *code = left;
}

static void on_file(MPI_File *at, int *code, ...)
{
    (void)at;
    calls++;
    seen = *code;
    if (leave)
        *code = left;
}

static void on_session(MPI_Session *at, int *code, ...)
{
    (void)at;
    calls++;
    seen = *code;
    if (leave)
        *code = left;
}

/* The last call called the handler once, with a code of this class, and MPI_COMM_SELF's not at all. */
static void called(int line, int class)
{
    same(__FILE__, line, calls, 1, "calls of the handler");
    same(__FILE__, line, class_of(seen), class, "class that the handler got");
    same(__FILE__, line, calls_of_self, 0, "calls of the handler of MPI_COMM_SELF");
    calls = 0;
}

#define CALLED(class) called(__LINE__, class)

static void codes_that_handlers_leave(void)
{
    int value = 0, added, code;
    OK(MPI_Add_error_code(MPI_ERR_OTHER, &added));
    leave = 0;
    code = MPI_Send(&value, 1, MPI_INT, ranks, 0, comm);
    SAME(code, seen, "code that the handler left alone");
    CALLED(MPI_ERR_RANK);
    leave = 1;
    left = added;
    SAME(MPI_Send(&value, -1, MPI_INT, 0, 0, comm), added, "code of the handler's");
    CALLED(MPI_ERR_COUNT);
    SAME(MPI_Bcast(&value, 1, MPI_INT, ranks, comm), added, "code of the handler's for a collective");
    CALLED(MPI_ERR_ROOT);
    left = MPI_SUCCESS;
    SAME(MPI_Send(&value, -1, MPI_INT, 0, 0, comm), MPI_SUCCESS, "an error that the handler has seen to");
    CALLED(MPI_ERR_COUNT);
    /* Calling the handler is all that this procedure does. */
    left = added;
    SAME(MPI_Comm_call_errhandler(comm, MPI_ERR_TAG), MPI_SUCCESS, "MPI_Comm_call_errhandler");
    CALLED(MPI_ERR_TAG);

    MPI_Win win;
    MPI_Errhandler handler;
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_create_errhandler(on_win, &handler));
    OK(MPI_Win_set_errhandler(win, handler));
    OK(MPI_Errhandler_free(&handler));
    SAME(MPI_Win_set_attr(win, MPI_WIN_SIZE, &value), added, "code of a window's handler");
    CALLED(MPI_ERR_KEYVAL);
    SAME(MPI_Win_complete(win), added, "code of a window's handler for an epoch that is not open");
    CALLED(MPI_ERR_RMA_SYNC);
    SAME(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), added, "the same, with the window behind");
    CALLED(MPI_ERR_RMA_RANGE);
    OK(MPI_Win_free(&win));

    MPI_File file;
    char name[] = "raising.XXXXXX";
    int descriptor = mkstemp(name);
    CHECK(descriptor >= 0, "no file can be made");
    close(descriptor);
    OK(MPI_File_create_errhandler(on_file, &handler));
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    OK(MPI_File_set_errhandler(file, handler));
    OK(MPI_Errhandler_free(&handler));
    SAME(MPI_File_set_size(file, -1), added, "code of a file's handler");
    CALLED(MPI_ERR_ARG);
    SAME(MPI_File_seek(file, 0, MPI_SEEK_SET), added, "code of a file's handler for a procedure that is not built");
    CALLED(MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_close(&file));

    MPI_Session session;
    MPI_Group group;
    OK(MPI_Session_create_errhandler(on_session, &handler));
    OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
    OK(MPI_Errhandler_free(&handler));
    SAME(MPI_Group_from_session_pset(session, "none://such", &group), added, "code of a session's handler");
    calls = 0;
    OK(MPI_Session_finalize(&session));
    leave = 0;
    OK(MPI_Remove_error_code(added));
}

/* Errors of ports and spawning, with the communicator in every place that it can have. */
static void ports(void)
{
    MPI_Comm made;
    ERROR(MPI_ERR_PORT, MPI_Comm_accept("port", MPI_INFO_NULL, 0, comm, &made));
    CALLED(MPI_ERR_PORT);
    ERROR(MPI_ERR_PORT, MPI_Comm_connect("port", MPI_INFO_NULL, 0, comm, &made));
    CALLED(MPI_ERR_PORT);
    ERROR(MPI_ERR_SPAWN, MPI_Comm_spawn("no such program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, comm, &made,
                                        MPI_ERRCODES_IGNORE));
    CALLED(MPI_ERR_SPAWN);
    ERROR(MPI_ERR_COMM, MPI_Comm_accept("port", MPI_INFO_NULL, 0, MPI_COMM_NULL, &made), "MPI_COMM_NULL");
    SAME(calls_of_self, 1, "calls of the handler of MPI_COMM_SELF for MPI_COMM_NULL");
    ERROR(MPI_ERR_PORT, MPI_Close_port("port"));
    SAME(calls_of_self, 2, "calls of the handler of MPI_COMM_SELF for a procedure without an object");
    calls_of_self = 0;
}

/* Short and long; the message is here when it is received, or on its way. */
static void matched_messages(void)
{
    static char out[300000], in[300000];
    const int lengths[] = {8, 5000, sizeof out};
    int self;
    OK(MPI_Comm_rank(comm, &self));
    for (int i = 0; i < 3; i++)
        for (int how = 0; how < 2; how++) {
            MPI_Message message;
            MPI_Request request, send;
            MPI_Status status;
            OK(MPI_Isend(out, lengths[i], MPI_BYTE, self, 5, comm, &send));
            OK(MPI_Mprobe(self, 5, comm, &message, &status));
            /* A wrong argument leaves the message. */
            ERROR(MPI_ERR_COUNT, MPI_Mrecv(in, -1, MPI_BYTE, &message, &status), "count");
            CALLED(MPI_ERR_COUNT);
            ERROR(MPI_ERR_TYPE, MPI_Imrecv(in, 1, MPI_DATATYPE_NULL, &message, &request), "MPI_DATATYPE_NULL");
            CALLED(MPI_ERR_TYPE);
            if (how == 0)
                ERROR(MPI_ERR_TRUNCATE, MPI_Mrecv(in, lengths[i] - 1, MPI_BYTE, &message, &status));
            else {
                OK(MPI_Imrecv(in, lengths[i] - 1, MPI_BYTE, &message, &request));
                ERROR(MPI_ERR_TRUNCATE, MPI_Wait(&request, &status));
            }
            CALLED(MPI_ERR_TRUNCATE);
            OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        }
}

enum { MANY = 4, ALL, ALL_PERSISTENT, TEST_ALL, SOME, TEST_SOME };

static void untouched(MPI_Status statuses[MANY])
{
    memset(statuses, 0, MANY * sizeof *statuses);
    for (int i = 0; i < MANY; i++)
        statuses[i].MPI_ERROR = UNTOUCHED;
}

/* Receives that end well, but for the one in place `bad` (-1: none); the one in place 2 is null. */
static void several(int how, int bad)
{
    int self, values[MANY][2], out[2] = {1, 2}, code, count, flag = 0, indices[MANY], done = 0;
    MPI_Request requests[MANY], persistent = MPI_REQUEST_NULL;
    MPI_Status statuses[MANY];
    OK(MPI_Comm_rank(comm, &self));
    for (int i = 0; i < MANY; i++) {
        requests[i] = MPI_REQUEST_NULL;
        if (i == 2)
            continue;
        OK(MPI_Send(out, 2, MPI_INT, self, i, comm));
        if (i == 3 && how == ALL_PERSISTENT) {
            OK(MPI_Recv_init(values[i], 2, MPI_INT, self, i, comm, &persistent));
            OK(MPI_Start(&persistent));
            requests[i] = persistent;
        } else
            OK(MPI_Irecv(values[i], i == bad ? 1 : 2, MPI_INT, self, i, comm, &requests[i]));
    }
    while (done < MANY - 1) {
        untouched(statuses);
        count = MANY;
        for (int i = 0; i < MANY; i++)
            indices[i] = i;
        switch (how) {
        case TEST_ALL:
            code = MPI_Testall(MANY, requests, &flag, statuses);
            if (!flag)
                continue;
            break;
        case SOME:
            code = MPI_Waitsome(MANY, requests, &count, indices, statuses);
            break;
        case TEST_SOME:
            code = MPI_Testsome(MANY, requests, &count, indices, statuses);
            break;
        default:
            code = MPI_Waitall(MANY, requests, statuses);
        }
        int failed = 0;
        for (int i = 0; i < count; i++)
            failed |= indices[i] == bad;
        SAME(class_of(code), failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS, "class of call %d", how);
        for (int i = 0; i < count; i++) {
            if (!failed)
                SAME(statuses[i].MPI_ERROR, UNTOUCHED, "MPI_ERROR of status %d of call %d that went well", i, how);
            else if (indices[i] != bad)
                SAME(statuses[i].MPI_ERROR, MPI_SUCCESS, "MPI_ERROR of status %d of call %d", i, how);
            else {
                SAME(class_of(statuses[i].MPI_ERROR), MPI_ERR_TRUNCATE, "MPI_ERROR of the failed status, call %d", how);
                SAME(seen, statuses[i].MPI_ERROR, "code that the handler got of call %d", how);
            }
            done += how <= TEST_ALL ? (indices[i] != 2) : 1;
        }
        if (failed)
            CALLED(MPI_ERR_TRUNCATE);
        SAME(calls, 0, "calls of the handler for call %d", how);
    }
    if (persistent != MPI_REQUEST_NULL)
        OK(MPI_Request_free(&persistent));
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    begin(&argc, &argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_create_errhandler(on_comm, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Comm_create_errhandler(on_self, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    OK(MPI_Errhandler_free(&handler));
    matched_messages();
    for (int how = ALL; how <= TEST_SOME; how++)
        for (int bad = -1; bad < MANY; bad++)
            if (bad != 2 && !(bad == 3 && how == ALL_PERSISTENT))
                several(how, bad);
    /* What the handler leaves counts here too; otherwise the call's own code does. */
    leave = 1;
    left = MPI_SUCCESS;
    int self, value[2] = {1, 2};
    MPI_Request request;
    OK(MPI_Comm_rank(comm, &self));
    OK(MPI_Irecv(value, 1, MPI_INT, self, 0, comm, &request));
    OK(MPI_Send(value, 2, MPI_INT, self, 0, comm));
    SAME(MPI_Waitall(1, &request, MPI_STATUSES_IGNORE), MPI_SUCCESS, "an error in a status that the handler has seen to");
    CALLED(MPI_ERR_TRUNCATE);
    codes_that_handlers_leave();
    ports();
    OK(MPI_Comm_free(&comm));
    return end("raising");
}
