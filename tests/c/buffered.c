/* Buffered mode: sends that are local, in buffers of communicators, sessions and the process (MPI 5.0 section 3.6).
 *
 * "finalize BYTES" is the standard's example: nobody detaches, and the buffer is freed after MPI_Finalize while the
 * receivers are late. */
#define _GNU_SOURCE /* memmem */
#include "check.h"

enum { LONG = 1 << 20, ROOM = 3 * LONG };

static const MPI_Comm world = MPI_COMM_WORLD;
static unsigned char *room, *out, *in;
static int next, before;

/* Whether a message of the pattern `seed` lies in the memory. */
static int lies_in(const unsigned char *memory, size_t size, size_t bytes, uint32_t seed)
{
    unsigned char *message = allocate(bytes);
    fill(message, bytes, seed);
    int found = memmem(memory, size, message, bytes) != NULL;
    free(message);
    return found;
}

static void receive(size_t bytes, int tag, MPI_Comm comm, uint32_t seed, const char *what)
{
    MPI_Status status;
    memset(in, 0, bytes);
    OK(MPI_Recv(in, (int)bytes, MPI_BYTE, before, tag, comm, &status));
    STATUS(status, before, tag, (int)bytes);
    FILLED(in, bytes, seed, what);
}

static void attach(void)
{
    memset(room, 0, ROOM);
    OK(MPI_Buffer_attach(room, ROOM));
}

static void detach(void)
{
    void *address = NULL;
    int size = -1;
    OK(MPI_Buffer_detach(&address, &size));
    CHECK(address == room, "MPI_Buffer_detach gives %p for %p", address, (void *)room);
    SAME(size, ROOM, "MPI_Buffer_detach's size");
}

/* All send before any receives; what was sent is overwritten, and the buffer after its detach. */
static void local(void)
{
    static const int sizes[] = {0, 1, 7, 500, 1 << 12, 20000, 100000, LONG};
    const int n = sizeof sizes / sizeof *sizes;
    attach();
    for (int i = 0; i < n; i++) {
        fill(out, sizes[i], me + 10 * i);
        OK(MPI_Bsend(out, sizes[i], MPI_BYTE, next, i, world));
        memset(out, 0xee, sizes[i]);
    }
    /* Against the order. */
    for (int i = n - 1; i >= 0; i--)
        receive(sizes[i], i, world, before + 10 * i, "buffered message");
    detach();
    /* With what is left of the buffer the same in one go, received when the sender has detached. */
    attach();
    fill(out, LONG, me);
    MPI_Request request;
    MPI_Irecv(in, LONG, MPI_BYTE, before, 1, world, &request);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 1, world));
    detach();
    memset(room, 0xee, ROOM);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    FILLED(in, LONG, before, "message of a buffer that was detached");
}

/* The data is in the user's memory; so much fits, and not more. */
static void limits(void)
{
    char text[32];
    attach();
    fill(out, LONG, me);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 0, world));
    CHECK(lies_in(room, ROOM, LONG, me), "a message that waits is not in the buffer");
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 0, world));
    snprintf(text, sizeof text, "%d", LONG);
    ERROR(MPI_ERR_BUFFER, MPI_Bsend(out, LONG + 1, MPI_BYTE, next, 0, world), "buffer", text, "free");
    snprintf(text, sizeof text, "%d", ROOM);
    ERROR(MPI_ERR_BUFFER, MPI_Bsend(out, ROOM + 1, MPI_BYTE, next, 0, world), "buffer", text);
    MPI_Request request;
    ERROR(MPI_ERR_BUFFER, MPI_Ibsend(out, ROOM + 1, MPI_BYTE, next, 0, world, &request), "buffer", text);
    /* The third part is still free. */
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 0, world));
    /* Other modes use no buffer. */
    MPI_Request other;
    fill(out, LONG, me + 1000);
    OK(MPI_Isend(out, LONG, MPI_BYTE, next, 9, world, &other));
    CHECK(!lies_in(room, ROOM, LONG, me + 1000), "a message of standard mode is in the buffer for buffered mode");
    /* Until here nobody has made room by receiving. */
    together(world);
    for (int i = 0; i < 3; i++)
        receive(LONG, 0, world, before, "message of a full buffer");
    receive(LONG, 9, world, before + 1000, "message of standard mode");
    OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
    detach();

    /* Nothing attached: as a buffer of no bytes. */
    ERROR(MPI_ERR_BUFFER, MPI_Bsend(out, 1, MPI_BYTE, next, 0, world), "no buffer");
    OK(MPI_Bsend(out, 0, MPI_BYTE, next, 5, world));
    OK(MPI_Bsend(out, 10, MPI_BYTE, MPI_PROC_NULL, 5, world));
    receive(0, 5, world, 0, "empty message");
    /* Nothing to flush, and nothing to detach. */
    OK(MPI_Buffer_flush());
    void *address = room;
    int size = -1;
    OK(MPI_Buffer_detach(&address, &size));
    CHECK(address == NULL && size == 0, "without a buffer, MPI_Buffer_detach gives %p and %d", address, size);
    together(world);
}

