/* MPI_Abort from wherever a program may call it: the first argument says where, the second is the code. Rank 1 calls it (or
 * rank 0, if it is alone). The others would wait or compute forever. */
#include "check.h"
#include <pthread.h>
#include <signal.h>

static int code, who;
static volatile unsigned long spins;

static void wait_forever(void)
{
    char byte;
    MPI_Recv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, 12345, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void spin_forever(void)
{
    for (;;)
        spins++;
}

static void on_error(MPI_Comm *comm, int *error, ...)
{
    (void)error;
    MPI_Abort(*comm, code);
}

static void aborting_op(void *in, void *out, int *length, MPI_Datatype *type)
{
    (void)in, (void)out, (void)length, (void)type;
    if (me == who)
        MPI_Abort(MPI_COMM_WORLD, code);
}

static int aborting_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)keyval, (void)value, (void)extra;
    MPI_Abort(comm, code);
    return MPI_SUCCESS;
}

static int aborting_copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
    MPI_Abort(comm, code);
    return MPI_SUCCESS;
}

static void *aborting_thread(void *unused)
{
    MPI_Abort(MPI_COMM_WORLD, code);
    return unused;
}

static void *reading_thread(void *file)
{
    /* Nothing ever comes, and the stream is locked meanwhile. */
    fgetc(file);
    return NULL;
}

/* The rank of the environment, where MPI does not run yet. */
static int early_rank(void)
{
    const char *rank = getenv("PMI_RANK");
    return rank != NULL ? atoi(rank) : 0;
}

static void before_init(void)
{
    const char *size = getenv("PMI_SIZE");
    if (early_rank() == (size != NULL && atoi(size) > 1))
        MPI_Abort(MPI_COMM_WORLD, code);
    spin_forever();
}

static void in_session(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "abort", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &ranks);
    MPI_Barrier(comm);
    if (me == (ranks > 1))
        MPI_Abort(comm, code);
    spin_forever();
}

/* The process is stopped, or gone. */
static int is_stopped(int pid)
{
    char path[64], line[512], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 1;
    if (fgets(line, sizeof line, file) != NULL)
        state = strrchr(line, ')')[2];
    fclose(file);
    return state == 'T' || state == 'Z' || state == 'X';
}

/* They stop when all have come and are told to: whoever stops earlier may still hold messages that others wait for. And what
 * tells them is a blocking send. Had they stopped at the end of a synchronous one of theirs, they would wait for an answer
 * that may leave only with the next call of MPI (the address of a rank that is sent to for the first time is looked up
 * first), and there is none. */
static void stop_all_others(void)
{
    int *pids = allocate(ranks * sizeof *pids), pid = getpid();
    if (me != who) {
        MPI_Send(&pid, 1, MPI_INT, who, 1, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, who, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        raise(SIGSTOP);
        wait_forever();
    }
    for (int i = 0; i < ranks; i++)
        if (i != who)
            MPI_Recv(&pids[i], 1, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ranks; i++)
        if (i != who)
            MPI_Send(NULL, 0, MPI_BYTE, i, 2, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        while (i != who && !is_stopped(pids[i]))
            usleep(1000);
}

/* Output in C's buffers: more than a pipe holds. */
static void write_much(void)
{
    enum { LINES = 20000 };
    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    for (int i = 0; i < LINES; i++)
        printf("line %d\n", i);
    printf("the last line, without an end");
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3, "usage: abort WHERE CODE [FILE]");
    const char *where = argv[1];
    int keyval, sum;
    MPI_Errhandler handler;
    MPI_Comm comm;
    MPI_Op op;
    pthread_t thread;
    code = atoi(argv[2]);
    if (strcmp(where, "before") == 0)
        before_init();
    if (strcmp(where, "session") == 0)
        in_session();
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    who = ranks > 1;
    printf("rank %d is here, pid %d\n", me, (int)getpid());
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(where, "stopped") == 0)
        stop_all_others();
    if (strcmp(where, "op") == 0) {
        MPI_Op_create(aborting_op, 1, &op);
        /* A reduction with oneself need not call the function; one for this process will, among more. */
        if (ranks == 1)
            MPI_Reduce_local(&me, &sum, 1, MPI_INT, op);
        for (;;)
            MPI_Reduce(&me, &sum, 1, MPI_INT, op, who, MPI_COMM_WORLD);
    } else if (strcmp(where, "after") == 0) {
        MPI_Finalize();
        if (me == who)
            MPI_Abort(MPI_COMM_WORLD, code);
        usleep(500000);
        printf("rank %d goes on\n", me);
        return 0;
    } else if (strcmp(where, "other") == 0) {
        /* A job that has nothing to do with it: it goes on until a file is there. */
        for (int here = 0; !here;) {
            here = me == 0 && access(argv[3], F_OK) == 0;
            MPI_Bcast(&here, 1, MPI_INT, 0, MPI_COMM_WORLD);
            usleep(1000);
        }
        return end("abort");
    } else if (strcmp(where, "all") == 0)
        MPI_Abort(MPI_COMM_WORLD, code + me);
    if (me != who) {
        sigset_t all;
        sigfillset(&all);
        if (strcmp(where, "blocked") == 0) {
            sigprocmask(SIG_BLOCK, &all, NULL);
            spin_forever();
        }
        if (strcmp(where, "finalize") == 0 || strcmp(where, "at_finalize") == 0)
            MPI_Finalize();
        wait_forever();
    }
    if (strcmp(where, "world") == 0 || strcmp(where, "blocked") == 0 || strcmp(where, "stopped") == 0)
        MPI_Abort(MPI_COMM_WORLD, code);
    else if (strcmp(where, "self") == 0)
        MPI_Abort(MPI_COMM_SELF, code);
    else if (strcmp(where, "null") == 0)
        MPI_Abort(MPI_COMM_NULL, code);
    else if (strcmp(where, "handler") == 0) {
        MPI_Comm_create_errhandler(on_error, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        MPI_Send(NULL, 0, MPI_BYTE, ranks + 7, 1, MPI_COMM_WORLD);
    } else if (strcmp(where, "at_finalize") == 0) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, aborting_delete, &keyval, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
        MPI_Finalize();
    } else if (strcmp(where, "delete") == 0) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, aborting_delete, &keyval, NULL);
        MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, NULL);
        MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
    } else if (strcmp(where, "copy") == 0) {
        MPI_Comm_create_keyval(aborting_copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
    } else if (strcmp(where, "finalize") == 0) {
        usleep(200000);
        MPI_Abort(MPI_COMM_WORLD, code);
    } else if (strcmp(where, "output") == 0) {
        write_much();
        MPI_Abort(MPI_COMM_WORLD, code);
    } else if (strcmp(where, "thread") == 0) {
        CHECK(pthread_create(&thread, NULL, aborting_thread, NULL) == 0, "no thread");
        wait_forever();
    } else if (strcmp(where, "reader") == 0) {
        int ends[2];
        CHECK(pipe(ends) == 0, "no pipe");
        FILE *file = fdopen(ends[0], "r");
        CHECK(file != NULL && pthread_create(&thread, NULL, reading_thread, file) == 0, "no thread");
        while (ftrylockfile(file) == 0) {
            funlockfile(file);
            usleep(1000);
        }
        MPI_Abort(MPI_COMM_WORLD, code);
    }
    FAIL("MPI_Abort returned, or there is no such place: %s", where);
    return 0;
}
