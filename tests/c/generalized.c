/* Generalized requests (MPI 5.0 section 13.2): which callback is called when, what the status says, what becomes of their
 * errors, and who is woken. */
#include "check.h"
#include <pthread.h>

/* What a request's callbacks do and have seen. */
struct state {
    int source, tag, elements, cancelled;
    int query_returns, free_returns, cancel_returns;
    int queries, frees, cancels, complete;
};

static int query(void *extra, MPI_Status *status)
{
    struct state *state = extra;
    SAME(state->frees, 0, "queried after it was freed");
    state->queries++;
    CHECK(status != NULL && status != MPI_STATUS_IGNORE, "the query callback gets no status");
    status->MPI_SOURCE = state->source;
    status->MPI_TAG = state->tag;
    OK(MPI_Status_set_elements(status, MPI_INT, state->elements));
    OK(MPI_Status_set_cancelled(status, state->cancelled));
    return state->query_returns;
}

static int release(void *extra)
{
    struct state *state = extra;
    state->frees++;
    return state->free_returns;
}

static int cancel(void *extra, int complete)
{
    struct state *state = extra;
    state->cancels++;
    state->complete = complete;
    return state->cancel_returns;
}

static MPI_Request start(struct state *state, int number)
{
    MPI_Request request = MPI_REQUEST_NULL;
    *state = (struct state){.source = 100 + number, .tag = 200 + number, .elements = number};
    OK(MPI_Grequest_start(query, release, cancel, state, &request));
    CHECK(request != MPI_REQUEST_NULL, "a generalized request is null");
    return request;
}

static void calls(const struct state *state, int queries, int frees, int cancels, const char *what)
{
    SAME(state->queries, queries, "%s: calls of the query callback", what);
    SAME(state->frees, frees, "%s: calls of the free callback", what);
    SAME(state->cancels, cancels, "%s: calls of the cancel callback", what);
}

#define STATE(status, number) STATUS(status, 100 + (number), 200 + (number), (number) * (int)sizeof(int))