/* The standard's sum: the packed sizes and an overhead for each message. */
static void overhead(void)
{
    enum { MESSAGES = 12 };
    int packed, sum = 0;
    MPI_Datatype column;
    OK(MPI_Type_vector(1000, 1, 40, MPI_BYTE, &column));
    OK(MPI_Type_commit(&column));
    for (int i = 0; i < MESSAGES; i++) {
        OK(MPI_Pack_size(10 * (i + 1), column, world, &packed));
        sum += packed + MPI_BSEND_OVERHEAD;
    }
    unsigned char *exact = allocate(sum);
    OK(MPI_Buffer_attach(exact, sum));
    fill(out, 40 * 1000, me);
    MPI_Datatype columns;
    OK(MPI_Type_create_resized(column, 0, 0, &columns));
    OK(MPI_Type_commit(&columns));
    for (int i = 0; i < MESSAGES; i++)
        OK(MPI_Bsend(out, 10 * (i + 1), columns, next, i, world));
    memset(out, 0, 40 * 1000);
    unsigned char *expected = allocate(40 * 1000);
    fill(expected, 40 * 1000, before);
    for (int i = 0; i < MESSAGES; i++) {
        OK(MPI_Recv(in, 10000 * (i + 1), MPI_BYTE, before, i, world, MPI_STATUS_IGNORE));
        for (int k = 0; k < 10000 * (i + 1); k++)
            SAME(in[k], expected[k % 1000 * 40], "byte %d of message %d of a vector", k, i);
    }
    void *address;
    int size;
    OK(MPI_Buffer_detach(&address, &size));
    CHECK(address == exact && size == sum, "detached %d bytes for %d", size, sum);
    free(exact);
    free(expected);
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&columns));
}

/* Flush waits for what is in the buffer, and leaves it attached. */
static void flush(void)
{
    MPI_Request request;
    int flag;
    attach();
    fill(out, LONG, me);
    OK(MPI_Buffer_iflush(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 0, world));
    OK(MPI_Buffer_iflush(&request));
    for (int i = 0; i < 50; i++) {
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0, "MPI_Test of a flush of a message that nobody has received");
    }
    together(world);
    receive(LONG, 0, world, before, "message that is flushed");
    MPI_Status status;
    OK(MPI_Wait(&request, &status));
    STATUS_EMPTY(status);
    /* Two flushes with a message in between. The receive is there, so that the flush need not wait for the program. */
    MPI_Request receives[2];
    OK(MPI_Irecv(in, LONG, MPI_BYTE, before, 1, world, &receives[0]));
    OK(MPI_Irecv(in + LONG, LONG, MPI_BYTE, before, 2, world, &receives[1]));
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 1, world));
    OK(MPI_Buffer_iflush(&request));
    fill(out, LONG, me + 100);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 2, world));
    OK(MPI_Buffer_flush());
    memset(room, 0xee, ROOM);
    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 1, "MPI_Test of a flush before one that has ended");
    OK(MPI_Waitall(2, receives, MPI_STATUSES_IGNORE));
    FILLED(in, LONG, before, "first flushed message");
    FILLED(in + LONG, LONG, before + 100, "second flushed message");
    detach();
}

