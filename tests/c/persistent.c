/* Persistent requests in all modes, inactive ones everywhere, and exchanges with one request (MPI 5.0 sections 3.9 and
 * 3.10). */
#include "check.h"

enum { LONG = 300000, ROUNDS = 20 };

static const MPI_Comm world = MPI_COMM_WORLD;
static int next, before;

/* Active or inactive, with a status as it has to be. */
static void is_inactive(MPI_Request *request, const char *what)
{
    /* An empty status has no error, also where calls for one request leave that field alone otherwise. */
    MPI_Request copy = *request;
    MPI_Status status, statuses[2];
    int flag, index, count, indices[2];
    MPI_Request both[2] = {*request, MPI_REQUEST_NULL};

    status.MPI_ERROR = MPI_ERR_OTHER;
    OK(MPI_Wait(request, &status));
    SAME(status.MPI_ERROR, MPI_SUCCESS, "%s: MPI_ERROR of MPI_Wait's status", what);
    STATUS_EMPTY(status);
    flag = 0;
    status.MPI_ERROR = MPI_ERR_OTHER;
    OK(MPI_Test(request, &flag, &status));
    SAME(status.MPI_ERROR, MPI_SUCCESS, "%s: MPI_ERROR of MPI_Test's status", what);
    SAME(flag, 1, "%s: MPI_Test", what);
    STATUS_EMPTY(status);
    flag = 0;
    status.MPI_ERROR = MPI_ERR_OTHER;
    OK(MPI_Request_get_status(*request, &flag, &status));
    SAME(status.MPI_ERROR, MPI_SUCCESS, "%s: MPI_ERROR of MPI_Request_get_status's status", what);
    SAME(flag, 1, "%s: MPI_Request_get_status", what);
    STATUS_EMPTY(status);
    OK(MPI_Waitall(2, both, statuses));
    STATUS_EMPTY(statuses[0]);
    flag = 0;
    OK(MPI_Testall(2, both, &flag, statuses));
    SAME(flag, 1, "%s: MPI_Testall", what);
    STATUS_EMPTY(statuses[0]);
    index = 5;
    status.MPI_ERROR = MPI_ERR_OTHER;
    OK(MPI_Waitany(2, both, &index, &status));
    SAME(status.MPI_ERROR, MPI_SUCCESS, "%s: MPI_ERROR of MPI_Waitany's status", what);
    SAME(index, MPI_UNDEFINED, "%s: MPI_Waitany's index", what);
    STATUS_EMPTY(status);
    flag = 0, index = 5;
    status.MPI_ERROR = MPI_ERR_OTHER;
    OK(MPI_Testany(2, both, &index, &flag, &status));
    SAME(status.MPI_ERROR, MPI_SUCCESS, "%s: MPI_ERROR of MPI_Testany's status", what);
    SAME(index, MPI_UNDEFINED, "%s: MPI_Testany's index", what);
    SAME(flag, 1, "%s: MPI_Testany", what);
    count = 5;
    OK(MPI_Waitsome(2, both, &count, indices, statuses));
    SAME(count, MPI_UNDEFINED, "%s: MPI_Waitsome", what);
    count = 5;
    OK(MPI_Testsome(2, both, &count, indices, statuses));
    SAME(count, MPI_UNDEFINED, "%s: MPI_Testsome", what);
    flag = 0;
    OK(MPI_Request_get_status_all(2, both, &flag, statuses));
    SAME(flag, 1, "%s: MPI_Request_get_status_all", what);
    STATUS_EMPTY(statuses[0]);
    flag = 0, index = 5;
    status.MPI_ERROR = MPI_ERR_OTHER;
    OK(MPI_Request_get_status_any(2, both, &index, &flag, &status));
    SAME(status.MPI_ERROR, MPI_SUCCESS, "%s: MPI_ERROR of MPI_Request_get_status_any's status", what);
    SAME(flag, 1, "%s: MPI_Request_get_status_any", what);
    SAME(index, MPI_UNDEFINED, "%s: MPI_Request_get_status_any's index", what);
    count = 5;
    OK(MPI_Request_get_status_some(2, both, &count, indices, statuses));
    SAME(count, MPI_UNDEFINED, "%s: MPI_Request_get_status_some", what);
    CHECK(*request == copy && both[0] == copy, "%s: the handle has changed", what);
}