/* One request, by each call that looks at one. */
static void one(void)
{
    struct state state;
    MPI_Status status;
    int flag;
    MPI_Request request = start(&state, 3);
    OK(MPI_Test(&request, &flag, &status));
    SAME(flag, 0, "MPI_Test before it is complete");
    OK(MPI_Request_get_status(request, &flag, &status));
    SAME(flag, 0, "MPI_Request_get_status before it is complete");
    calls(&state, 0, 0, 0, "before it is complete");
    OK(MPI_Grequest_complete(request));
    calls(&state, 0, 0, 0, "once it is complete");
    for (int i = 1; i <= 2; i++) {
        OK(MPI_Request_get_status(request, &flag, &status));
        SAME(flag, 1, "MPI_Request_get_status");
        STATE(status, 3);
        calls(&state, i, 0, 0, "MPI_Request_get_status");
    }
    OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    calls(&state, 3, 0, 0, "MPI_Request_get_status without a status");
    status.MPI_ERROR = 77;
    OK(MPI_Wait(&request, &status));
    STATE(status, 3);
    SAME(status.MPI_ERROR, 77, "MPI_Wait leaves MPI_ERROR alone");
    CHECK(request == MPI_REQUEST_NULL, "the handle is left");
    calls(&state, 4, 1, 0, "MPI_Wait");

    request = start(&state, 4);
    OK(MPI_Grequest_complete(request));
    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 1, "MPI_Test");
    CHECK(request == MPI_REQUEST_NULL, "the handle is left");
    calls(&state, 1, 1, 0, "MPI_Test without a status");

    request = start(&state, 5);
    state.cancelled = 1;
    OK(MPI_Grequest_complete(request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    SAME(flag, 1, "MPI_Test_cancelled");
}

/* Many requests, with ordinary ones between. */
static void many(void)
{
    enum { N = 5 };
    struct state states[N];
    MPI_Request requests[N], ordinary[2];
    MPI_Status statuses[N], status;
    int index, count, flag, indices[N], value = -1;
    for (int i = 0; i < N; i++)
        requests[i] = start(&states[i], i);
    OK(MPI_Testany(N, requests, &index, &flag, &status));
    SAME(flag, 0, "MPI_Testany");
    OK(MPI_Testsome(N, requests, &count, indices, statuses));
    SAME(count, 0, "MPI_Testsome");
    OK(MPI_Grequest_complete(requests[3]));
    OK(MPI_Request_get_status_any(N, requests, &index, &flag, &status));
    SAME(index, 3, "MPI_Request_get_status_any's index");
    STATE(status, 3);
    OK(MPI_Request_get_status_some(N, requests, &count, indices, statuses));
    SAME(count, 1, "MPI_Request_get_status_some");
    SAME(indices[0], 3, "MPI_Request_get_status_some's index");
    STATE(statuses[0], 3);
    OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
    SAME(flag, 0, "MPI_Request_get_status_all");
    calls(&states[3], 2, 0, 0, "MPI_Request_get_status_any and _some");
    OK(MPI_Waitany(N, requests, &index, &status));
    SAME(index, 3, "MPI_Waitany's index");
    STATE(status, 3);
    CHECK(requests[3] == MPI_REQUEST_NULL, "the handle is left");
    calls(&states[3], 3, 1, 0, "MPI_Waitany");
    OK(MPI_Grequest_complete(requests[4]));
    OK(MPI_Grequest_complete(requests[1]));
    OK(MPI_Testany(N, requests, &index, &flag, &status));
    SAME(index, 1, "MPI_Testany's index");
    STATE(status, 1);
    OK(MPI_Waitsome(N, requests, &count, indices, statuses));
    SAME(count, 1, "MPI_Waitsome");
    SAME(indices[0], 4, "MPI_Waitsome's index");
    STATE(statuses[0], 4);
    calls(&states[4], 1, 1, 0, "MPI_Waitsome");
    OK(MPI_Irecv(&value, 1, MPI_INT, me, 0, MPI_COMM_WORLD, &ordinary[0]));
    OK(MPI_Isend(&me, 1, MPI_INT, me, 0, MPI_COMM_WORLD, &ordinary[1]));
    requests[1] = ordinary[0], requests[4] = ordinary[1];
    OK(MPI_Grequest_complete(requests[0]));
    OK(MPI_Testall(N, requests, &flag, statuses));
    SAME(flag, 0, "MPI_Testall");
    calls(&states[0], 0, 0, 0, "MPI_Testall that finds not all complete");
    OK(MPI_Grequest_complete(requests[2]));
    do
        OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
    while (!flag);
    STATE(statuses[2], 2);
    calls(&states[0], 1, 0, 0, "MPI_Request_get_status_all");
    OK(MPI_Waitall(N, requests, statuses));
    STATE(statuses[0], 0);
    STATUS(statuses[1], me, 0, (int)sizeof(int));
    STATE(statuses[2], 2);
    STATUS_EMPTY(statuses[3]);
    for (int i = 0; i < N; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL, "handle %d is left", i);
        SAME(states[i].frees, 1, "calls of the free callback of request %d", i);
    }
    calls(&states[0], 2, 1, 0, "MPI_Waitall");
}

/* Freed before or after it is complete: the free callback comes with the later one, the query callback never. */
static void freed(void)
{
    struct state state;
    MPI_Request copy, request = start(&state, 1);
    OK(MPI_Grequest_complete(request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL, "the handle is left");
    calls(&state, 0, 1, 0, "MPI_Request_free of a complete request");
    copy = request = start(&state, 2);
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL, "the handle is left");
    calls(&state, 0, 0, 0, "MPI_Request_free of a request under way");
    ERROR(MPI_ERR_REQUEST, MPI_Wait(&copy, MPI_STATUS_IGNORE), "not valid");
    OK(MPI_Grequest_complete(copy));
    calls(&state, 0, 1, 0, "MPI_Grequest_complete of a freed request");
    ERROR(MPI_ERR_REQUEST, MPI_Grequest_complete(copy), "not valid");
    calls(&state, 0, 1, 0, "MPI_Grequest_complete twice");
}

static void cancelled(void)
{
    struct state state;
    MPI_Request request = start(&state, 1);
    OK(MPI_Cancel(&request));
    calls(&state, 0, 0, 1, "MPI_Cancel");
    SAME(state.complete, 0, "complete, to the cancel callback of a request under way");
    OK(MPI_Grequest_complete(request));
    OK(MPI_Cancel(&request));
    calls(&state, 0, 0, 2, "MPI_Cancel");
    SAME(state.complete, 1, "complete, to the cancel callback of a complete request");
    state.cancel_returns = MPI_ERR_TOPOLOGY;
    ERROR(MPI_ERR_TOPOLOGY, MPI_Cancel(&request), "cancel");
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    calls(&state, 1, 1, 3, "MPI_Wait of a cancelled request");
}

