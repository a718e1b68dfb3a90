/* The memory of windows: what the predefined attributes tell of it, attached and shared memory, and that it goes with
 * its window, which all leave together. */
#include "windows.h"

#include <dirent.h>
#include <malloc.h>

/* What the predefined attributes say. */
static void predefined(MPI_Win win, void *base, MPI_Aint size, int disp_unit, int flavor)
{
    void *value = &value;
    int flag = 0, *number;
    MPI_Aint *bytes;
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag));
    CHECK(flag && value == base, "MPI_WIN_BASE: flag %d, expected %p, got %p", flag, base, value);
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &flag));
    CHECK(flag, "MPI_WIN_SIZE is not there");
    SAME(*bytes, size, "MPI_WIN_SIZE");
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &number, &flag));
    CHECK(flag, "MPI_WIN_DISP_UNIT is not there");
    SAME(*number, disp_unit, "MPI_WIN_DISP_UNIT");
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &number, &flag));
    CHECK(flag, "MPI_WIN_CREATE_FLAVOR is not there");
    SAME(*number, flavor, "MPI_WIN_CREATE_FLAVOR");
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &number, &flag));
    CHECK(flag && *number == MPI_WIN_UNIFIED, "MPI_WIN_MODEL: flag %d, value %d", flag, *number);
    /* Whatever becomes of other windows, these stay what they were. */
    MPI_Win other;
    int *again;
    OK(MPI_Win_create(memory, 1, 77, MPI_INFO_NULL, MPI_COMM_WORLD, &other));
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &number, &flag));
    OK(MPI_Win_get_attr(other, MPI_WIN_DISP_UNIT, &again, &flag));
    CHECK(*number == disp_unit && *again == 77, "the displacement units of two windows");
    OK(MPI_Win_free(&other));
}

static void flavors(void)
{
    MPI_Win win;
    MPI_Group group, whole;
    MPI_Comm reversed;
    int result;
    char *base = NULL;
    OK(MPI_Win_create(memory, 10 * me, me + 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    predefined(win, memory, 10 * me, me + 1, MPI_WIN_FLAVOR_CREATE);
    free_window(&win);
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_free(&win));
    OK(MPI_Win_create_c(memory, 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    predefined(win, memory, 8, 8, MPI_WIN_FLAVOR_CREATE);
    free_window(&win);
    /* Too large for an int. */
    OK(MPI_Win_create_c(memory, 8, (MPI_Aint)1 << 40, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    predefined(win, memory, 8, MPI_UNDEFINED, MPI_WIN_FLAVOR_CREATE);
    free_window(&win);
    OK(MPI_Win_allocate(1000 + me, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    CHECK(base != NULL && (uintptr_t)base % 16 == 0, "memory at %p", (void *)base);
    fill(base, 1000 + me, me);
    predefined(win, base, 1000 + me, 4, MPI_WIN_FLAVOR_ALLOCATE);
    FILLED(base, 1000 + me, me, "memory of a window");
    free_window(&win);
    OK(MPI_Win_allocate_c(0, 2, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    predefined(win, base, 0, 2, MPI_WIN_FLAVOR_ALLOCATE);
    free_window(&win);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    predefined(win, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
    free_window(&win);
    /* A window outlives its communicator, and has its group. */
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &reversed));
    OK(MPI_Comm_group(reversed, &whole));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, reversed, &win));
    OK(MPI_Comm_free(&reversed));
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Group_compare(group, whole, &result));
    SAME(result, MPI_IDENT, "the group of a window");
    OK(MPI_Group_free(&group));
    /* Nobody runs out of them. */
    int is_one = ranks == 2 && me == 0;
    for (int i = 0; is_one && i < 1100000; i++)
        OK(MPI_Win_get_group(win, &group));
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Group_free(&whole));
    free_window(&win);
    int rank;
    OK(MPI_Group_rank(group, &rank));
    SAME(rank, ranks - 1 - me, "rank in the group of a freed window");
    for (int i = 0; is_one && i < 1100000; i++) {
        whole = group;
        OK(MPI_Group_free(&whole));
    }
    OK(MPI_Group_free(&group));
}

/* MPI_Win_free is a barrier: rank 0 comes to it last, and nobody leaves before. */
static void free_is_a_barrier(void)
{
    MPI_Win win;
    int64_t *came;
    OK(MPI_Win_allocate_shared(me == 0 ? sizeof *came : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &came, &win));
    MPI_Aint size;
    int disp_unit;
    OK(MPI_Win_shared_query(win, 0, &size, &disp_unit, &came));
    if (me == 0)
        __atomic_store_n(came, 0, __ATOMIC_SEQ_CST);
    together(MPI_COMM_WORLD);
    MPI_Win freed = new_window();
    if (me == 0) {
        usleep(10000);
        __atomic_store_n(came, 1, __ATOMIC_SEQ_CST);
    }
    free_window(&freed);
    SAME(__atomic_load_n(came, __ATOMIC_SEQ_CST), 1, "whether rank 0 had come when MPI_Win_free returned");
    free_window(&win);
}

static void dynamic(void)
{
    MPI_Win win;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_attach(win, memory, 100));
    OK(MPI_Win_attach(win, memory + 100, 100));
    OK(MPI_Win_attach(win, memory + 300, 0));
    OK(MPI_Win_attach(win, NULL, 0));
    ERROR(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, memory + 99, 1), "overlap", hex((uintptr_t)memory + 99));
    ERROR(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, memory + 150, 100), "overlap");
    ERROR(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, memory, 1000), "overlap", "1000");
    ERROR(MPI_ERR_SIZE, MPI_Win_attach(win, memory + 500, -1), "size", "-1");
    ERROR(MPI_ERR_BASE, MPI_Win_attach(win, NULL, 5), "base", "5");
    ERROR(MPI_ERR_BASE, MPI_Win_detach(win, memory + 1), "base", hex((uintptr_t)memory + 1));
    OK(MPI_Win_detach(win, memory));
    ERROR(MPI_ERR_BASE, MPI_Win_detach(win, memory), "base", hex((uintptr_t)memory));
    OK(MPI_Win_attach(win, memory, 50));
    OK(MPI_Win_detach(win, NULL));
    MPI_Aint size;
    int disp_unit;
    char *base;
    ERROR(MPI_ERR_RMA_FLAVOR, MPI_Win_shared_query(win, 0, &size, &disp_unit, &base), "MPI_Win_create_dynamic");
    /* What is still attached is detached with the window. */
    free_window(&win);
    win = new_window();
    ERROR(MPI_ERR_RMA_FLAVOR, MPI_Win_attach(win, memory, 1), "Create");
    ERROR(MPI_ERR_RMA_FLAVOR, MPI_Win_detach(win, memory), "Create");
    free_window(&win);
}

