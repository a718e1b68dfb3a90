/* Probes see a message without receiving it; matched probes take it, so that no other receive can have it. */
#include "check.h"

enum { MOST = 300000 };

static unsigned char out[4 * MOST], in[MOST];

/* Probe tells what the next receive gets, for each way to name the message. */
static void probe(int bytes)
{
    MPI_Status status;
    int flag = 0;
    if (me == 1) {
        fill(out, bytes, 1);
        MPI_Send(out, bytes, MPI_BYTE, 0, 11, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (me == 0) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        STATUS(status, 1, 11, bytes);
        MPI_Probe(1, 11, MPI_COMM_WORLD, &status);
        STATUS(status, 1, 11, bytes);
        MPI_Iprobe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        SAME(flag, 1, "MPI_Iprobe of a message that MPI_Probe has seen");
        STATUS(status, 1, 11, bytes);
        MPI_Iprobe(MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, &flag, &status);
        SAME(flag, 0, "MPI_Iprobe with another tag");
        MPI_Iprobe(0, 11, MPI_COMM_WORLD, &flag, &status);
        SAME(flag, 0, "MPI_Iprobe of another source");
        MPI_Iprobe(MPI_ANY_SOURCE, 11, MPI_COMM_SELF, &flag, &status);
        SAME(flag, 0, "MPI_Iprobe on another communicator");
        memset(in, 0, bytes);
        MPI_Recv(in, bytes, MPI_BYTE, 1, 11, MPI_COMM_WORLD, &status);
        STATUS(status, 1, 11, bytes);
        FILLED(in, bytes, 1, "probed message");
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        SAME(flag, 0, "MPI_Iprobe when all is received");
        MPI_Send(NULL, 0, MPI_BYTE, 1, 12, MPI_COMM_WORLD);
    }
}

/* What Mprobe took, a receive does not get; the next message is the receive's. */
static void matched(int bytes)
{
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL, second = MPI_MESSAGE_NULL;
    MPI_Request request;
    int flag;
    if (me == 1) {
        MPI_Request requests[4];
        for (int i = 0; i < 4; i++) {
            fill(out + i * bytes, bytes, i);
            MPI_Isend(out + i * bytes, bytes, MPI_BYTE, 0, 21, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    } else if (me == 0) {
        MPI_Mprobe(1, 21, MPI_COMM_WORLD, &message, &status);
        STATUS(status, 1, 21, bytes);
        CHECK(message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC, "MPI_Mprobe gave no message");
        do
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &second, &status);
        while (!flag);
        STATUS(status, 1, 21, bytes);
        MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, 21, MPI_COMM_WORLD, &status);
        FILLED(in, bytes, 2, "third message, while two are held by probes");
        MPI_Imrecv(in, bytes, MPI_BYTE, &second, &request);
        CHECK(second == MPI_MESSAGE_NULL, "MPI_Imrecv left its message handle");
        MPI_Wait(&request, &status);
        STATUS(status, 1, 21, bytes);
        FILLED(in, bytes, 1, "message of MPI_Imrecv");
        memset(in, 0, bytes);
        MPI_Mrecv(in, bytes, MPI_BYTE, &message, &status);
        CHECK(message == MPI_MESSAGE_NULL, "MPI_Mrecv left its message handle");
        STATUS(status, 1, 21, bytes);
        FILLED(in, bytes, 0, "message of MPI_Mrecv");
        MPI_Recv(in, bytes, MPI_BYTE, 1, 21, MPI_COMM_WORLD, &status);
        FILLED(in, bytes, 3, "fourth message");
    }
}

/* A matched synchronous send ends with the receive, not with the probe. */
static void synchronous(void)
{
    MPI_Message message;
    MPI_Request request;
    int flag;
    if (me == 1) {
        MPI_Issend(out, 10, MPI_BYTE, 0, 41, MPI_COMM_WORLD, &request);
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        MPI_Send(&flag, 1, MPI_INT, 0, 43, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (me == 0) {
        MPI_Mprobe(MPI_ANY_SOURCE, 41, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 42, MPI_COMM_WORLD);
        MPI_Recv(&flag, 1, MPI_INT, 1, 43, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Mrecv(in, 10, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        SAME(flag, 0, "end of a synchronous send whose receive had not begun");
    }
}

static void nobody(void)
{
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int flag;
    MPI_Probe(MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &status);
    SAME(flag, 1, "MPI_Iprobe of MPI_PROC_NULL");
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Improbe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &message, &status);
    SAME(flag, 1, "MPI_Improbe of MPI_PROC_NULL");
    CHECK(message == MPI_MESSAGE_NO_PROC, "MPI_Improbe of MPI_PROC_NULL gave another message");
    MPI_Imrecv(in, 1, MPI_BYTE, &message, &request);
    MPI_Wait(&request, &status);
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC, "MPI_Mprobe of MPI_PROC_NULL gave another message");
    MPI_Mrecv(in, 1, MPI_BYTE, &message, &status);
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    CHECK(message == MPI_MESSAGE_NULL, "MPI_Mrecv left MPI_MESSAGE_NO_PROC");
}

static void self(void)
{
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, 51, MPI_COMM_SELF, &flag, &status);
    SAME(flag, 0, "MPI_Iprobe of nothing");
    fill(out, MOST, 9);
    MPI_Isend(out, MOST, MPI_BYTE, 0, 51, MPI_COMM_SELF, &request);
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &message, &status);
    STATUS(status, 0, 51, MOST);
    MPI_Mrecv(in, MOST, MPI_BYTE, &message, &status);
    STATUS(status, 0, 51, MOST);
    FILLED(in, MOST, 9, "message to self");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    nobody();
    self();
    if (ranks > 1) {
        const int sizes[] = {0, 40, 9000, MOST};
        for (int i = 0; i < 4; i++) {
            probe(sizes[i]);
            matched(sizes[i]);
        }
        synchronous();
    }
    return end("probe");
}
