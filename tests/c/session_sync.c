/* What MPI_Session_finalize waits for: the example of three processes (MPI 4.1, section 12.3.1), in both orders; that
 * it is local where all was disconnected; and that nothing of another session holds it up. */
#include "check.h"

enum { PAUSE_US = 30000, LONG = 300000 };

/* A communicator of the first three processes, derived from a session. */
static MPI_Comm trio(MPI_Session session, const char *tag)
{
    MPI_Group world, three;
    MPI_Comm comm;
    const int first[] = {0, 1, 2};

    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    OK(MPI_Group_incl(world, 3, first, &three));
    OK(MPI_Comm_create_from_group(three, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&three));
    return comm;
}

static MPI_Session session(void)
{
    MPI_Session session;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    return session;
}

static void use(const MPI_Comm comms[2])
{
    for (int at = 0; at < 2; at++) {
        int sum;
        OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comms[at]));
        SAME(sum, 3, "the sum of the ranks on communicator %d", at + 1);
    }
}

/* The example. Processes Y and Z end the session of communicator `first` first. Were the synchronizations of X one
 * after the other, it would wait in one order for what can only come after the other one. */
static void example(MPI_Comm three, int first)
{
    MPI_Comm comms[2];
    int64_t times[3] = {0, 0, 0}, mine;

    if (me == 0) {
        MPI_Session x = session();
        comms[0] = trio(x, "communicator_1");
        comms[1] = trio(x, "communicator_2");
        use(comms);
        OK(MPI_Session_finalize(&x));
        mine = now_ns();
    } else {
        MPI_Session both[2] = {session(), session()};
        comms[0] = trio(both[0], "communicator_1");
        comms[1] = trio(both[1], "communicator_2");
        use(comms);
        OK(MPI_Session_finalize(&both[first]));
        /* Not what makes the order right, but what shows it if it is wrong. */
        usleep(PAUSE_US);
        mine = now_ns();
        OK(MPI_Session_finalize(&both[1 - first]));
    }
    MPI_Allgather(&mine, 1, MPI_INT64_T, times, 1, MPI_INT64_T, three);
    CHECK(times[0] >= times[1] && times[0] >= times[2],
          "SF(sesX) returned %lld ns before both sessions of Y and Z were finalized",
          (long long)((times[1] > times[2] ? times[1] : times[2]) - times[0]));
}

/* All was disconnected (or freed by whoever is alone): process 0 ends its session while the others wait for what it
 * sends afterwards. */
