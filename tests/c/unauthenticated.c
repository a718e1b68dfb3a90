/* Ranks exchange messages while somebody else connects to their endpoints. Each rank prints where it listens:
 *
 *     endpoint RANK tcp|udp PORT      for each socket, then
 *     ready RANK
 *
 * They wait for a file `go` before the first message, then rank 0 prints `traffic`, and they go on until there is a
 * file `stop`. tests/programs/unauthenticated.rs is the unauthenticated sender. */
#include "check.h"

#include <dirent.h>

enum { MOST = 300000 };

static int exists(const char *name)
{
    return access(name, F_OK) == 0;
}

/* Whether a descriptor of this process is that socket. */
static int is_ours(unsigned long inode)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL, "/proc/self/fd can't be read");
    int found = 0;
    for (struct dirent *entry; !found && (entry = readdir(folder)) != NULL;) {
        char path[300], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%.200s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length > 0) {
            target[length] = 0;
            found = strcmp(target, wanted) == 0;
        }
    }
    closedir(folder);
    return found;
}

/* The sockets of a kind that wait for anybody: TCP's in state LISTEN (10), UDP's that are not connected (7). */
static void print_endpoints(const char *kind, unsigned state)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/self/net/%s", kind);
    FILE *table = fopen(path, "r");
    CHECK(table != NULL, "%s can't be read", path);
    while (fgets(line, sizeof line, table) != NULL) {
        unsigned port, at;
        unsigned long inode;
        if (sscanf(line, "%*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*d %*d %lu", &port, &at, &inode) == 3 &&
            at == state && is_ours(inode))
            printf("endpoint %d %s %u\n", me, kind, port);
    }
    fclose(table);
}

/* Everybody sends to everybody. */
static void exchange(uint32_t round)
{
    static char out[MOST], in[MOST];
    static const int sizes[] = {8, 3000, 40000, MOST};
    int bytes = sizes[round % (sizeof sizes / sizeof *sizes)];
    for (int distance = 1; distance < ranks; distance++) {
        int to = (me + distance) % ranks, from = (me - distance + ranks) % ranks;
        MPI_Status status;
        fill(out, (size_t)bytes, (uint32_t)me + round * 10);
        MPI_Sendrecv(out, bytes, MPI_BYTE, to, 3, in, MOST, MPI_BYTE, from, 3, MPI_COMM_WORLD, &status);
        STATUS(status, from, 3, bytes);
        FILLED(in, (size_t)bytes, (uint32_t)from + round * 10, "a message between ranks");
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    print_endpoints("tcp", 10);
    print_endpoints("udp", 7);
    printf("ready %d\n", me);
    fflush(stdout);
    while (!exists("go"))
        usleep(1000);

    uint32_t round = 0;
    for (int stop = 0; !stop;) {
        exchange(round++);
        if (me == 0 && round == 1) {
            printf("traffic\n");
            fflush(stdout);
        }
        stop = me == 0 && exists("stop");
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int more = 0; more < 20; more++)
        exchange(round++);
    return end("unauthenticated");
}
