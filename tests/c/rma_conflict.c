/* Accesses of several processes, or of one, to the same memory of a window in one epoch: those that conflict (12.3 and 12.7 of MPI 5.0) are found
 * where WEFT_CHECK=1 is set, and others are not. */
#include "rma.h"

enum what { PUT, GET, ADD, FETCH_ADD, REPLACE, READ, COMPARE, RPUT, RGET };
static const char *const names[] = {"put", "get", "add", "fetch and add", "replace", "read", "compare", "rput", "rget"};

struct access {
    enum what what;
    /* In bytes; a vector of elements with gaps of the same size if it has several. */
    int at, count;
    MPI_Datatype type;
};

static struct window *w;
static int target, found;
static char in[256], out[256], compared[16];
static char message[MPI_MAX_ERROR_STRING];

/* What a call has returned: nothing, or a conflict. */
static void note(int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return;
    int length;
    OK(MPI_Error_string(code, message, &length));
    if (class_of(code) != MPI_ERR_RMA_CONFLICT)
        FAIL("%s: %s", call, message);
    found = 1;
}

#define NOTE(call) note((call), #call)

static void perform(struct access a)
{
    MPI_Datatype type;
    MPI_Aint at = place(w, target, a.at);
    MPI_Win win = w->win;
    MPI_Request request;
    OK(MPI_Type_vector(a.count, 1, 2, a.type, &type));
    OK(MPI_Type_commit(&type));
    switch (a.what) {
    case PUT:
        OK(MPI_Put(in, a.count, a.type, target, at, 1, type, win));
        break;
    case GET:
        OK(MPI_Get(out, a.count, a.type, target, at, 1, type, win));
        break;
    case ADD:
        OK(MPI_Accumulate(in, a.count, a.type, target, at, 1, type, MPI_SUM, win));
        break;
    case REPLACE:
        OK(MPI_Accumulate(in, a.count, a.type, target, at, 1, type, MPI_REPLACE, win));
        break;
    case FETCH_ADD:
        OK(MPI_Get_accumulate(in, a.count, a.type, out, a.count, a.type, target, at, 1, type, MPI_SUM, win));
        break;
    case READ:
        OK(MPI_Get_accumulate(NULL, 0, a.type, out, a.count, a.type, target, at, 1, type, MPI_NO_OP, win));
        break;
    case COMPARE:
        OK(MPI_Compare_and_swap(in, compared, out, a.type, target, at, win));
        break;
    case RPUT:
        OK(MPI_Rput(in, a.count, a.type, target, at, 1, type, win, &request));
        NOTE(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case RGET:
        OK(MPI_Rget(out, a.count, a.type, target, at, 1, type, win, &request));
        NOTE(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    }
    OK(MPI_Type_free(&type));
}

/* What was sent before has come to the target, but is not complete there for all that others know. */
static void arrive(void)
{
    OK(MPI_Get_accumulate(NULL, 0, MPI_INT, out, 1, MPI_INT, target, place(w, target, 240), 1, MPI_INT, MPI_NO_OP, w->win));
    NOTE(MPI_Win_flush_local(target, w->win));
}

enum epoch { FENCE, GROUPS, SHARED_LOCK, LOCK_ALL, EPOCHS };

static void begin_epoch(enum epoch epoch, MPI_Group group, MPI_Group of_target)
{
    switch (epoch) {
    case FENCE:
        OK(MPI_Win_fence(0, w->win));
        break;
    case GROUPS:
        if (me == target)
            OK(MPI_Win_post(group, 0, w->win));
        if (me < 2)
            OK(MPI_Win_start(of_target, 0, w->win));
        break;
    case SHARED_LOCK:
        OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
        break;
    default:
        OK(MPI_Win_lock_all(0, w->win));
    }
}

static void end_epoch(enum epoch epoch)
{
    switch (epoch) {
    case FENCE:
        NOTE(MPI_Win_fence(0, w->win));
        break;
    case GROUPS:
        if (me < 2)
            NOTE(MPI_Win_complete(w->win));
        if (me == target)
            OK(MPI_Win_wait(w->win));
        break;
    case SHARED_LOCK:
        NOTE(MPI_Win_unlock(target, w->win));
        break;
    default:
        NOTE(MPI_Win_unlock_all(w->win));
    }
}

/* Whether anybody has found a conflict, as he should or should not. */
static void expect_conflict(int expected, const char *format, ...)
{
    char text[300];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    int any;
    OK(MPI_Allreduce(&found, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    if (any != expected)
        FAIL("%s: %s", text, expected ? "no conflict was found" : message);
    if (found) {
        char of_target[60];
        snprintf(of_target, sizeof of_target, "of rank %d", target);
        CHECK(strstr(message, "conflicts with MPI_") != NULL && strstr(message, ": bytes ") != NULL
                  && strstr(message, of_target) != NULL,
              "%s: the error says: %s", text, message);
    }
    found = 0;
    /* What an epoch leaves behind concerns no other one. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_fence(0, w->win));
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED, w->win));
}

static void pairs(void)
{
    const struct access put = {PUT, 0, 2, MPI_INT}, get = {GET, 0, 2, MPI_INT}, add = {ADD, 0, 2, MPI_INT};
    const struct {
        struct access a, b;
        /* Of two processes, of one. */
        int conflict[2];
    } cases[] = {
        {put, put, {1, 1}},
        {put, {PUT, 4, 2, MPI_INT}, {0, 0}},
        {put, {PUT, 11, 1, MPI_CHAR}, {1, 1}},
        {put, {PUT, 12, 1, MPI_CHAR}, {0, 0}},
        {put, get, {1, 1}},
        {get, put, {1, 1}},
        {get, get, {0, 0}},
        {put, add, {1, 1}},
        {add, get, {1, 1}},
        {get, {READ, 8, 1, MPI_INT}, {1, 1}},
        {add, add, {0, 0}},
        {add, {FETCH_ADD, 8, 4, MPI_INT}, {0, 0}},
        {add, {READ, 0, 2, MPI_INT}, {0, 0}},
        {add, {REPLACE, 0, 2, MPI_INT}, {1, 0}},
        {add, {ADD, 0, 1, MPI_INT32_T}, {0, 0}},
        {add, {ADD, 0, 1, MPI_FLOAT}, {1, 1}},
        {add, {ADD, 0, 1, MPI_LONG}, {1, 1}},
        {add, {ADD, 10, 1, MPI_INT}, {1, 1}},
        {{REPLACE, 0, 1, MPI_INT}, {COMPARE, 0, 1, MPI_INT}, {0, 0}},
        {put, {COMPARE, 8, 1, MPI_INT}, {1, 1}},
    };
    MPI_Group world, group, of_target;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 2, (int[]){0, 1}, &group));
    OK(MPI_Group_incl(world, 1, &target, &of_target));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int one = 0; one < 2; one++)
            for (enum epoch epoch = FENCE; epoch < EPOCHS; epoch++) {
                begin_epoch(epoch, group, of_target);
                if (me == 0)
                    perform(cases[i].a);
                if (epoch >= SHARED_LOCK) {
                    arrive();
                    if (!one)
                        OK(MPI_Barrier(MPI_COMM_WORLD));
                }
                if (me == !one)
                    perform(cases[i].b);
                if (epoch >= SHARED_LOCK && !one) {
                    /* The first one may not be over yet. */
                    arrive();
                    OK(MPI_Barrier(MPI_COMM_WORLD));
                }
                end_epoch(epoch);
                int conflict = cases[i].conflict[one];
                /* What a get returns has come with the flush. */
                if (epoch >= SHARED_LOCK && (cases[i].a.what == GET || cases[i].a.what == READ))
                    conflict = 0;
                expect_conflict(conflict, "%s, %s (case %zu), of %s, epoch %d", names[cases[i].a.what],
                                names[cases[i].b.what], i, one ? "one process" : "two", epoch);
            }
    OK(MPI_Group_free(&of_target));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
}