/* A communicator's buffer comes before the process's; AUTOMATIC has room for all. */
static void owners(void)
{
    MPI_Comm comm;
    unsigned char *own = allocate(LONG);
    void *address;
    MPI_Count size;
    OK(MPI_Comm_dup(world, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    memset(own, 0, LONG);
    attach();
    OK(MPI_Comm_attach_buffer_c(comm, own, LONG));
    fill(out, LONG, me);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 0, comm));
    CHECK(lies_in(own, LONG, LONG, me), "a message is not in its communicator's buffer");
    CHECK(!lies_in(room, ROOM, LONG, me), "a message is in the process's buffer, not in its communicator's");
    ERROR(MPI_ERR_BUFFER, MPI_Bsend(out, LONG, MPI_BYTE, next, 0, comm), "free");
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 0, world));
    CHECK(lies_in(room, ROOM, LONG, me), "a message of another communicator is not in the process's buffer");
    together(world);
    receive(LONG, 0, comm, before, "message of a communicator's buffer");
    receive(LONG, 0, world, before, "message of the process's buffer");
    OK(MPI_Comm_flush_buffer(comm));
    OK(MPI_Comm_detach_buffer_c(comm, &address, &size));
    CHECK(address == own && size == LONG, "MPI_Comm_detach_buffer_c gives %p and %lld", address, (long long)size);

    OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, -5));
    MPI_Request request;
    for (int i = 0; i < 5; i++) {
        fill(out, LONG, me + i);
        OK(MPI_Bsend(out, LONG, MPI_BYTE, next, i, comm));
    }
    OK(MPI_Comm_iflush_buffer(comm, &request));
    for (int i = 4; i >= 0; i--)
        receive(LONG, i, comm, before + i, "message of an automatic buffer");
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    int small;
    OK(MPI_Comm_detach_buffer(comm, &address, &small));
    CHECK(address == MPI_BUFFER_AUTOMATIC, "MPI_Comm_detach_buffer gives %p for MPI_BUFFER_AUTOMATIC", address);
    detach();

    /* Freed and disconnected communicators give their buffers back. */
    for (int how = 0; how < 2; how++) {
        MPI_Comm copy;
        OK(MPI_Comm_dup(world, &copy));
        OK(MPI_Comm_attach_buffer(copy, own, LONG));
        fill(out, LONG, me + how);
        OK(MPI_Irecv(in, LONG, MPI_BYTE, before, 1, copy, &request));
        OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 1, copy));
        OK(how == 0 ? MPI_Comm_free(&copy) : MPI_Comm_disconnect(&copy));
        memset(own, 0xee, LONG);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        FILLED(in, LONG, before + how, "message of a communicator that was freed or disconnected");
    }
    OK(MPI_Comm_free(&comm));
    free(own);
}

/* A rank of an intercommunicator is one of the other group. */
static void between_groups(void)
{
    if (ranks < 2)
        return;
    MPI_Comm half, inter;
    int rank, others;
    void *address;
    int size;
    OK(MPI_Comm_split(world, me % 2, me, &half));
    OK(MPI_Intercomm_create(half, 0, world, 1 - me % 2, 77, &inter));
    OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Comm_remote_size(inter, &others));
    OK(MPI_Comm_attach_buffer(inter, MPI_BUFFER_AUTOMATIC, 0));
    if (rank < others) {
        fill(out, LONG, me);
        OK(MPI_Bsend(out, LONG, MPI_BYTE, rank, 0, inter));
        OK(MPI_Recv(in, LONG, MPI_BYTE, rank, 0, inter, MPI_STATUS_IGNORE));
        FILLED(in, LONG, me ^ 1, "message of the other group");
    }
    OK(MPI_Comm_detach_buffer(inter, &address, &size));
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

/* A session's buffer serves its communicators, and goes back at its end. */
static void sessions(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    unsigned char *own = allocate(2 * LONG);
    void *address;
    int size;
    memset(own, 0, 2 * LONG);
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "weft.tests.buffered", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    attach();
    OK(MPI_Session_attach_buffer(session, own, 2 * LONG));
    ERROR(MPI_ERR_BUFFER, MPI_Session_attach_buffer(session, own, LONG), "session", "already");
    fill(out, LONG, me);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 0, comm));
    CHECK(lies_in(own, LONG, LONG, me), "a message is not in its session's buffer");
    OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
    fill(out, LONG, me + 1);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 1, comm));
    CHECK(!lies_in(own, 2 * LONG, LONG, me + 1), "a message is in the session's buffer, not in its communicator's");
    receive(LONG, 0, comm, before, "message of a session's buffer");
    receive(LONG, 1, comm, before + 1, "message of a communicator's buffer");
    OK(MPI_Session_flush_buffer(session));
    OK(MPI_Session_detach_buffer(session, &address, &size));
    CHECK(address == own && size == 2 * LONG, "MPI_Session_detach_buffer gives %p and %d", address, size);
    /* Without a session's and a communicator's, the process's. */
    OK(MPI_Comm_detach_buffer(comm, &address, &size));
    fill(out, LONG, me + 2);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 2, comm));
    CHECK(lies_in(room, ROOM, LONG, me + 2), "a message of a session's communicator is not in the process's buffer");
    receive(LONG, 2, comm, before + 2, "message of the process's buffer");
    detach();
    OK(MPI_Session_attach_buffer_c(session, own, LONG));
    MPI_Request request, flushed;
    OK(MPI_Session_iflush_buffer(session, &flushed));
    OK(MPI_Wait(&flushed, MPI_STATUS_IGNORE));
    OK(MPI_Irecv(in, LONG, MPI_BYTE, before, 3, comm, &request));
    fill(out, LONG, me + 3);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 3, comm));
    together(comm);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Session_finalize(&session));
    memset(own, 0xee, LONG);
    FILLED(in, LONG, before + 3, "message of a session that ended");
    free(own);
}

