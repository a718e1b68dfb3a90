/* The families of Wait and Test: any, some, all; null handles, empty statuses, arrays of nothing. */
#include "check.h"

enum { MANY = 12 };

static void nothing(void)
{
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[3];
    int flag, index, count, indices[3];
    memset(&status, 0x55, sizeof status);
    MPI_Wait(requests, &status);
    STATUS_EMPTY(status);
    MPI_Test(requests, &flag, &status);
    SAME(flag, 1, "MPI_Test of MPI_REQUEST_NULL");
    STATUS_EMPTY(status);
    MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
    SAME(flag, 1, "MPI_Request_get_status of MPI_REQUEST_NULL");
    STATUS_EMPTY(status);
    MPI_Waitany(3, requests, &index, &status);
    SAME(index, MPI_UNDEFINED, "index of MPI_Waitany of null requests");
    STATUS_EMPTY(status);
    MPI_Testany(3, requests, &index, &flag, &status);
    SAME(index, MPI_UNDEFINED, "index of MPI_Testany of null requests");
    SAME(flag, 1, "flag of MPI_Testany of null requests");
    STATUS_EMPTY(status);
    MPI_Waitsome(3, requests, &count, indices, statuses);
    SAME(count, MPI_UNDEFINED, "outcount of MPI_Waitsome of null requests");
    MPI_Testsome(3, requests, &count, indices, statuses);
    SAME(count, MPI_UNDEFINED, "outcount of MPI_Testsome of null requests");
    memset(statuses, 0x55, sizeof statuses);
    MPI_Waitall(3, requests, statuses);
    for (int i = 0; i < 3; i++)
        STATUS_EMPTY(statuses[i]);
    MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
    SAME(flag, 1, "MPI_Testall of null requests");
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Waitany(0, NULL, &index, &status);
    SAME(index, MPI_UNDEFINED, "index of MPI_Waitany of no requests");
    MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE);
    SAME(flag, 1, "MPI_Testall of no requests");
    MPI_Waitsome(0, NULL, &count, NULL, MPI_STATUSES_IGNORE);
    SAME(count, MPI_UNDEFINED, "outcount of MPI_Waitsome of no requests");
}

/* A send's status is of no use but for MPI_Test_cancelled; its handle becomes null. */
static void sends(void)
{
    int value = 4, got = 0;
    MPI_Request send, receive;
    MPI_Status status;
    MPI_Irecv(&got, 1, MPI_INT, me, 1, MPI_COMM_WORLD, &receive);
    MPI_Isend(&value, 1, MPI_INT, me, 1, MPI_COMM_WORLD, &send);
    int flag, cancelled;
    do
        MPI_Request_get_status(receive, &flag, &status);
    while (!flag);
    STATUS(status, me, 1, 4);
    CHECK(receive != MPI_REQUEST_NULL, "MPI_Request_get_status ended the request");
    MPI_Wait(&receive, &status);
    STATUS(status, me, 1, 4);
    CHECK(receive == MPI_REQUEST_NULL, "MPI_Wait left the handle of a receive");
    MPI_Wait(&send, &status);
    CHECK(send == MPI_REQUEST_NULL, "MPI_Wait left the handle of a send");
    MPI_Test_cancelled(&status, &cancelled);
    SAME(cancelled, 0, "MPI_Test_cancelled of a send's status");
    SAME(got, 4, "value");
    MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &send);
    MPI_Irecv(&got, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &receive);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, &status);
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

/* Receives posted by tag; the peer sends in an order of its own, each when it is told to. */
static void post(int values[MANY], MPI_Request requests[MANY], int from)
{
    for (int i = 0; i < MANY; i++) {
        values[i] = -1;
        if (i % 5 == 3)
            requests[i] = MPI_REQUEST_NULL;
        else
            MPI_Irecv(&values[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]);
    }
}