/* What completes an operation of a process for itself, and for others. */
static void completed(void)
{
    const struct access put = {PUT, 0, 2, MPI_INT}, get = {GET, 0, 2, MPI_INT}, add = {FETCH_ADD, 0, 2, MPI_INT};
    const struct access rput = {RPUT, 0, 2, MPI_INT}, rget = {RGET, 0, 2, MPI_INT};
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win));
    if (me == 0) {
        perform(put);
        NOTE(MPI_Win_flush(target, w->win));
        perform(put);
        NOTE(MPI_Win_flush_all(w->win));
        perform(get);
        NOTE(MPI_Win_flush_local(target, w->win));
        perform(put);
    }
    NOTE(MPI_Win_unlock_all(w->win));
    expect_conflict(0, "flushes");
    OK(MPI_Win_lock_all(0, w->win));
    if (me == 0) {
        perform(put);
        NOTE(MPI_Win_flush_local(target, w->win));
        perform(put);
    }
    NOTE(MPI_Win_unlock_all(w->win));
    expect_conflict(1, "a put that is complete at its origin only");
    OK(MPI_Win_lock_all(0, w->win));
    if (me == 0) {
        perform(rget);
        perform(put);
    }
    NOTE(MPI_Win_unlock_all(w->win));
    expect_conflict(0, "a get with a request");
    OK(MPI_Win_lock_all(0, w->win));
    if (me == 0) {
        perform(rput);
        perform(put);
    }
    NOTE(MPI_Win_unlock_all(w->win));
    expect_conflict(1, "a put with a request");
    /* One after the other, by a flush and a message. */
    OK(MPI_Win_lock_all(0, w->win));
    if (me == 0) {
        perform(put);
        NOTE(MPI_Win_flush(target, w->win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 1) {
        perform(get);
        NOTE(MPI_Win_flush_local_all(w->win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 0)
        perform(add);
    NOTE(MPI_Win_unlock_all(w->win));
    expect_conflict(0, "one after the other");
    /* Everybody by exclusive locks. */
    for (int i = 0; i < 10; i++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
        perform(i % 3 == 0 ? get : i % 3 == 1 ? put : add);
        NOTE(MPI_Win_unlock(target, w->win));
    }
    expect_conflict(0, "exclusive locks");
    /* By shared ones, each its own. */
    for (int i = 0; i < 10; i++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
        perform((struct access){PUT, 16 * me, 2, MPI_INT});
        perform((struct access){ADD, 16 * me + 4, 2, MPI_INT});
        perform((struct access){FETCH_ADD, 128, 8, MPI_INT});
        NOTE(MPI_Win_unlock(target, w->win));
    }
    expect_conflict(0, "shared locks");
    /* Epochs one after the other. */
    for (int i = 0; i < 10; i++) {
        OK(MPI_Win_fence(0, w->win));
        if (me == i % ranks)
            perform(i % 2 ? put : add);
    }
    NOTE(MPI_Win_fence(0, w->win));
    expect_conflict(0, "fences");
}

/* With the hint that concurrent accumulates have the same operation, not even MPI_NO_OP goes with others. */
static void with_hint(void)
{
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "accumulate_ops", "same_op"));
    OK(MPI_Win_set_info(w->win, info));
    for (int hint = 1; hint >= 0; hint--) {
        OK(MPI_Win_fence(0, w->win));
        if (me == 0)
            perform((struct access){ADD, 0, 1, MPI_INT});
        if (me == 1)
            perform((struct access){READ, 0, 1, MPI_INT});
        NOTE(MPI_Win_fence(0, w->win));
        expect_conflict(hint, "with the hint: %d", hint);
        OK(MPI_Info_set(info, "accumulate_ops", "same_op_no_op"));
        OK(MPI_Win_set_info(w->win, info));
    }
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    begin_rma(&argc, &argv);
    CHECK(of_weft() && getenv("WEFT_CHECK") != NULL, "this is about Weft with WEFT_CHECK=1");
    CHECK(ranks > 1, "one process has nobody");
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        if (!has_flavor(flavor) || (brief() && flavor != CREATED && flavor != DYNAMIC))
            continue;
        struct window window = open_window(flavor, 256, 1, MPI_COMM_WORLD);
        w = &window;
        target = flavor % ranks;
        pairs();
        completed();
        with_hint();
        close_window(&window);
    }
    return end("rma_conflict");
}