/* A buffer of the process (0), a session (1) or a communicator (2). */
struct level {
    int which;
    MPI_Session session;
    MPI_Comm comm;
};

static int attach_at(struct level at, void *buffer, int size)
{
    return at.which == 0   ? MPI_Buffer_attach(buffer, size)
           : at.which == 1 ? MPI_Session_attach_buffer(at.session, buffer, size)
                           : MPI_Comm_attach_buffer(at.comm, buffer, size);
}

static int detach_at(struct level at, void *buffer, int *size)
{
    return at.which == 0   ? MPI_Buffer_detach(buffer, size)
           : at.which == 1 ? MPI_Session_detach_buffer(at.session, buffer, size)
                           : MPI_Comm_detach_buffer(at.comm, buffer, size);
}

static int flush_at(struct level at)
{
    return at.which == 0   ? MPI_Buffer_flush()
           : at.which == 1 ? MPI_Session_flush_buffer(at.session)
                           : MPI_Comm_flush_buffer(at.comm);
}

static int iflush_at(struct level at, MPI_Request *request)
{
    return at.which == 0   ? MPI_Buffer_iflush(request)
           : at.which == 1 ? MPI_Session_iflush_buffer(at.session, request)
                           : MPI_Comm_iflush_buffer(at.comm, request);
}

/* On each level, with a buffer of the user's and with an automatic one: a nonblocking flush has not ended while a message
 * waits, flush and detach return when the receives have been started, and what was the message's memory is the user's. */
static void waits_at(struct level at, int automatic)
{
    unsigned char *own = allocate(LONG);
    MPI_Request flushed, receives[2];
    void *address = NULL;
    int size, flag;
    OK(attach_at(at, automatic ? MPI_BUFFER_AUTOMATIC : own, LONG));
    ERROR(MPI_ERR_BUFFER, attach_at(at, room, ROOM), "already");
    ERROR(MPI_ERR_BUFFER, attach_at(at, MPI_BUFFER_AUTOMATIC, 0), "already");

    fill(out, LONG, me);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 0, at.comm));
    OK(iflush_at(at, &flushed));
    for (int i = 0; i < 20; i++) {
        OK(MPI_Test(&flushed, &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0, "flush on level %d of a message that nobody has received", at.which);
    }
    together(at.comm);
    receive(LONG, 0, at.comm, before, "message that a flush waits for");
    OK(MPI_Wait(&flushed, MPI_STATUS_IGNORE));

    OK(MPI_Irecv(in, LONG, MPI_BYTE, before, 1, at.comm, &receives[0]));
    OK(MPI_Irecv(in + LONG, LONG, MPI_BYTE, before, 2, at.comm, &receives[1]));
    /* Ranks come late to what they send. */
    usleep(me % 3 * 2000);
    fill(out, LONG, me + 1);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 1, at.comm));
    OK(flush_at(at));
    memset(own, 0xee, LONG);
    fill(out, LONG, me + 2);
    OK(MPI_Bsend(out, LONG, MPI_BYTE, next, 2, at.comm));
    OK(detach_at(at, &address, &size));
    CHECK(address == (automatic ? MPI_BUFFER_AUTOMATIC : own), "detached %p on level %d", address, at.which);
    memset(own, 0xee, LONG);
    free(own);
    CHECK(automatic || size == LONG, "detached %d bytes on level %d", size, at.which);
    ERROR(MPI_ERR_BUFFER, MPI_Bsend(out, 1, MPI_BYTE, next, 3, at.comm), "no buffer");
    OK(MPI_Waitall(2, receives, MPI_STATUSES_IGNORE));
    FILLED(in, LONG, before + 1, "message that was flushed");
    FILLED(in + LONG, LONG, before + 2, "message that was waited for by the detach");
    together(at.comm);
}

