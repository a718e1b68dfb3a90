/* A target that computes: it looks at its window's memory and makes no call of MPI until the others have done operations of all kinds there.
 * It is turned on by WEFT_PROGRESS_THREAD=1, or with the argument `hint` by the window's info key. The argument `off`: the target computes for
 * a while, and nobody is promised more than that the program ends. `idle`: a target that computes while nothing comes costs nothing. `cycles`:
 * no thread is left behind. `exit`: it exits without an
 * end while the others go on. `sessions`: the same without a World Model. `jobs`: beside the thread the program forks and spawns, and the thread
 * is parked when the end comes. */
#include "rma.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { LARGE = 20000, CYCLES = 1000, ROUNDS = 3 };

static const char *how = "setting";
static MPI_Info info = MPI_INFO_NULL;
static long main_thread, reduced;

static long this_thread(void)
{
    return syscall(SYS_gettid);
}

/* A function of the program's runs in no thread but the program's. */
static void sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    SAME(this_thread(), main_thread, "the thread that reduces");
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
    reduced++;
}

static int threads(void)
{
    char line[256];
    int count = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL, "no /proc/self/status");
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "Threads: %d", &count) == 1)
            break;
    fclose(status);
    CHECK(count > 0, "no line of threads");
    return count;
}

/* One that has ended may count for a moment longer. */
static void threads_are(int expected)
{
    int now = threads();
    for (int i = 0; i < 10000 && now != expected; i++) {
        usleep(100);
        now = threads();
    }
    SAME(now, expected, "threads");
}

/* What an origin does: each kind of operation, short and long, in epochs that the target takes part in by nothing. The last one says that it
 * is through: word 0 counts those. */
static void work(MPI_Win win, long round)
{
    static long large[LARGE], back[LARGE];
    long one = 1, got = -1, value = 100 * round + me;
    MPI_Aint own = me, much = ranks;
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    OK(MPI_Put(&value, 1, MPI_LONG, 0, own, 1, MPI_LONG, win));
    OK(MPI_Win_unlock(0, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    OK(MPI_Get(&got, 1, MPI_LONG, 0, own, 1, MPI_LONG, win));
    OK(MPI_Win_flush(0, win));
    SAME(got, value, "what was put");
    OK(MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, own, MPI_SUM, win));
    OK(MPI_Win_unlock(0, win));
    SAME(got, value, "what was fetched");
    if (me == 1) {
        for (int i = 0; i < LARGE; i++)
            large[i] = i + round;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Put(large, LARGE, MPI_LONG, 0, much, LARGE, MPI_LONG, win));
        OK(MPI_Win_flush(0, win));
        OK(MPI_Get_accumulate(large, LARGE, MPI_LONG, back, LARGE, MPI_LONG, 0, much, LARGE, MPI_LONG, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        OK(MPI_Get(large, LARGE, MPI_LONG, 0, much, LARGE, MPI_LONG, win));
        OK(MPI_Win_unlock(0, win));
        for (int i = 0; i < LARGE; i++)
            CHECK(back[i] == i + round && large[i] == 2 * (i + round), "element %d: %ld and %ld", i, back[i], large[i]);
    }
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win));
    OK(MPI_Win_unlock(0, win));
}

static MPI_Win new_window(long **base)
{
    MPI_Win win;
    OK(MPI_Win_allocate((ranks + LARGE) * sizeof **base, sizeof **base, info, MPI_COMM_WORLD, base, &win));
    memset(*base, 0, (ranks + LARGE) * sizeof **base);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return win;
}

