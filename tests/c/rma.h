/* What the programs about one-sided communication (chapter 12 of MPI 5.0) share. They run on other MPI libraries, too. */
#ifndef RMA_H
#define RMA_H

#include "check.h"

/* Whether this is Weft's library. */
static UNUSED int of_weft(void)
{
    static int known = -1;
    if (known < 0) {
        char text[MPI_MAX_LIBRARY_VERSION_STRING];
        int length;
        MPI_Get_library_version(text, &length);
        known = strncmp(text, "Weft", 4) == 0;
    }
    return known;
}

static UNUSED void refused(const char *file, int line, int code, int class, const char *call, const char *const *words)
{
    static char noted[1024];
    if (of_weft())
        expect(file, line, code, class, call, words);
    else if (class_of(code) != class && me == 0 && !noted[line % sizeof noted])
        fprintf(stderr, "note: %s:%d: rank %d: %.100s: expected class %d, got %d\n", file, line, me, call, class,
                class_of(code));
    noted[line % sizeof noted] = 1;
}

/* The call fails with the class, and with the words in its text. Another library than Weft is only noted down: of most wrong calls the
 * standard does not demand that they are found. */
#define REFUSED(class, call, ...)                                                                                      \
    refused(__FILE__, __LINE__, (call), class, #call, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

enum { CREATED, ALLOCATED, SHARED, DYNAMIC, FLAVORS };
static const char *const flavors[] UNUSED = {"create", "allocate", "allocate_shared", "create_dynamic"};

/* A window, and where its memory begins in each process. */
struct window {
    MPI_Win win;
    MPI_Comm comm;
    int flavor;
    char *mine;
    size_t bytes;
    /* For dynamic windows: what a displacement of 0 means. */
    MPI_Aint *bases;
    int *units;
};

/* Whether all processes of MPI_COMM_WORLD can share memory. */
static UNUSED int one_node(void)
{
    static int size = 0;
    if (size == 0) {
        MPI_Comm node;
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
        OK(MPI_Comm_size(node, &size));
        OK(MPI_Comm_free(&node));
        int least;
        OK(MPI_Allreduce(&size, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        size = least;
    }
    return size == ranks;
}

static UNUSED int has_flavor(int flavor)
{
    return flavor != SHARED || one_node();
}

/* Collective: a window with so many bytes, all 0, and this displacement unit in this process. Its errors return. */
static UNUSED struct window open_window(int flavor, size_t bytes, int unit, MPI_Comm comm)
{
    struct window w = {.comm = comm, .flavor = flavor, .bytes = bytes};
    int size;
    MPI_Info info;
    OK(MPI_Comm_size(comm, &size));
    w.bases = calloc(size, sizeof *w.bases);
    w.units = calloc(size, sizeof *w.units);
    CHECK(w.bases != NULL && w.units != NULL, "no memory");
    if (flavor == DYNAMIC)
        unit = 1;
    switch (flavor) {
    case CREATED:
        w.mine = allocate(bytes);
        OK(MPI_Win_create(w.mine, bytes, unit, MPI_INFO_NULL, comm, &w.win));
        break;
    case ALLOCATED:
        OK(MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, comm, &w.mine, &w.win));
        break;
    case SHARED:
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
        OK(MPI_Win_allocate_shared(bytes, unit, info, comm, &w.mine, &w.win));
        OK(MPI_Info_free(&info));
        break;
    default:
        w.mine = allocate(bytes);
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &w.win));
        OK(MPI_Win_attach(w.win, w.mine, bytes));
    }
    OK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
    memset(w.mine, 0, bytes);
    MPI_Aint base = 0;
    if (flavor == DYNAMIC)
        OK(MPI_Get_address(w.mine, &base));
    OK(MPI_Allgather(&base, 1, MPI_AINT, w.bases, 1, MPI_AINT, comm));
    OK(MPI_Allgather(&unit, 1, MPI_INT, w.units, 1, MPI_INT, comm));
    return w;
}

/* Where byte `offset` of a process's memory is for calls. */
static UNUSED MPI_Aint place(const struct window *w, int rank, size_t offset)
{
    CHECK(offset % w->units[rank] == 0, "byte %zu can't be named in units of %d", offset, w->units[rank]);
    return MPI_Aint_add(w->bases[rank], (MPI_Aint)offset / w->units[rank]);
}

static UNUSED void close_window(struct window *w)
{
    if (w->flavor == DYNAMIC) {
        /* Nobody uses it any more. */
        OK(MPI_Barrier(w->comm));
        OK(MPI_Win_detach(w->win, w->mine));
    }
    OK(MPI_Win_free(&w->win));
    CHECK(w->win == MPI_WIN_NULL, "MPI_Win_free left the handle");
    if (w->flavor == CREATED || w->flavor == DYNAMIC)
        free(w->mine);
    free(w->bases);
    free(w->units);
}

/* Errors of what belongs to no window return, too. */
static UNUSED void begin_rma(int *argc, char ***argv)
{
    begin(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
}

/* A generator of numbers that all ranks can draw alike. */
static UNUSED uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

#endif