static void levels(void)
{
    struct level at;
    MPI_Group group;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &at.session));
    OK(MPI_Group_from_session_pset(at.session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "weft.tests.levels", MPI_INFO_NULL, MPI_ERRORS_RETURN, &at.comm));
    OK(MPI_Group_free(&group));
    for (at.which = 0; at.which < 3; at.which++)
        for (int automatic = 0; automatic < 2; automatic++)
            waits_at(at, automatic);
    OK(MPI_Comm_disconnect(&at.comm));
    OK(MPI_Session_finalize(&at.session));
}

/* Complete from the start, and nobody receives what was cancelled. */
static void nonblocking(int bytes)
{
    MPI_Request request;
    MPI_Status status;
    int flag, cancelled;
    attach();
    fill(out, bytes, me);
    OK(MPI_Ibsend(out, bytes, MPI_BYTE, next, 0, world, &request));
    OK(MPI_Request_get_status(request, &flag, &status));
    SAME(flag, 1, "MPI_Request_get_status of a buffered send of %d bytes", bytes);
    OK(MPI_Wait(&request, &status));
    STATUS_EMPTY(status);
    memset(out, 0xee, bytes);
    receive(bytes, 0, world, before, "message of MPI_Ibsend");

    OK(MPI_Ibsend_c(out, bytes, MPI_BYTE, next, 1, world, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    SAME(cancelled, 1, "cancelled buffered send of %d bytes that nobody receives", bytes);
    /* When the message has got as far as it can. */
    OK(MPI_Ibsend(out, bytes, MPI_BYTE, next, 2, world, &request));
    together(world);
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    SAME(cancelled, 1, "cancelled buffered send of %d bytes that has arrived", bytes);
    together(world);
    for (int tag = 1; tag <= 2; tag++) {
        OK(MPI_Iprobe(before, tag, world, &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0, "MPI_Iprobe of a cancelled message with tag %d", tag);
    }
    /* Nobody sends with these tags again before all have looked. */
    together(world);
    /* Their room is free again: nothing keeps the detach. */
    detach();

    attach();
    fill(out, bytes, me);
    OK(MPI_Ibsend(out, bytes, MPI_BYTE, next, 3, world, &request));
    OK(MPI_Request_free(&request));
    memset(out, 0xee, bytes);
    receive(bytes, 3, world, before, "message of a freed request");
    OK(MPI_Ibsend(out, bytes, MPI_BYTE, MPI_PROC_NULL, 3, world, &request));
    OK(MPI_Wait(&request, &status));
    STATUS_EMPTY(status);
    detach();
}

static void errors(void)
{
    MPI_Request request;
    void *address;
    int size;
    ERROR(MPI_ERR_ARG, MPI_Buffer_attach(room, -3), "size", "-3");
    ERROR(MPI_ERR_ARG, MPI_Buffer_attach_c(room, -4), "size", "-4");
    ERROR(MPI_ERR_BUFFER, MPI_Buffer_attach(NULL, 10), "buffer", "null", "10");
    attach();
    ERROR(MPI_ERR_BUFFER, MPI_Buffer_attach(room, 10), "already", "process");
    ERROR(MPI_ERR_ARG, MPI_Buffer_detach(NULL, &size), "buffer_addr");
    ERROR(MPI_ERR_ARG, MPI_Buffer_detach(&address, NULL), "size");
    ERROR(MPI_ERR_ARG, MPI_Buffer_iflush(NULL), "request");
    ERROR(MPI_ERR_RANK, MPI_Bsend(out, 1, MPI_INT, ranks, 0, world), "destination");
    ERROR(MPI_ERR_RANK, MPI_Bsend_c(out, 1, MPI_INT, -9, 0, world), "destination", "-9");
    ERROR(MPI_ERR_COUNT, MPI_Bsend(out, -1, MPI_INT, 0, 0, world), "count", "-1");
    ERROR(MPI_ERR_TAG, MPI_Ibsend(out, 1, MPI_INT, 0, -7, world, &request), "tag", "-7");
    ERROR(MPI_ERR_TYPE, MPI_Bsend(out, 1, MPI_DATATYPE_NULL, 0, 0, world), "MPI_DATATYPE_NULL");
    ERROR(MPI_ERR_COMM, MPI_Bsend(out, 1, MPI_INT, 0, 0, MPI_COMM_NULL), "MPI_COMM_NULL");
    ERROR(MPI_ERR_BUFFER, MPI_Bsend(NULL, 1, MPI_INT, 0, 0, world), "buf");
    ERROR(MPI_ERR_COMM, MPI_Comm_attach_buffer(MPI_COMM_NULL, room, 10), "MPI_COMM_NULL");
    ERROR(MPI_ERR_COMM, MPI_Comm_detach_buffer(MPI_COMM_NULL, &address, &size), "MPI_COMM_NULL");
    ERROR(MPI_ERR_COMM, MPI_Comm_flush_buffer(MPI_COMM_NULL), "MPI_COMM_NULL");
    ERROR(MPI_ERR_SESSION, MPI_Session_attach_buffer(MPI_SESSION_NULL, room, 10), "MPI_SESSION_NULL");
    ERROR(MPI_ERR_SESSION, MPI_Session_flush_buffer(MPI_SESSION_NULL), "MPI_SESSION_NULL");
    OK(MPI_Comm_attach_buffer(world, MPI_BUFFER_AUTOMATIC, 0));
    ERROR(MPI_ERR_BUFFER, MPI_Comm_attach_buffer(world, room, 10), "already", "MPI_COMM_WORLD", "MPI_BUFFER_AUTOMATIC");
    OK(MPI_Comm_detach_buffer(world, &address, &size));
    detach();
    /* A message of MPI_BOTTOM. */
    MPI_Aint place;
    MPI_Datatype absolute;
    int one = 1;
    OK(MPI_Get_address(out, &place));
    OK(MPI_Type_create_hindexed(1, &one, &place, MPI_BYTE, &absolute));
    OK(MPI_Type_commit(&absolute));
    attach();
    out[0] = 200 + me;
    OK(MPI_Bsend(MPI_BOTTOM, 1, absolute, next, 0, world));
    OK(MPI_Recv(in, 1, MPI_BYTE, before, 0, world, MPI_STATUS_IGNORE));
    SAME(in[0], 200 + before, "message from MPI_BOTTOM");
    detach();
    OK(MPI_Type_free(&absolute));
}

static int finalize(int bytes, int automatic)
{
    unsigned char *buffer = allocate(2 * bytes + MPI_BSEND_OVERHEAD * ranks);
    MPI_Comm comm;
    MPI_Comm_dup(world, &comm);
    if (me == 0) {
        if (automatic)
            MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0);
        else
            MPI_Buffer_attach(buffer, 2 * bytes + MPI_BSEND_OVERHEAD * ranks);
        unsigned char *message = allocate(bytes);
        fill(message, bytes, 3);
        MPI_Bsend(message, bytes, MPI_BYTE, ranks - 1, 1, comm);
        MPI_Bsend(message, bytes, MPI_BYTE, 0, 1, comm);
        free(message);
        MPI_Request request;
        MPI_Irecv(in, bytes, MPI_BYTE, 0, 1, comm, &request);
        if (ranks == 1)
            MPI_Recv(in + LONG, bytes, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        FILLED(in, bytes, 3, "message to itself");
    } else if (me == ranks - 1) {
        usleep(100000);
        MPI_Recv(in, bytes, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
        FILLED(in, bytes, 3, "message of a rank that is in MPI_Finalize");
    }
    MPI_Finalize();
    memset(buffer, 0xee, 2 * bytes);
    free(buffer);
    if (me == 0)
        printf("buffered: ok with %d ranks\n", ranks);
    return 0;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    room = allocate(ROOM);
    out = allocate(ROOM + 1);
    in = allocate(2 * LONG);
    next = (me + 1) % ranks;
    before = (me + ranks - 1) % ranks;
    if (argc > 2)
        return finalize(atoi(argv[2]), strcmp(argv[1], "automatic") == 0);
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    local();
    limits();
    overhead();
    flush();
    owners();
    between_groups();
    sessions();
    levels();
    nonblocking(8);
    nonblocking(LONG);
    errors();
    return end("buffered");
}