/* Everybody sees everybody's memory, at the place that the flavor of the hint demands. */
static void shared_with(MPI_Info info, int separate, int empty)
{
    MPI_Win win;
    unsigned char *base, *theirs, *end = NULL;
    MPI_Aint size, mine = me == empty ? 0 : 1000 + 10 * me;
    int disp_unit;
    OK(MPI_Win_allocate_shared(mine, me + 1, info, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    predefined(win, base, mine, me + 1, MPI_WIN_FLAVOR_SHARED);
    for (int i = 0; i < mine; i++)
        SAME(base[i], 0, "byte %d of new shared memory", i);
    fill(base, mine, me);
    together(MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks; rank++) {
        OK(MPI_Win_shared_query(win, rank, &size, &disp_unit, &theirs));
        SAME(size, rank == empty ? 0 : 1000 + 10 * rank, "size of rank %d", rank);
        SAME(disp_unit, rank + 1, "displacement unit of rank %d", rank);
        CHECK(rank != me || theirs == base, "a rank's own memory");
        CHECK(separate || end == NULL || theirs == end, "the memory of rank %d does not follow the one before", rank);
        CHECK(!separate || (uintptr_t)theirs % 4096 == 0, "the memory of rank %d is at %p", rank, (void *)theirs);
        FILLED(theirs, size, rank, "another rank's memory");
        end = theirs + size;
    }
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &disp_unit, &theirs));
    int first = empty == 0 ? 1 : 0;
    SAME(size, first < ranks ? 1000 + 10 * first : 0, "size of the first memory");
    if (first < ranks) {
        SAME(disp_unit, first + 1, "displacement unit of the first memory");
        FILLED(theirs, size, first, "the first memory");
    }
    ERROR(MPI_ERR_RANK, MPI_Win_shared_query(win, ranks, &size, &disp_unit, &base), "rank");
    ERROR(MPI_ERR_RANK, MPI_Win_shared_query(win, -77, &size, &disp_unit, &base), "rank", "-77");
    ERROR(MPI_ERR_ARG, MPI_Win_shared_query(win, 0, NULL, &disp_unit, &base), "size");
    ERROR(MPI_ERR_ARG, MPI_Win_shared_query(win, 0, &size, NULL, &base), "disp_unit");
    ERROR(MPI_ERR_ARG, MPI_Win_shared_query(win, 0, &size, &disp_unit, NULL), "baseptr");
    together(MPI_COMM_WORLD);
    free_window(&win);
}

