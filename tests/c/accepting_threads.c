/* Several accepts at once, on several threads of a process: each has a port, and several wait at one port. Clients are threads of the other ranks. */
#include "jobs.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 3 };

static char names[THREADS][MPI_MAX_PORT_NAME];
static MPI_Comm mine[THREADS];

static void speak(MPI_Comm inter, int low)
{
    int out = me, in = -1;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, 3, &in, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE));
    if (!low)
        SAME(in, 0, "rank of the accepting process");
    OK(MPI_Comm_disconnect(&inter));
}

static void *accepts(void *argument)
{
    long nth = (long)argument;
    MPI_Comm inter;
    for (int round = 0; round < ROUNDS * (ranks - 1); round++) {
        OK(MPI_Comm_accept(names[nth], MPI_INFO_NULL, 0, mine[nth], &inter));
        speak(inter, 1);
    }
    return NULL;
}

static void *connects(void *argument)
{
    long nth = (long)argument;
    MPI_Comm inter;
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPI_Comm_connect(names[nth], MPI_INFO_NULL, 0, mine[nth], &inter));
        speak(inter, 0);
    }
    return NULL;
}

static void *close_port(void *argument)
{
    (void)argument;
    usleep(20000);
    OK(MPI_Close_port(names[0]));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    begin_with(&argc, &argv, MPI_THREAD_MULTIPLE);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int nth = 0; nth < THREADS; nth++)
        OK(MPI_Comm_dup(MPI_COMM_SELF, &mine[nth]));
    for (int one_port = 0; one_port < 2; one_port++) {
        for (int nth = 0; me == 0 && nth < THREADS; nth++) {
            if (nth == 0 || !one_port)
                OK(MPI_Open_port(MPI_INFO_NULL, names[nth]));
            else
                strcpy(names[nth], names[0]);
        }
        OK(MPI_Bcast(names, sizeof names, MPI_CHAR, 0, MPI_COMM_WORLD));
        for (long nth = 0; nth < THREADS; nth++)
            CHECK(pthread_create(&threads[nth], NULL, me == 0 ? accepts : connects, (void *)nth) == 0, "no thread");
        for (int nth = 0; nth < THREADS; nth++)
            pthread_join(threads[nth], NULL);
        for (int nth = 0; me == 0 && nth < (one_port ? 1 : THREADS); nth++)
            OK(MPI_Close_port(names[nth]));
    }
    /* A port that is closed while a thread waits there. */
    if (me == 0) {
        MPI_Comm inter;
        OK(MPI_Open_port(MPI_INFO_NULL, names[0]));
        pthread_t closes;
        CHECK(pthread_create(&closes, NULL, close_port, NULL) == 0, "no thread");
        ERROR(MPI_ERR_PORT, MPI_Comm_accept(names[0], MPI_INFO_NULL, 0, mine[0], &inter), "port");
        pthread_join(closes, NULL);
    }
    for (int nth = 0; nth < THREADS; nth++)
        OK(MPI_Comm_free(&mine[nth]));
    return end("accepting_threads");
}