static void local(void)
{
    MPI_Session mine = session();
    MPI_Comm comm = trio(mine, "local"), copy, alone;
    MPI_Group group;

    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Group_from_session_pset(mine, "mpi://SELF", &group));
    OK(MPI_Comm_create_from_group(group, "alone", MPI_INFO_NULL, MPI_ERRORS_RETURN, &alone));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_disconnect(&copy));
    OK(MPI_Comm_disconnect(&comm));
    CHECK(comm == MPI_COMM_NULL && copy == MPI_COMM_NULL, "a disconnected communicator's handle is not null");
    if (me == 0)
        OK(MPI_Session_finalize(&mine));
    for (int peer = 1; peer < 3; peer++) {
        if (me == 0)
            MPI_Send(&peer, 1, MPI_INT, peer, 0, MPI_COMM_WORLD);
        else if (me == peer)
            MPI_Recv(&peer, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (me != 0)
        OK(MPI_Session_finalize(&mine));
}

/* A send on the communicator of the second session, whose request was freed or which is in a buffer that nobody detaches: it
 * is received between the two ends of the receiver's sessions, and X, in its only end, must not wait for it before it takes
 * part in the first. */
static void send_left_behind(int buffered)
{
    static unsigned char bytes[LONG], room[LONG + MPI_BSEND_OVERHEAD];
    MPI_Comm comms[2];

    if (me == 0) {
        MPI_Session x = session();
        MPI_Request request;
        comms[0] = trio(x, "first");
        comms[1] = trio(x, "second");
        fill(bytes, LONG, 5);
        if (buffered) {
            OK(MPI_Session_attach_buffer(x, room, sizeof room));
            OK(MPI_Bsend(bytes, LONG, MPI_BYTE, 1, 9, comms[1]));
        } else {
            OK(MPI_Isend(bytes, LONG, MPI_BYTE, 1, 9, comms[1], &request));
            OK(MPI_Request_free(&request));
        }
        OK(MPI_Session_finalize(&x));
        memset(bytes, 0, sizeof bytes);
        memset(room, 0, sizeof room);
    } else {
        MPI_Session both[2] = {session(), session()};
        comms[0] = trio(both[0], "first");
        comms[1] = trio(both[1], "second");
        OK(MPI_Session_finalize(&both[0]));
        if (me == 1) {
            usleep(PAUSE_US);
            OK(MPI_Recv(bytes, LONG, MPI_BYTE, 0, 9, comms[1], MPI_STATUS_IGNORE));
            FILLED(bytes, LONG, 5, "a send that nobody waited for before the session's end");
        }
        OK(MPI_Session_finalize(&both[1]));
    }
}

/* A send of the World Model that is received late holds up neither the end of a session nor a disconnect. */
static void of_others(MPI_Comm three)
{
    static unsigned char bytes[LONG];
    MPI_Session mine = session();
    MPI_Comm comm = trio(mine, "of others"), left = trio(mine, "left");
    int token = 1;

    if (me == 0) {
        MPI_Request request;
        fill(bytes, LONG, 6);
        OK(MPI_Isend(bytes, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Request_free(&request));
    }
    OK(MPI_Comm_disconnect(&comm));
    (void)left;
    OK(MPI_Session_finalize(&mine));
    if (me == 0) {
        MPI_Send(&token, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else if (me == 1) {
        MPI_Recv(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(bytes, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        FILLED(bytes, LONG, 6, "a send of the World Model");
    }
    /* The sender's memory is used again in the next round. */
    MPI_Barrier(three);
}

/* MPI_Comm_disconnect waits for pending communication: the sender may reuse its memory after it. The send is one of its own,
 * or a half of a request for two; it or the receive is late. */
static void pending(int count, int exchanging, int late)
{
    static unsigned char bytes[LONG];
    MPI_Session mine = session();
    MPI_Comm comm = trio(mine, "pending");
    MPI_Request request = MPI_REQUEST_NULL;

    if (me == 0) {
        fill(bytes, count, 7);
        if (late == 0)
            usleep(PAUSE_US);
        if (exchanging)
            OK(MPI_Isendrecv(bytes, count, MPI_BYTE, 2, 3, NULL, 0, MPI_BYTE, MPI_PROC_NULL, 3, comm, &request));
        else
            OK(MPI_Isend(bytes, count, MPI_BYTE, 2, 3, comm, &request));
        OK(MPI_Request_free(&request));
    } else if (me == 2) {
        memset(bytes, 0, count);
        if (late == 2)
            usleep(PAUSE_US);
        OK(MPI_Irecv(bytes, count, MPI_BYTE, 0, 3, comm, &request));
    }
    OK(MPI_Comm_disconnect(&comm));
    if (me == 0)
        memset(bytes, 0xff, count);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (me == 2)
        FILLED(bytes, count, 7, "a message received across MPI_Comm_disconnect");
    OK(MPI_Session_finalize(&mine));
}

/* Cancelled and freed sends: the answer of the receiver, which ends its session, is waited for. */
static void cancelled(int count)
{
    static unsigned char bytes[LONG];
    MPI_Session mine = session();
    MPI_Comm comm = trio(mine, "cancelled");

    if (me == 0) {
        MPI_Request requests[2];
        OK(MPI_Isend(bytes, count, MPI_BYTE, 2, 3, comm, &requests[0]));
        OK(MPI_Cancel(&requests[0]));
        OK(MPI_Request_free(&requests[0]));
        OK(MPI_Isend(bytes, count, MPI_BYTE, 1, 3, comm, &requests[1]));
        OK(MPI_Cancel(&requests[1]));
        OK(MPI_Request_free(&requests[1]));
    }
    OK(MPI_Session_finalize(&mine));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(ranks >= 3, "three processes are needed, there are %d", ranks);
    /* What others than the three do in the World Model meanwhile is nothing. */
    MPI_Comm three;
    MPI_Comm_split(MPI_COMM_WORLD, me < 3 ? 0 : MPI_UNDEFINED, me, &three);
    for (int round = 0; round < 5 && me < 3; round++) {
        example(three, 0);
        example(three, 1);
        local();
        send_left_behind(0);
        send_left_behind(1);
        of_others(three);
        for (int exchanging = 0; exchanging < 2; exchanging++) {
            pending(100, exchanging, 2);
            pending(LONG, exchanging, 2);
            pending(LONG, exchanging, 0);
        }
        cancelled(8);
        cancelled(LONG);
    }
    if (me < 3)
        MPI_Comm_free(&three);
    return end("session_sync");
}