/* The memory of MPI_Win_allocate is shared by ranks of a host, if it is shared at all: then all of these see the same. */
static void of_a_host(void)
{
    MPI_Win win;
    MPI_Comm host;
    MPI_Info info;
    MPI_Aint size, mine = me % 3 * 1000;
    int disp_unit, here, seen = 0;
    char *base, *theirs;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_size(host, &here));
    OK(MPI_Win_allocate(mine, me + 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    CHECK(base != NULL && (uintptr_t)base % 64 == 0, "memory at %p", (void *)base);
    fill(base, mine, me);
    together(MPI_COMM_WORLD);
    for (int rank = 0; rank < ranks; rank++) {
        OK(MPI_Win_shared_query(win, rank, &size, &disp_unit, &theirs));
        CHECK(rank != me || (theirs == base && size == mine), "a rank's own memory");
        if (theirs == NULL) {
            SAME(size, 0, "size of memory that can't be seen");
            continue;
        }
        seen++;
        SAME(size, rank % 3 * 1000, "size of rank %d", rank);
        SAME(disp_unit, rank + 1, "displacement unit of rank %d", rank);
        FILLED(theirs, size, rank, "memory of a rank of the host");
    }
    CHECK(seen == 1 || seen == here, "%d of %d ranks are seen", seen, here);
    const char *access = getenv("WEFT_WINDOWS"), *nodes = getenv("WEFT_FAKE_NODES");
    if (access == NULL && nodes == NULL && here == ranks)
        SAME(seen, here, "ranks that are seen");
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &disp_unit, &theirs));
    if (seen == ranks && ranks > 1) {
        SAME(size, 1000, "size of the first memory");
        SAME(disp_unit, 2, "displacement unit of the first memory");
    }
    together(MPI_COMM_WORLD);
    free_window(&win);
    /* What is aligned more than a page each rank has for itself. */
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "65536"));
    OK(MPI_Win_allocate(100, 1, info, MPI_COMM_WORLD, &base, &win));
    CHECK((uintptr_t)base % 65536 == 0, "memory at %p", (void *)base);
    memset(base, 1, 100);
    free_window(&win);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&host));
}

static void shared(void)
{
    MPI_Info info;
    MPI_Win win;
    MPI_Aint size, disp_unit;
    char *base;
    shared_with(MPI_INFO_NULL, 0, -1);
    shared_with(MPI_INFO_NULL, 0, 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
    shared_with(info, 1, -1);
    OK(MPI_Info_free(&info));
    OK(MPI_Win_allocate_shared_c(0, (MPI_Aint)1 << 40, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Win_shared_query_c(win, me, &size, &disp_unit, &base));
    CHECK(size == 0 && disp_unit == (MPI_Aint)1 << 40, "an empty shared window");
    free_window(&win);
    of_a_host();
    /* Of windows of the user's memory a rank gets at its own. */
    win = new_window();
    for (int rank = 0; rank < ranks; rank++) {
        OK(MPI_Win_shared_query_c(win, rank, &size, &disp_unit, &base));
        SAME(size, rank == me ? (int)sizeof memory : 0, "size of rank %d", rank);
        CHECK(rank != me || base == memory, "a rank's own memory");
    }
    free_window(&win);
}

static long virtual_bytes(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm != NULL && fscanf(statm, "%ld", &pages) == 1, "/proc/self/statm can't be read");
    fclose(statm);
    return pages * sysconf(_SC_PAGESIZE);
}

static int descriptors(void)
{
    int count = 0;
    DIR *open = opendir("/proc/self/fd");
    CHECK(open != NULL, "/proc/self/fd can't be read");
    while (readdir(open) != NULL)
        count++;
    closedir(open);
    return count;
}

static void memory_goes_with_its_window(void)
{
    const long size = 8 << 20, rounds = 20;
    long bytes = 0;
    int files = 0;
    for (int round = 1; round <= 2 * rounds; round++) {
        MPI_Win own, shared;
        char *base;
        OK(MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &own));
        base[0] = base[size - 1] = 1;
        OK(MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &shared));
        base[0] = base[size - 1] = 1;
        free_window(&shared);
        free_window(&own);
        /* The heap has grown by then to where blocks of such sizes find room among the small ones that stay. */
        if (round == rounds) {
            bytes = virtual_bytes();
            files = descriptors();
        }
    }
    long more = virtual_bytes() - bytes;
    CHECK(more < rounds * size / 2, "after %ld windows there are %ld bytes more", rounds, more);
    CHECK(descriptors() < files + rounds / 2, "after %ld windows there are %d files, not %d", rounds, descriptors(),
          files);
}

/* So does all else that a window has. */
static void nothing_stays_of_a_window(void)
{
    enum { WINDOWS = 100, WARM = 10 };
    int key;
    long bytes = 0;
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL));
    for (int i = 0; i < WARM + WINDOWS; i++) {
        if (i == WARM)
            bytes = (long)mallinfo2().uordblks;
        MPI_Win win;
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_attach(win, memory, 8));
        OK(MPI_Win_set_name(win, "a window with a name"));
        OK(MPI_Win_set_attr(win, key, memory));
        free_window(&win);
    }
    long more = (long)mallinfo2().uordblks - bytes;
    CHECK(more < 100 * WINDOWS, "after %d windows there are %ld bytes more", WINDOWS, more);
    OK(MPI_Win_free_keyval(&key));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    flavors();
    free_is_a_barrier();
    dynamic();
    shared();
    if (!brief()) {
        memory_goes_with_its_window();
        nothing_stays_of_a_window();
    }
    return end("window_memory");
}
