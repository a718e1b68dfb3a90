/* Jobs that come and go leave nothing behind: `spawn_cycles N CHILDREN`: N times, children are spawned, work and are disconnected, while this process and its
 * launcher keep the same number of descriptors, threads and files, and their memory. `spawn_cycles N 0`: children are spawned once, and then this job and
 * they meet at a port and part. */
#include "jobs.h"
#include <dirent.h>

static int entries(const char *folder, const char *with)
{
    DIR *open = opendir(folder);
    int count = 0;
    if (open == NULL)
        return -1;
    for (struct dirent *entry; (entry = readdir(open)) != NULL;)
        count += strstr(entry->d_name, with) != NULL;
    closedir(open);
    return count;
}

struct kept {
    int descriptors, threads, kilobytes;
};

static struct kept kept_by(int process)
{
    char path[100], line[200];
    struct kept kept = {0, 0, 0};
    snprintf(path, sizeof path, "/proc/%d/fd", process);
    kept.descriptors = entries(path, "");
    snprintf(path, sizeof path, "/proc/%d/status", process);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL, "%s can't be read", path);
    while (fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "Threads: %d", &kept.threads);
        sscanf(line, "VmRSS: %d", &kept.kilobytes);
    }
    fclose(file);
    return kept;
}

static MPI_Comm spawned(char *program, int count, char *port, const char *times)
{
    char *arguments[] = {port, (char *)times, NULL};
    MPI_Comm children;
    OK(MPI_Comm_spawn(program, arguments, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
    return children;
}

static void meet(MPI_Comm inter, int low)
{
    talk(inter, low);
    gather_across(inter, low);
    OK(MPI_Comm_disconnect(&inter));
}

/* After the end of the children, of which MPI_Comm_disconnect says nothing: their launchers end soon. */
static struct kept settled(int process, struct kept before)
{
    struct kept now = kept_by(process);
    while (before.descriptors != 0 && (now.descriptors > before.descriptors || now.threads > before.threads)) {
        usleep(1000);
        now = kept_by(process);
    }
    return now;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        meet(parent, 0);
        for (int nth = atoi(argv[2]); nth > 0; nth--) {
            OK(MPI_Comm_connect(argv[1], MPI_INFO_NULL, 0, MPI_COMM_WORLD, &parent));
            meet(parent, 0);
        }
        MPI_Finalize();
        return 0;
    }
    int cycles = argc > 1 ? atoi(argv[1]) : 20, children = argc > 2 ? atoi(argv[2]) : 1;
    char port[MPI_MAX_PORT_NAME] = "none", times[20];
    if (children == 0) {
        if (me == 0)
            OK(MPI_Open_port(MPI_INFO_NULL, port));
        snprintf(times, sizeof times, "%d", 2 * cycles);
        meet(spawned(argv[0], 2, port, times), 1);
    }
    int processes[2] = {getpid(), getppid()}, files = 0, shared = 0;
    struct kept first[2] = {{0}, {0}};
    for (int nth = 0; nth < 2 * cycles; nth++) {
        /* The first half fills what is kept for good: caches, and room that is used again. */
        if (nth == cycles) {
            MPI_Barrier(MPI_COMM_WORLD);
            for (int i = 0; i < 2; i++)
                first[i] = kept_by(processes[i]);
            files = entries(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", "weft");
            shared = entries("/dev/shm", "weft");
        }
        MPI_Comm inter;
        if (children > 0)
            inter = spawned(argv[0], children, port, "0");
        else
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        meet(inter, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) {
        const char *who = i == 0 ? "this process" : "its launcher";
        struct kept last = settled(processes[i], first[i]);
        if (me == 0)
            printf("%s: %d descriptors, %d threads, %d kB; then %d, %d, %d\n", who, first[i].descriptors, first[i].threads, first[i].kilobytes,
                   last.descriptors, last.threads, last.kilobytes);
        /* A thousand bytes per cycle at most, beyond what an allocator takes in one piece. */
        CHECK(last.kilobytes - first[i].kilobytes <= 600 + cycles, "the memory of %s has grown from %d to %d kB in %d cycles", who,
              first[i].kilobytes, last.kilobytes, cycles);
    }
    int now = entries(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", "weft");
    CHECK(now <= files, "there were %d files, and now are %d", files, now);
    now = entries("/dev/shm", "weft");
    CHECK(now <= shared, "there were %d files of shared memory, and now are %d", shared, now);
    return end("spawn_cycles");
}