/* What callbacks return is what the call returns that called them. */
static void errors(void)
{
    struct state state, other;
    MPI_Request request, requests[2];
    MPI_Status statuses[2], status;
    int flag, index, count, indices[2], added, code;
    OK(MPI_Add_error_class(&added));
    OK(MPI_Add_error_code(added, &code));
    request = start(&state, 1);
    state.query_returns = code;
    OK(MPI_Grequest_complete(request));
    SAME(MPI_Request_get_status(request, &flag, &status), code, "MPI_Request_get_status");
    STATE(status, 1);
    SAME(MPI_Wait(&request, &status), code, "MPI_Wait whose query callback fails");
    STATE(status, 1);
    CHECK(request == MPI_REQUEST_NULL, "the handle is left");
    calls(&state, 2, 1, 0, "MPI_Wait whose query callback fails");
    /* Both fail: the last one counts. */
    request = start(&state, 1);
    state.query_returns = code, state.free_returns = MPI_ERR_DIMS;
    OK(MPI_Grequest_complete(request));
    ERROR(MPI_ERR_DIMS, MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "free");
    SAME(flag, 1, "MPI_Test whose callbacks fail");
    request = start(&state, 1);
    state.free_returns = code;
    OK(MPI_Grequest_complete(request));
    SAME(MPI_Waitany(1, &request, &index, &status), code, "MPI_Waitany whose free callback fails");
    SAME(index, 0, "MPI_Waitany's index");
    request = start(&state, 1);
    state.free_returns = code;
    OK(MPI_Grequest_complete(request));
    SAME(MPI_Request_free(&request), code, "MPI_Request_free whose free callback fails");
    request = start(&state, 1);
    state.free_returns = code;
    MPI_Request copy = request;
    OK(MPI_Request_free(&request));
    SAME(MPI_Grequest_complete(copy), code, "MPI_Grequest_complete whose free callback fails");
    /* Of many, each status has its own. */
    for (int call = 0; call < 4; call++) {
        requests[0] = start(&state, 1);
        requests[1] = start(&other, 2);
        state.free_returns = code;
        OK(MPI_Grequest_complete(requests[0]));
        OK(MPI_Grequest_complete(requests[1]));
        int result = call == 0   ? MPI_Waitall(2, requests, statuses)
                     : call == 1 ? MPI_Testall(2, requests, &flag, statuses)
                     : call == 2 ? MPI_Waitsome(2, requests, &count, indices, statuses)
                                 : MPI_Testsome(2, requests, &count, indices, statuses);
        SAME(class_of(result), MPI_ERR_IN_STATUS, "call %d for many", call);
        SAME(statuses[0].MPI_ERROR, code, "status of the request whose free callback fails");
        SAME(statuses[1].MPI_ERROR, MPI_SUCCESS, "status of the other request");
        STATE(statuses[0], 1);
        STATE(statuses[1], 2);
        calls(&state, 1, 1, 0, "a call for many");
        calls(&other, 1, 1, 0, "a call for many");
    }
    requests[0] = start(&state, 1);
    requests[1] = start(&other, 2);
    other.query_returns = code;
    OK(MPI_Grequest_complete(requests[0]));
    OK(MPI_Grequest_complete(requests[1]));
    SAME(class_of(MPI_Request_get_status_all(2, requests, &flag, statuses)), MPI_ERR_IN_STATUS, "get_status_all");
    SAME(statuses[1].MPI_ERROR, code, "status of the request whose query callback fails");
    SAME(statuses[0].MPI_ERROR, MPI_SUCCESS, "status of the other request");
    SAME(class_of(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)), MPI_ERR_IN_STATUS, "MPI_Waitall without statuses");
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_class(added));
}

