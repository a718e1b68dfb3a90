/* A message longer than its receive: MPI_ERR_TRUNCATE, nothing written behind the buffer, and the next one arrives. */
#include "check.h"

enum { MOST = 1 << 20, GUARD = 64 };

static unsigned char out[MOST], in[MOST + GUARD];

static void guarded(int room)
{
    for (int i = 0; i < GUARD; i++)
        SAME(in[room + i], 0xcc, "byte %d behind a buffer of %d bytes", i, room);
}

/* One message too long, by each kind of receive, posted before and after the message came; then one that fits. */
static void too_long(int bytes, int room, int early)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    MPI_Request send, receive;
    MPI_Status status;
    memset(in, 0xcc, sizeof in);
    if (early)
        MPI_Irecv(in, room, MPI_BYTE, before, 1, MPI_COMM_WORLD, &receive);
    together(MPI_COMM_WORLD);
    MPI_Isend(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, &send);
    int code;
    if (early) {
        code = MPI_Wait(&receive, &status);
        CHECK(receive == MPI_REQUEST_NULL, "the handle of a truncated receive is left");
    } else {
        MPI_Probe(before, 1, MPI_COMM_WORLD, &status);
        STATUS(status, before, 1, bytes);
        code = MPI_Recv(in, room, MPI_BYTE, before, 1, MPI_COMM_WORLD, &status);
    }
    SAME(class_of(code), MPI_ERR_TRUNCATE, "class of a receive of %d bytes into %d", bytes, room);
    /* The count is of what is in the buffer. */
    STATUS(status, before, 1, room);
    FILLED(in, room, 3, "what has fitted of a truncated message");
    guarded(room);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    MPI_Isend(out, room, MPI_BYTE, next, 2, MPI_COMM_WORLD, &send);
    OK(MPI_Recv(in, room, MPI_BYTE, before, 2, MPI_COMM_WORLD, &status));
    STATUS(status, before, 2, room);
    FILLED(in, room, 3, "message after a truncated one");
    guarded(room);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

/* Among several requests the error is told in the statuses. */
static void in_statuses(void)
{
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    char rooms[3][10];
    MPI_Request sends[3], receives[3];
    MPI_Status statuses[3];
    for (int i = 0; i < 3; i++)
        MPI_Irecv(rooms[i], 10, MPI_BYTE, before, i, MPI_COMM_WORLD, &receives[i]);
    for (int i = 0; i < 3; i++)
        MPI_Isend(out, i == 1 ? 11 : 10, MPI_BYTE, next, i, MPI_COMM_WORLD, &sends[i]);
    int code = MPI_Waitall(3, receives, statuses);
    SAME(class_of(code), MPI_ERR_IN_STATUS, "class of MPI_Waitall with one truncated message");
    /* What has neither ended nor failed is pending. */
    for (int i = 0; i < 3; i++)
        if (class_of(statuses[i].MPI_ERROR) == MPI_ERR_PENDING)
            statuses[i].MPI_ERROR = MPI_Wait(&receives[i], MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++)
        SAME(class_of(statuses[i].MPI_ERROR), i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS, "error of status %d", i);
    STATUS(statuses[1], before, 1, 10);
    OK(MPI_Waitall(3, sends, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    fill(out, MOST, 3);
    const int sizes[] = {1, 40, 4000, 20000, 200000, MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int early = 0; early < 2; early++) {
            too_long(sizes[i], sizes[i] / 2, early);
            too_long(sizes[i], sizes[i] - 1, early);
            too_long(sizes[i], 0, early);
        }
    in_statuses();
    return end("truncation");
}
