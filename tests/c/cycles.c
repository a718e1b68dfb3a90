/* Jobs that come and go again and again leave nothing behind in the one that stays: no memory, descriptors, threads or mappings; nor in its launcher.
 * `cycles spawn N`: children are spawned; `cycles visit N`: strangers come to a port, each a process of its own; `cycles meet N`: the same
 * stranger comes each time. */
#define _GNU_SOURCE
#include "jobs.h"

#include <dirent.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

typedef struct {
    long allocated, resident, descriptors, threads, mappings;
} Kept;

static long lines_of(const char *path)
{
    FILE *file = fopen(path, "r");
    CHECK(file != NULL, "%s can't be read", path);
    long lines = 0;
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

static long entries_of(const char *path)
{
    DIR *folder = opendir(path);
    CHECK(folder != NULL, "%s can't be read", path);
    long entries = 0;
    while (readdir(folder) != NULL)
        entries++;
    closedir(folder);
    return entries;
}

static Kept kept(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &pages, &resident) == 2, "/proc/self/statm can't be read");
    fclose(file);
    struct mallinfo2 info = mallinfo2();
    return (Kept){
        .allocated = (long)(info.uordblks + info.hblkhd),
        .resident = resident * sysconf(_SC_PAGESIZE),
        .descriptors = entries_of("/proc/self/fd"),
        .threads = entries_of("/proc/self/task"),
        .mappings = lines_of("/proc/self/maps"),
    };
}

static void print(int cycles, Kept now)
{
    if (getenv("CYCLES_PRINT") != NULL)
        printf("%d: %ld bytes allocated, %ld resident, %ld descriptors, %ld threads, %ld mappings\n", cycles, now.allocated,
               now.resident, now.descriptors, now.threads, now.mappings);
    fflush(stdout);
}

/* What libfabric closes when it hears that the other side has closed it may be there or not; what each cycle leaves is more than that. */
static void grows(const char *what, long first, long last, long most)
{
    CHECK(last - first <= most, "%s have become more, from %ld to %ld", what, first, last);
}

/* What the launcher keeps (the parent of this process). */
typedef struct {
    long descriptors, threads;
} Around;

static Around around(void)
{
    char descriptors[100], threads[100];
    snprintf(descriptors, sizeof descriptors, "/proc/%d/fd", (int)getppid());
    snprintf(threads, sizeof threads, "/proc/%d/task", (int)getppid());
    return (Around){.descriptors = entries_of(descriptors), .threads = entries_of(threads)};
}

/* The launcher of the last children ends a little later than these, and the one that stays hears of it then. */
static void settles(Around first)
{
    for (int waited_ms = 0;; waited_ms++) {
        Around now = around();
        if (now.descriptors <= first.descriptors && now.threads <= first.threads)
            return;
        CHECK(waited_ms < 30000, "the launcher had %ld descriptors and %ld threads, and has %ld and %ld", first.descriptors,
              first.threads, now.descriptors, now.threads);
        usleep(1000);
    }
}

/* One message each way of each kind, and a communicator of both jobs. */
static void meet(MPI_Comm inter, int low)
{
    MPI_Comm merged;
    talk(inter, low);
    OK(MPI_Intercomm_merge(inter, !low, &merged));
    OK(MPI_Barrier(merged));
    OK(MPI_Comm_disconnect(&merged));
    OK(MPI_Comm_disconnect(&inter));
}

int main(int argc, char **argv)
{
    MPI_Comm inter;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&inter));
    if (inter != MPI_COMM_NULL) {
        meet(inter, 0);
        MPI_Finalize();
        return 0;
    }
    const char *mode = argc > 2 ? argv[1] : "spawn";
    int cycles = argc > 2 ? atoi(argv[2]) : 100;
    if (strcmp(mode, "guest") == 0) {
        for (int nth = 0; nth < cycles; nth++) {
            OK(MPI_Comm_connect(argv[3], MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
            meet(inter, 0);
        }
        MPI_Finalize();
        return 0;
    }
    char port[MPI_MAX_PORT_NAME], number[20];
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    /* Guests are of no launcher's job. */
    unsetenv("PMI_FD");
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
    pid_t guest = -1;
    Kept first = {0}, last = {0};
    Around outside = {0};
    for (int nth = 1; nth <= cycles; nth++) {
        if (strcmp(mode, "spawn") == 0) {
            OK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        } else {
            int each = strcmp(mode, "visit") == 0;
            snprintf(number, sizeof number, "%d", each ? 1 : cycles);
            if (me == 0 && (each || nth == 1)) {
                char *arguments[] = {argv[0], "guest", number, port, NULL};
                /* libfabric's sockets would be inherited. */
                posix_spawn_file_actions_t actions;
                posix_spawn_file_actions_init(&actions);
                posix_spawn_file_actions_addclosefrom_np(&actions, 3);
                CHECK(posix_spawn(&guest, argv[0], &actions, NULL, arguments, environ) == 0, "%s can't be started", argv[0]);
                posix_spawn_file_actions_destroy(&actions);
            }
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        }
        meet(inter, 1);
        int status = 0;
        last = kept();
        if (guest != -1 && (strcmp(mode, "visit") == 0 || nth == cycles)) {
            CHECK(waitpid(guest, &status, 0) == guest && status == 0, "a guest ended with %d", status);
        }
        if (nth == (cycles + 4) / 5)
            first = last, outside = around();
        if (nth % ((cycles + 9) / 10) == 0 && me == 0)
            print(nth, last);
    }
    OK(MPI_Close_port(port));
    grows("descriptors", first.descriptors, last.descriptors, cycles / 4);
    grows("threads", first.threads, last.threads, cycles / 4);
    grows("mappings", first.mappings, last.mappings, cycles / 4);
    /* Tables grow by doubling. */
    grows("bytes allocated", first.allocated, last.allocated, 65536 + 600L * cycles);
    settles(outside);
    return end("cycles");
}