typedef int init(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* The buffers change from start to start; the sender's comes again into use as soon as it is allowed. */
static void mode(init *send_init, const char *name, int bytes)
{
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    memset(out, 0, bytes);
    OK(send_init(out, bytes, MPI_BYTE, next, 1, world, &requests[0]));
    OK(MPI_Recv_init(in, bytes, MPI_BYTE, before, 1, world, &requests[1]));
    is_inactive(&requests[0], name);
    is_inactive(&requests[1], "MPI_Recv_init");
    for (int round = 0; round < ROUNDS; round++) {
        fill(out, bytes, 1000 * me + round);
        /* The receive is posted when the ready send starts. */
        OK(MPI_Start(&requests[1]));
        together(world);
        OK(MPI_Start(&requests[0]));
        const MPI_Request copies[2] = {requests[0], requests[1]};
        if (round % 3 == 0)
            OK(MPI_Waitall(2, requests, statuses));
        else if (round % 3 == 1) {
            OK(MPI_Wait(&requests[1], &statuses[1]));
            OK(MPI_Wait(&requests[0], &statuses[0]));
        } else
            for (int flag = 0; !flag;)
                OK(MPI_Testall(2, requests, &flag, statuses));
        CHECK(requests[0] == copies[0] && requests[1] == copies[1], "%s: a handle has changed", name);
        STATUS_EMPTY(statuses[0]);
        STATUS(statuses[1], before, 1, bytes);
        FILLED(in, bytes, 1000 * before + round, name);
    }
    is_inactive(&requests[0], name);
    is_inactive(&requests[1], "MPI_Recv_init");
    for (int i = 0; i < 2; i++) {
        OK(MPI_Request_free(&requests[i]));
        CHECK(requests[i] == MPI_REQUEST_NULL, "a freed request is not null");
    }
    free(out);
    free(in);
}

/* Startall, and the calls that choose among many, with ordinary and null requests between. */
static void many(void)
{
    enum { N = 6 };
    int out[N], in[N], seen[N], count, index, flag, indices[2 * N + 2];
    MPI_Request requests[2 * N + 2];
    MPI_Status status, statuses[2 * N + 2];
    requests[2 * N] = requests[2 * N + 1] = MPI_REQUEST_NULL;
    for (int i = 0; i < N; i++) {
        OK(MPI_Recv_init_c(&in[i], 1, MPI_INT, i % 2 ? before : MPI_ANY_SOURCE, 10 + i, world, &requests[i]));
        OK(MPI_Send_init_c(&out[i], 1, MPI_INT, next, 10 + i, world, &requests[N + i]));
    }
    OK(MPI_Startall(0, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            out[i] = 100 * me + i + round, in[i] = -1, seen[i] = 0;
        int got, ordinary = 7 * me + round, left = N;
        OK(MPI_Irecv(&got, 1, MPI_INT, before, 9, world, &requests[2 * N]));
        OK(MPI_Isend(&ordinary, 1, MPI_INT, next, 9, world, &requests[2 * N + 1]));
        OK(MPI_Startall(2 * N, requests));
        while (left > 0) {
            switch (round % 4) {
            case 0:
                OK(MPI_Waitany(N, requests, &index, &status));
                count = 1, indices[0] = index, statuses[0] = status;
                break;
            case 1:
                OK(MPI_Waitsome(N, requests, &count, indices, statuses));
                break;
            case 2:
                OK(MPI_Testsome(N, requests, &count, indices, statuses));
                break;
            default:
                OK(MPI_Testany(N, requests, &index, &flag, &status));
                count = flag, indices[0] = index, statuses[0] = status;
            }
            for (int k = 0; k < count; k++) {
                int i = indices[k];
                CHECK(i >= 0 && i < N, "index %d of %d requests", i, N);
                SAME(seen[i]++, 0, "request %d ended before", i);
                STATUS(statuses[k], before, 10 + i, (int)sizeof(int));
                SAME(in[i], 100 * before + i + round, "value of request %d", i);
            }
            left -= count;
        }
        OK(MPI_Waitany(N, requests, &index, &status));
        SAME(index, MPI_UNDEFINED, "MPI_Waitany's index of inactive requests");
        OK(MPI_Waitall(N + 2, requests + N, statuses));
        SAME(got, 7 * before + round, "value of an ordinary request");
        CHECK(requests[2 * N] == MPI_REQUEST_NULL && requests[2 * N + 1] == MPI_REQUEST_NULL,
              "ordinary requests are not null after MPI_Waitall");
    }
    for (int i = 0; i < 2 * N; i++)
        OK(MPI_Request_free(&requests[i]));
}

/* A started request is cancelled and can be started again; freed while active, its operation goes on. */
static void cancelled_and_freed(void)
{
    int value = -1, cancelled, flag;
    MPI_Request request, request2;
    MPI_Status status;
    OK(MPI_Recv_init(&value, 1, MPI_INT, before, 20, world, &request));
    ERROR(MPI_ERR_REQUEST, MPI_Cancel(&request), "inactive");
    OK(MPI_Start(&request));
    OK(MPI_Request_get_status(request, &flag, &status));
    SAME(flag, 0, "MPI_Request_get_status of a receive without a message");
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    SAME(cancelled, 1, "cancelled receive");
    is_inactive(&request, "cancelled receive");
    together(world);
    OK(MPI_Start(&request));
    OK(MPI_Ssend_init(&me, 1, MPI_INT, next, 20, world, &request2));
    OK(MPI_Start(&request2));
    OK(MPI_Wait(&request, &status));
    STATUS(status, before, 20, (int)sizeof(int));
    SAME(value, before, "value of a receive started after a cancelled one");
    OK(MPI_Wait(&request2, &status));

    /* A send that nobody receives. */
    OK(MPI_Start(&request2));
    OK(MPI_Cancel(&request2));
    OK(MPI_Wait(&request2, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    SAME(cancelled, 1, "cancelled synchronous send");
    together(world);

    value = -1;
    OK(MPI_Startall(2, (MPI_Request[]){request, request2}));
    OK(MPI_Request_free(&request2));
    CHECK(request2 == MPI_REQUEST_NULL, "a freed request is not null");
    OK(MPI_Wait(&request, &status));
    SAME(value, before, "value of a send that was freed while active");
    OK(MPI_Request_free(&request));
}

/* Requests outlive the handles of what they were made with. */
static void outliving(void)
{
    MPI_Comm comm;
    MPI_Datatype pair;
    int out[3], in[3] = {0};
    MPI_Request requests[2];
    OK(MPI_Comm_dup(world, &comm));
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Send_init(out, 1, pair, next, 0, comm, &requests[0]));
    OK(MPI_Recv_init(in, 1, pair, before, 0, comm, &requests[1]));
    OK(MPI_Type_free(&pair));
    OK(MPI_Comm_free(&comm));
    for (int round = 0; round < 3; round++) {
        out[0] = me + round, out[1] = -1, out[2] = 2 * me + round;
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(in[0] == before + round && in[1] == 0 && in[2] == 2 * before + round, "got %d %d %d", in[0], in[1], in[2]);
    }
    for (int i = 0; i < 2; i++)
        OK(MPI_Request_free(&requests[i]));
}

static void nobody(void)
{
    static const struct {
        init *send_init;
        const char *name;
    } modes[] = {{MPI_Send_init, "MPI_Send_init"},
                 {MPI_Bsend_init, "MPI_Bsend_init"},
                 {MPI_Ssend_init, "MPI_Ssend_init"},
                 {MPI_Rsend_init, "MPI_Rsend_init"}};
    MPI_Request request;
    MPI_Status status;
    int value = 5;
    for (int i = 0; i < 4; i++) {
        OK(modes[i].send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, world, &request));
        for (int round = 0; round < 3; round++) {
            OK(MPI_Start(&request));
            OK(MPI_Wait(&request, &status));
            STATUS_EMPTY(status);
        }
        OK(MPI_Request_free(&request));
    }
    OK(MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, world, &request));
    for (int round = 0; round < 3; round++) {
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, &status));
        STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
        SAME(value, 5, "buffer of a receive from MPI_PROC_NULL");
    }
    OK(MPI_Request_free(&request));
}

