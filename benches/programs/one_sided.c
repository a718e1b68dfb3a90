/* One-sided communication: rank 0 with the window of rank 1, unless a synchronisation concerns all ranks.
   usage: one_sided WINDOW operation MILLISECONDS OPERATION...   one after the other, or epochs one after the other
          one_sided WINDOW computing MILLISECONDS OPERATION...   while rank 1 computes for 20 ms, without a call of MPI
          one_sided WINDOW stream MILLISECONDS BYTES...          64 puts, then a flush
          one_sided WINDOW rate MILLISECONDS BYTES...            4096 puts, then a flush
   prints: one_sided POINT MICROSECONDS, of a put in streams and rates, otherwise of an operation with its flush, or of an epoch
   WINDOW is "allocate" (MPI_Win_allocate) or "create" (MPI_Win_create). OPERATION is one of the table below, and where it has a size,
   that follows: put-65536. Prints "one_sided unsupported PROCEDURE" if the library says that it lacks it. */
#include "bench.h"
#include <time.h>

enum { STREAM = 64, RATE = 4096, TARGET = 1 };

static const double COMPUTING = 20e-3, HEAD_START = 1e-3;

static int rank, ranks, bytes, repeats, left, right;
/* How many updates the target's first element has had. */
static long long updates;
static char *local, *exposed;
static MPI_Win window;
static MPI_Group left_group, right_group;

/* Of equal bytes, so that the target can tell a whole put. */
static void put_to(int target)
{
    MPI_Put(local, bytes, MPI_CHAR, target, 0, bytes, MPI_CHAR, window);
}

static void put(long count)
{
    for (; rank == 0 && count > 0; count--) {
        put_to(TARGET);
        MPI_Win_flush(TARGET, window);
    }
}

static void get(long count)
{
    for (; rank == 0 && count > 0; count--) {
        MPI_Get(local, bytes, MPI_CHAR, TARGET, 0, bytes, MPI_CHAR, window);
        MPI_Win_flush(TARGET, window);
    }
}

static void accumulate(long count)
{
    int doubles = bytes / (int)sizeof(double);
    for (; rank == 0 && count > 0; count--, updates++) {
        MPI_Accumulate(local, doubles, MPI_DOUBLE, TARGET, 0, doubles, MPI_DOUBLE, MPI_SUM, window);
        MPI_Win_flush(TARGET, window);
    }
}