static void computes(void)
{
    long *base;
    MPI_Win win = new_window(&base), second;
    long *other;
    MPI_Op op;
    MPI_Request request;
    int value = 1, result = 0;
    OK(MPI_Op_create(sum, 1, &op));
    for (int round = 0; round < ROUNDS; round++) {
        /* A second one that asks for it comes and goes. */
        if (round == 1) {
            second = new_window(&other);
            OK(MPI_Win_free(&second));
        }
        OK(MPI_Iallreduce(&value, &result, 1, MPI_INT, op, MPI_COMM_WORLD, &request));
        if (me != 0) {
            work(win, round);
        } else if (strcmp(how, "off") == 0) {
            for (volatile long i = 0; i < 20000000; i++)
                ;
        } else {
            long until = (round + 1) * (ranks - 1);
            int64_t start = now_ns();
            while (__atomic_load_n(&base[0], __ATOMIC_ACQUIRE) != until)
                CHECK(now_ns() - start < 60000000000, "the others do not get on without rank 0: %ld of %ld", base[0], until);
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        SAME(result, ranks, "the sum");
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (me == 0) {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            for (int rank = 1; rank < ranks; rank++)
                SAME(base[rank], 100 * round + rank + 1, "of rank %d in round %d", rank, round);
            OK(MPI_Win_unlock(0, win));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    CHECK(ranks == 1 || reduced > 0 || me != 0, "nothing was reduced");
    if (strcmp(how, "exit") == 0) {
        for (long round = ROUNDS; me != 0; round++)
            work(win, round);
        while (__atomic_load_n(&base[0], __ATOMIC_ACQUIRE) < 10 * ranks)
            ;
        exit(7);
    }
    OK(MPI_Op_free(&op));
    OK(MPI_Win_free(&win));
}

/* How often this process has gone to sleep: its own thread does not, while it computes. */
static long sleeps(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

static void is_idle(void)
{
    long *base;
    MPI_Win win = new_window(&base);
    CHECK(threads() > 1, "there is no thread");
    long before = sleeps();
    int64_t start = now_ns();
    while (now_ns() - start < 400000000)
        ;
    long slept = sleeps() - before;
    printf("rank %d: slept %ld times\n", me, slept);
    /* A sleeper looks each 20 ms, and some times more at first; each 2 ms where nothing can wake it. */
    CHECK(slept < 300, "slept %ld times in 400 ms", slept);
    OK(MPI_Win_free(&win));
}

static void cycles(void)
{
    char *base;
    MPI_Win win;
    int before = threads(), most = 0;
    for (int i = 0; i < CYCLES; i++) {
        OK(MPI_Win_allocate(8, 1, info, MPI_COMM_SELF, &base, &win));
        int now = threads();
        most = now > most ? now : most;
        OK(MPI_Win_free(&win));
    }
    CHECK(most < before + 10, "%d threads, where there were %d", most, before);
    threads_are(before);
    /* It can be turned on and off later. */
    MPI_Info off;
    OK(MPI_Info_create(&off));
    OK(MPI_Info_set(off, "weft_progress_thread", "false"));
    OK(MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win));
    for (int i = 0; i < 3 && info != MPI_INFO_NULL; i++) {
        OK(MPI_Win_set_info(win, info));
        threads_are(before + 1);
        OK(MPI_Win_set_info(win, off));
        threads_are(before);
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Info_free(&off));
}

/* No World Model: the thread comes and goes with the sessions. */
static int sessions(void)
{
    int most = 0, left = 0;
    for (int i = 0; i < CYCLES; i++) {
        MPI_Session session;
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
        int now = threads();
        most = now > most ? now : most;
        OK(MPI_Session_finalize(&session));
        /* A transport may have others of its own. */
        left = i == 0 ? now - 1 : left;
    }
    CHECK(most > left && most < left + 10, "%d threads at most, and %d without", most, left);
    threads_are(left);
    printf("rma_progress_thread: ok\n");
    return 0;
}

/* Both jobs call this. */
static void jobs(const char *program)
{
    MPI_Comm parent, all;
    MPI_Win win;
    long *base;
    char *arguments[] = {"jobs", NULL};
    int place, size, spawned;
    OK(MPI_Comm_get_parent(&parent));
    spawned = parent != MPI_COMM_NULL;
    fflush(NULL);
    for (int i = 0; i < 4 && !spawned; i++) {
        int status = -1;
        pid_t child = fork();
        CHECK(child >= 0, "no child");
        if (child == 0 && i % 2 == 0)
            exit(0);
        if (child == 0) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0, "a child ended with status %d", status);
    }
    if (!spawned)
        OK(MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &parent, MPI_ERRCODES_IGNORE));
    OK(MPI_Intercomm_merge(parent, spawned, &all));
    OK(MPI_Comm_rank(all, &place));
    OK(MPI_Comm_size(all, &size));
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPI_Win_allocate(size * sizeof *base, sizeof *base, info, all, &base, &win));
        memset(base, 0, size * sizeof *base);
        OK(MPI_Barrier(all));
        OK(MPI_Win_lock_all(0, win));
        for (int rank = 0; rank < size; rank++) {
            long value = 100 * round + place, got;
            OK(MPI_Fetch_and_op(&value, &got, MPI_LONG, rank, place, MPI_SUM, win));
            OK(MPI_Win_flush(rank, win));
        }
        OK(MPI_Win_unlock_all(win));
        OK(MPI_Barrier(all));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, place, 0, win));
        for (int rank = 0; rank < size; rank++)
            SAME(base[rank], 100 * round + rank, "what rank %d added", rank);
        OK(MPI_Win_unlock(place, win));
        OK(MPI_Win_free(&win));
    }
    OK(MPI_Comm_free(&all));
    OK(MPI_Comm_disconnect(&parent));
    /* The others sleep in the barrier, where their threads are parked. */
    if (me == 0)
        usleep(20000);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (spawned) {
        OK(MPI_Finalize());
        exit(0);
    }
}

int main(int argc, char **argv)
{
    how = argc > 1 ? argv[1] : how;
    if (strcmp(how, "sessions") == 0)
        return sessions();
    begin_rma(&argc, &argv);
    main_thread = this_thread();
    if (getenv("WEFT_PROGRESS_THREAD") == NULL && strcmp(how, "off") != 0) {
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "weft_progress_thread", "true"));
    }
    if (strcmp(how, "idle") == 0) {
        is_idle();
    } else if (strcmp(how, "cycles") == 0) {
        cycles();
    } else if (strcmp(how, "jobs") == 0) {
        jobs(argv[0]);
    } else {
        computes();
    }
    if (info != MPI_INFO_NULL)
        OK(MPI_Info_free(&info));
    return end("rma_progress_thread");
}