/* Both directions with one request. */
static void exchanges(int n)
{
    int bytes = n;
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    MPI_Request request, requests[2];
    MPI_Status status;
    fill(out, bytes, me);
    OK(MPI_Isendrecv(out, bytes, MPI_BYTE, next, 1, in, bytes, MPI_BYTE, before, 1, world, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL, "the request of MPI_Isendrecv is left");
    STATUS(status, before, 1, bytes);
    FILLED(in, bytes, before, "MPI_Isendrecv");
    fill(in, bytes, me + 50);
    OK(MPI_Isendrecv_replace(in, bytes, MPI_BYTE, next, 2, MPI_ANY_SOURCE, 2, world, &request));
    for (int flag = 0; !flag;)
        OK(MPI_Test(&request, &flag, &status));
    STATUS(status, before, 2, bytes);
    FILLED(in, bytes, before + 50, "MPI_Isendrecv_replace");
    together(world);
    /* Two at once, against each other, with the large counts. */
    unsigned char *in2 = allocate(bytes);
    OK(MPI_Isendrecv_c(out, bytes, MPI_BYTE, next, 3, in, bytes, MPI_BYTE, before, 3, world, &requests[0]));
    fill(in2, bytes, me + 60);
    OK(MPI_Isendrecv_replace_c(in2, bytes, MPI_BYTE, before, 4, next, 4, world, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    FILLED(in, bytes, before, "MPI_Isendrecv_c");
    FILLED(in2, bytes, next + 60, "MPI_Isendrecv_replace_c");
    /* Nobody on one side, or on both. */
    OK(MPI_Isendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 5, in, bytes, MPI_BYTE, before, 5, world, &requests[0]));
    OK(MPI_Isendrecv(out, bytes, MPI_BYTE, next, 5, NULL, 0, MPI_BYTE, MPI_PROC_NULL, 5, world, &requests[1]));
    OK(MPI_Wait(&requests[1], &status));
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Wait(&requests[0], &status));
    STATUS(status, before, 5, bytes);
    fill(in, bytes, 9);
    OK(MPI_Isendrecv_replace(in, bytes, MPI_BYTE, MPI_PROC_NULL, 5, MPI_PROC_NULL, 5, world, &request));
    OK(MPI_Wait(&request, &status));
    STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    FILLED(in, bytes, 9, "buffer of an exchange with nobody");
    /* A receive that is too small fails, with its status. */
    if (bytes > 1) {
        MPI_Status one[1];
        OK(MPI_Isendrecv(out, bytes, MPI_BYTE, next, 6, in, bytes - 1, MPI_BYTE, before, 6, world, &request));
        SAME(class_of(MPI_Waitall(1, &request, one)), MPI_ERR_IN_STATUS, "MPI_Waitall of a truncated exchange");
        SAME(class_of(one[0].MPI_ERROR), MPI_ERR_TRUNCATE, "status of a truncated exchange");
        SAME(one[0].MPI_SOURCE, before, "source of a truncated exchange");
    }
    free(out);
    free(in);
    free(in2);
}

static void errors(void)
{
    int value = 0;
    MPI_Request request, active, freed, ordinary, pair[2];
    char text[32], beyond[32];
    snprintf(beyond, sizeof beyond, "%d", ranks);
    ERROR(MPI_ERR_RANK, MPI_Send_init(&value, 1, MPI_INT, ranks, 0, world, &request), "destination", beyond);
    ERROR(MPI_ERR_RANK, MPI_Recv_init(&value, 1, MPI_INT, -44, 0, world, &request), "source", "-44");
    ERROR(MPI_ERR_COUNT, MPI_Ssend_init(&value, -6, MPI_INT, 0, 0, world, &request), "count", "-6");
    ERROR(MPI_ERR_TAG, MPI_Rsend_init(&value, 1, MPI_INT, 0, -6, world, &request), "tag", "-6");
    ERROR(MPI_ERR_TYPE, MPI_Bsend_init(&value, 1, MPI_DATATYPE_NULL, 0, 0, world, &request), "MPI_DATATYPE_NULL");
    ERROR(MPI_ERR_COMM, MPI_Send_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &request), "MPI_COMM_NULL");
    ERROR(MPI_ERR_ARG, MPI_Send_init(&value, 1, MPI_INT, 0, 0, world, NULL), "request");
    ERROR(MPI_ERR_BUFFER, MPI_Recv_init(NULL, 1, MPI_INT, 0, 0, world, &request), "buf");
    ERROR(MPI_ERR_RANK, MPI_Isendrecv(&value, 1, MPI_INT, ranks, 0, &value, 1, MPI_INT, 0, 0, world, &request),
          "destination", beyond);
    ERROR(MPI_ERR_COUNT, MPI_Isendrecv(&value, 1, MPI_INT, 0, 0, &value, -3, MPI_INT, 0, 0, world, &request),
          "recvcount", "-3");
    ERROR(MPI_ERR_COUNT, MPI_Isendrecv_replace(&value, -2, MPI_INT, 0, 0, 0, 0, world, &request), "count", "-2");
    ERROR(MPI_ERR_TAG, MPI_Isendrecv_replace(&value, 1, MPI_INT, 0, MPI_ANY_TAG, 0, 0, world, &request), "tag");
    ERROR(MPI_ERR_RANK, MPI_Isendrecv_replace_c(&value, 1, MPI_INT, 0, 0, ranks, 0, world, &request), "source");

    /* Bsend_init without a buffer: the start says so, and leaves the request inactive. */
    OK(MPI_Bsend_init(&value, 1, MPI_INT, next, 0, world, &request));
    ERROR(MPI_ERR_BUFFER, MPI_Start(&request), "no buffer");
    is_inactive(&request, "request that could not be started");
    OK(MPI_Request_free(&request));

    OK(MPI_Recv_init(&value, 1, MPI_INT, before, 30, world, &active));
    OK(MPI_Recv_init(&value, 1, MPI_INT, before, 31, world, &freed));
    OK(MPI_Irecv(&value, 1, MPI_INT, before, 32, world, &ordinary));
    OK(MPI_Start(&active));
    snprintf(text, sizeof text, "%#lx", (unsigned long)(uintptr_t)active);
    ERROR(MPI_ERR_REQUEST, MPI_Start(&active), "active", text);
    pair[0] = freed, pair[1] = active;
    ERROR(MPI_ERR_REQUEST, MPI_Startall(2, pair), "array_of_requests[1]", "active", text);
    is_inactive(&freed, "request of an array that could not be started");
    snprintf(text, sizeof text, "%#lx", (unsigned long)(uintptr_t)ordinary);
    ERROR(MPI_ERR_REQUEST, MPI_Start(&ordinary), "not persistent", text);
    request = freed;
    snprintf(text, sizeof text, "%#lx", (unsigned long)(uintptr_t)freed);
    OK(MPI_Request_free(&freed));
    ERROR(MPI_ERR_REQUEST, MPI_Start(&request), "not valid", text);
    ERROR(MPI_ERR_REQUEST, MPI_Wait(&request, MPI_STATUS_IGNORE), "not valid", text);
    ERROR(MPI_ERR_REQUEST, MPI_Request_free(&request), "not valid", text);
    ERROR(MPI_ERR_REQUEST, MPI_Start(&freed), "MPI_REQUEST_NULL");
    ERROR(MPI_ERR_ARG, MPI_Start(NULL), "request");
    ERROR(MPI_ERR_COUNT, MPI_Startall(-1, pair), "count", "-1");
    ERROR(MPI_ERR_ARG, MPI_Startall(1, NULL), "array_of_requests");
    OK(MPI_Cancel(&active));
    OK(MPI_Cancel(&ordinary));
    OK(MPI_Wait(&active, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&ordinary, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&active));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (me + 1) % ranks;
    before = (me + ranks - 1) % ranks;
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (int bytes = 4; bytes <= LONG; bytes += LONG - 4) {
        mode(MPI_Send_init, "MPI_Send_init", bytes);
        mode(MPI_Ssend_init, "MPI_Ssend_init", bytes);
        mode(MPI_Rsend_init, "MPI_Rsend_init", bytes);
        void *address;
        int size;
        OK(MPI_Buffer_attach(allocate(2 * LONG), 2 * LONG));
        mode(MPI_Bsend_init, "MPI_Bsend_init", bytes);
        OK(MPI_Buffer_detach(&address, &size));
        free(address);
    }
    many();
    cancelled_and_freed();
    outliving();
    nobody();
    exchanges(4);
    exchanges(LONG);
    errors();
    return end("persistent");
}