static void wrong(const char *what)
{
    fprintf(stderr, "one_sided: rank %d: the result of %s is wrong\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fetch_and_op(long count)
{
    long long one = 1, before;
    for (; rank == 0 && count > 0; count--, updates++) {
        MPI_Fetch_and_op(&one, &before, MPI_INT64_T, TARGET, 0, MPI_SUM, window);
        MPI_Win_flush(TARGET, window);
        if (before != updates)
            wrong("MPI_Fetch_and_op");
    }
}

/* Each finds what it compares with. */
static void compare_and_swap(long count)
{
    for (; rank == 0 && count > 0; count--, updates++) {
        long long next = updates + 1, before;
        MPI_Compare_and_swap(&next, &updates, &before, MPI_INT64_T, TARGET, 0, window);
        MPI_Win_flush(TARGET, window);
        if (before != updates)
            wrong("MPI_Compare_and_swap");
    }
}

static void many_puts(long count)
{
    for (; rank == 0 && count > 0; count--) {
        int i;
        for (i = 0; i < repeats; i++)
            MPI_Put(local + (size_t)i * bytes, bytes, MPI_CHAR, TARGET, (MPI_Aint)i * bytes, bytes, MPI_CHAR, window);
        MPI_Win_flush(TARGET, window);
    }
}

static void fence(long count)
{
    for (; count > 0; count--)
        MPI_Win_fence(0, window);
}

static void fence_put(long count)
{
    for (; count > 0; count--) {
        put_to(right);
        MPI_Win_fence(0, window);
    }
}

static void lock_put(int kind, int target)
{
    MPI_Win_lock(kind, target, 0, window);
    put_to(target);
    MPI_Win_unlock(target, window);
}

static void lock(long count)
{
    for (; rank == 0 && count > 0; count--)
        lock_put(MPI_LOCK_EXCLUSIVE, TARGET);
}

static void lock_shared(long count)
{
    for (; rank == 0 && count > 0; count--)
        lock_put(MPI_LOCK_SHARED, TARGET);
}

/* All want the same lock; one counts when each has had it. */
static void lock_contended(long count)
{
    for (; count > 0; count--)
        lock_put(MPI_LOCK_EXCLUSIVE, TARGET);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void lock_all(long count)
{
    for (; rank == 0 && count > 0; count--) {
        MPI_Win_lock_all(0, window);
        put_to(TARGET);
        MPI_Win_unlock_all(window);
    }
}

static void post_start(long count)
{
    for (; count > 0; count--) {
        MPI_Win_post(left_group, 0, window);
        MPI_Win_start(right_group, 0, window);
        put_to(right);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
    }
}

static const struct operation {
    const char *name;
    void (*run)(long count);
    /* The epoch in which all runs are. */
    enum { NONE, LOCKED, FENCED } epoch;
    /* What the target finds afterwards: the bytes that were put, the number of updates as a double or an integer. */
    enum { NOTHING, BYTES, DOUBLE, INTEGER } found;
} operations[] = {
    {"put", put, LOCKED, BYTES},
    {"get", get, LOCKED, NOTHING},
    {"accumulate", accumulate, LOCKED, DOUBLE},
    {"fetch_and_op", fetch_and_op, LOCKED, INTEGER},
    {"compare_and_swap", compare_and_swap, LOCKED, INTEGER},
    {"fence", fence, FENCED, NOTHING},
    {"fence_put", fence_put, FENCED, BYTES},
    {"lock", lock, NONE, BYTES},
    {"lock_shared", lock_shared, NONE, BYTES},
    {"lock_contended", lock_contended, NONE, BYTES},
    {"lock_all", lock_all, NONE, BYTES},
    {"post_start", post_start, NONE, BYTES},
};
static const struct operation many = {"many", many_puts, LOCKED, BYTES};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void compute(double seconds)
{
    double end = now() + seconds;
    while (now() < end)
        ;
}

/* Microseconds of one operation that begins while the target computes: the median of several. The target computes on for
   long after an operation of a few microseconds; one that needs the target's help lasts as long as the computing. */
static double while_computing(void (*run)(long count), double milliseconds)
{
    double times[BATCHES_MAX];
    int batches = (int)(milliseconds * 1e-3 / COMPUTING), i;
    if (batches < BATCHES_MIN)
        batches = BATCHES_MIN;
    if (batches > BATCHES_MAX)
        batches = BATCHES_MAX;
    run(1);
    for (i = 0; i < batches; i++) {
        double start;
        MPI_Barrier(MPI_COMM_WORLD);
        times[i] = 0;
        if (rank == 0) {
            compute(HEAD_START);
            start = now();
            run(1);
            times[i] = (now() - start) * 1e6;
        } else {
            compute(COMPUTING);
        }
    }
    return median(times, batches);
}

/* Makes the window, each element 0; whether the library has it. */
static int make_window(int allocate, size_t size)
{
    const char *procedure = allocate ? "MPI_Win_allocate" : "MPI_Win_create";
    int code, class = MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (allocate) {
        code = MPI_Win_allocate((MPI_Aint)size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &exposed, &window);
    } else {
        exposed = buffer_of(size);
        code = MPI_Win_create(exposed, (MPI_Aint)size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (code == MPI_SUCCESS) {
        memset(exposed, 0, size);
        return 1;
    }
    MPI_Error_class(code, &class);
    if (class != MPI_ERR_UNSUPPORTED_OPERATION) {
        fprintf(stderr, "rank %d: %s fails\n", rank, procedure);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("one_sided unsupported %s\n", procedure);
    return 0;
}

/* The results must be right, or the time is of no interest. The window is locked by no one and no fence is open. */
static void check(const struct operation *operation)
{
    size_t size = (size_t)bytes * repeats, i;
    long long count = updates;
    MPI_Bcast(&count, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    if (rank != TARGET)
        return;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, window);
    if (operation->found == BYTES)
        for (i = 0; i < size; i++)
            if (exposed[i] != 1)
                wrong(operation->name);
    if (operation->found == DOUBLE)
        for (i = 0; i < size / sizeof(double); i++)
            if (((double *)exposed)[i] != (double)count)
                wrong(operation->name);
    if (operation->found == INTEGER && *(long long *)exposed != count)
        wrong(operation->name);
    MPI_Win_unlock(TARGET, window);
}

/* A point; whether the library has all that it takes. */
static int point(const struct operation *operation, int allocate, double (*timed)(void (*)(long), double), double milliseconds,
                 const char *word)
{
    size_t size = (size_t)bytes * repeats, i;
    double result;
    if (!make_window(allocate, size))
        return 0;
    updates = 0;
    local = buffer_of(size);
    for (i = 0; operation->found == DOUBLE && i < size / sizeof(double); i++)
        ((double *)local)[i] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    if (operation->epoch == LOCKED)
        MPI_Win_lock_all(0, window);
    if (operation->epoch == FENCED)
        MPI_Win_fence(0, window);
    result = timed(operation->run, milliseconds) / repeats;
    if (operation->epoch == LOCKED)
        MPI_Win_unlock_all(window);
    if (operation->epoch == FENCED)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    MPI_Barrier(MPI_COMM_WORLD);
    check(operation);
    if (rank == 0)
        print("one_sided", word, result);
    MPI_Win_free(&window);
    if (!allocate)
        free(exposed);
    free(local);
    return 1;
}

/* The operation of that name, with its size behind it or without. */
static const struct operation *find(const char *word)
{
    const struct operation *end = operations + sizeof operations / sizeof *operations, *operation;
    size_t length = strcspn(word, "-");
    for (operation = operations; operation < end; operation++) {
        if (strlen(operation->name) == length && strncmp(operation->name, word, length) == 0) {
            bytes = word[length] == '-' ? atoi(word + length + 1) : (int)sizeof(double);
            return operation;
        }
    }
    fprintf(stderr, "one_sided: there is no operation %s\n", word);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return NULL;
}

int main(int argc, char **argv)
{
    double (*timed)(void (*)(long), double) = microseconds;
    const struct operation *operation = NULL;
    MPI_Group world;
    int i;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 4 || ranks < 2) {
        fprintf(stderr, "usage: one_sided allocate|create operation|computing|stream|rate MILLISECONDS POINT..., with 2 ranks at least\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &left, &left_group);
    MPI_Group_incl(world, 1, &right, &right_group);
    repeats = 1;
    if (strcmp(argv[2], "computing") == 0)
        timed = while_computing;
    if (strcmp(argv[2], "stream") == 0)
        repeats = STREAM;
    if (strcmp(argv[2], "rate") == 0)
        repeats = RATE;
    for (i = 4; i < argc; i++) {
        if (repeats == 1) {
            operation = find(argv[i]);
        } else {
            operation = &many;
            bytes = atoi(argv[i]);
        }
        if (!point(operation, strcmp(argv[1], "allocate") == 0, timed, atof(argv[3]), argv[i]))
            break;
    }
    MPI_Group_free(&left_group);
    MPI_Group_free(&right_group);
    MPI_Group_free(&world);
    MPI_Finalize();
    return 0;
}