static void give(int to, int tag)
{
    int value = 100 + tag;
    MPI_Send(&value, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
}

static int real(int tag)
{
    return tag % 5 != 3;
}

static void any(int from, int to)
{
    int values[MANY], index, flag;
    MPI_Request requests[MANY];
    MPI_Status status;
    post(values, requests, from);
    MPI_Testany(MANY, requests, &index, &flag, &status);
    SAME(flag, 0, "MPI_Testany when nothing was sent");
    SAME(index, MPI_UNDEFINED, "index of MPI_Testany when nothing was sent");
    together(MPI_COMM_WORLD);
    for (int tag = MANY - 1; tag >= 0; tag--) {
        if (!real(tag))
            continue;
        give(to, tag);
        if (tag % 2)
            MPI_Waitany(MANY, requests, &index, &status);
        else
            do
                MPI_Testany(MANY, requests, &index, &flag, &status);
            while (!flag);
        SAME(index, tag, "index of the request that ended");
        SAME(values[tag], 100 + tag, "its value");
        STATUS(status, from, tag, 4);
        CHECK(requests[tag] == MPI_REQUEST_NULL, "the handle of an ended request is left");
        together(MPI_COMM_WORLD);
    }
    MPI_Waitany(MANY, requests, &index, &status);
    SAME(index, MPI_UNDEFINED, "index when all have ended");
}

static void some(int from, int to)
{
    int values[MANY], indices[MANY], count, seen[MANY] = {0}, total = 0, wanted = 0;
    MPI_Request requests[MANY];
    MPI_Status statuses[MANY];
    post(values, requests, from);
    MPI_Testsome(MANY, requests, &count, indices, statuses);
    SAME(count, 0, "outcount of MPI_Testsome when nothing was sent");
    together(MPI_COMM_WORLD);
    for (int tag = 0; tag < MANY; tag++)
        if (real(tag)) {
            give(to, tag);
            wanted++;
        }
    while (total < wanted) {
        if (total % 2)
            MPI_Testsome(MANY, requests, &count, indices, statuses);
        else
            MPI_Waitsome(MANY, requests, &count, indices, statuses);
        CHECK(count >= (total % 2 ? 0 : 1) && count <= wanted - total, "outcount: %d of %d left", count,
              wanted - total);
        for (int i = 0; i < count; i++) {
            int index = indices[i];
            CHECK(index >= 0 && index < MANY && real(index) && !seen[index], "index %d is out of place", index);
            seen[index] = 1;
            SAME(values[index], 100 + index, "value of request %d", index);
            STATUS(statuses[i], from, index, 4);
            CHECK(requests[index] == MPI_REQUEST_NULL, "the handle of an ended request is left");
        }
        total += count;
    }
    MPI_Waitsome(MANY, requests, &count, indices, MPI_STATUSES_IGNORE);
    SAME(count, MPI_UNDEFINED, "outcount when all have ended");
}

static void all(int from, int to, int test)
{
    int values[MANY], flag;
    MPI_Request requests[MANY], before[MANY];
    MPI_Status statuses[MANY];
    post(values, requests, from);
    memcpy(before, requests, sizeof before);
    together(MPI_COMM_WORLD);
    for (int tag = 1; tag < MANY; tag++)
        if (real(tag))
            give(to, tag);
    /* One is left out: none ends. */
    for (int i = 0; i < 20; i++) {
        MPI_Testall(MANY, requests, &flag, statuses);
        SAME(flag, 0, "MPI_Testall when one was not sent");
        CHECK(memcmp(before, requests, sizeof before) == 0, "MPI_Testall ended some of its requests");
    }
    together(MPI_COMM_WORLD);
    give(to, 0);
    if (test)
        do
            MPI_Testall(MANY, requests, &flag, statuses);
        while (!flag);
    else
        MPI_Waitall(MANY, requests, statuses);
    for (int i = 0; i < MANY; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL, "the handle of request %d is left", i);
        if (real(i)) {
            SAME(values[i], 100 + i, "value of request %d", i);
            STATUS(statuses[i], from, i, 4);
        } else
            STATUS_EMPTY(statuses[i]);
    }
}

/* A request that was freed still brings its message. */
static void freed(int from, int to)
{
    int out = me, in = -1;
    MPI_Request request;
    MPI_Isend(&out, 1, MPI_INT, to, 50, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL, "MPI_Request_free left the handle");
    MPI_Recv(&in, 1, MPI_INT, from, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAME(in, from, "message of a freed request");
    together(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int from = (me + ranks - 1) % ranks, to = (me + 1) % ranks;
    nothing();
    sends();
    any(from, to);
    some(from, to);
    all(from, to, 0);
    all(from, to, 1);
    freed(from, to);
    return end("completion");
}