static void arguments(void)
{
    struct state state;
    int value;
    MPI_Request request, ordinary, persistent;
    ERROR(MPI_ERR_ARG, MPI_Grequest_start(NULL, release, cancel, NULL, &request), "query_fn");
    ERROR(MPI_ERR_ARG, MPI_Grequest_start(query, NULL, cancel, NULL, &request), "free_fn");
    ERROR(MPI_ERR_ARG, MPI_Grequest_start(query, release, NULL, NULL, &request), "cancel_fn");
    ERROR(MPI_ERR_ARG, MPI_Grequest_start(query, release, cancel, NULL, NULL), "request");
    OK(MPI_Irecv(&value, 1, MPI_INT, me, 1, MPI_COMM_WORLD, &ordinary));
    OK(MPI_Recv_init(&value, 1, MPI_INT, me, 1, MPI_COMM_WORLD, &persistent));
    ERROR(MPI_ERR_REQUEST, MPI_Grequest_complete(ordinary), "not a generalized", hex((uintptr_t)ordinary));
    ERROR(MPI_ERR_REQUEST, MPI_Grequest_complete(persistent), "not a generalized", hex((uintptr_t)persistent));
    ERROR(MPI_ERR_REQUEST, MPI_Grequest_complete(MPI_REQUEST_NULL), "MPI_REQUEST_NULL");
    ERROR(MPI_ERR_REQUEST, MPI_Grequest_complete((MPI_Request)&value), "not valid");
    request = start(&state, 0);
    ERROR(MPI_ERR_REQUEST, MPI_Start(&request), "not persistent", hex((uintptr_t)request));
    OK(MPI_Grequest_complete(request));
    ERROR(MPI_ERR_REQUEST, MPI_Grequest_complete(request), "before", hex((uintptr_t)request));
    MPI_Request copy = request;
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    ERROR(MPI_ERR_REQUEST, MPI_Wait(&copy, MPI_STATUS_IGNORE), "not valid", hex((uintptr_t)copy));
    OK(MPI_Request_free(&persistent));
    OK(MPI_Cancel(&ordinary));
    OK(MPI_Wait(&ordinary, MPI_STATUS_IGNORE));
}

/* Another thread completes what this one waits for. */
static pthread_barrier_t both;

static void *completer(void *argument)
{
    MPI_Request *requests = argument;
    for (int round = 0; round < 20; round++) {
        pthread_barrier_wait(&both);
        /* In some rounds the other thread is asleep by then. */
        if (round % 5 == 0)
            usleep(10000);
        for (int i = 2; i >= 0; i--)
            OK(MPI_Grequest_complete(requests[i]));
        pthread_barrier_wait(&both);
    }
    return NULL;
}

static void threads(void)
{
    struct state states[3];
    MPI_Request requests[3], copies[3];
    MPI_Status statuses[3];
    pthread_t thread;
    int index;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, completer, copies);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 3; i++)
            copies[i] = requests[i] = start(&states[i], i);
        pthread_barrier_wait(&both);
        switch (round % 3) {
        case 0:
            OK(MPI_Waitall(3, requests, statuses));
            break;
        case 1:
            for (int left = 3; left > 0; left--)
                OK(MPI_Waitany(3, requests, &index, &statuses[0]));
            break;
        default:
            for (int i = 0; i < 3; i++)
                OK(MPI_Wait(&requests[i], &statuses[i]));
        }
        for (int i = 0; i < 3; i++) {
            CHECK(requests[i] == MPI_REQUEST_NULL, "handle %d is left", i);
            calls(&states[i], 1, 1, 0, "another thread's completion");
        }
        pthread_barrier_wait(&both);
    }
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&both);
}

/* Callbacks may call MPI, for other generalized requests too. */
static struct state inner_state;

static int query_and_call(void *extra, MPI_Status *status)
{
    int value = -1, flag;
    MPI_Request inner = start(&inner_state, 7);
    OK(MPI_Sendrecv(extra, 1, MPI_INT, me, 5, &value, 1, MPI_INT, me, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(value, *(int *)extra, "message within a callback");
    OK(MPI_Test(&inner, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 0, "request within a callback");
    OK(MPI_Grequest_complete(inner));
    OK(MPI_Wait(&inner, status));
    return MPI_SUCCESS;
}

static int nothing(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static void nested(void)
{
    int value = 4321;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Grequest_start(query_and_call, nothing, cancel, &value, &request));
    OK(MPI_Grequest_complete(request));
    OK(MPI_Wait(&request, &status));
    STATE(status, 7);
    calls(&inner_state, 1, 1, 0, "a request within a callback");
}

int main(int argc, char **argv)
{
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    one();
    many();
    freed();
    cancelled();
    errors();
    arguments();
    threads();
    nested();
    return end("generalized");
}
