/* What goes wrong with files: names, access modes, arguments that differ, one rank alone, handles; and who hears of it. With
 * `fatal` or `left` it ends as the test expects. */
#include "files.h"

#include <signal.h>
#include <sys/resource.h>

/* A file that is not opened: on all ranks an error of the class, which at the rank where it was found has the words, and at
 * all others says where. */
static void not_opened(int line, const char *path, int amode, MPI_Info info, int class, int at, const char *word)
{
    MPI_File file = (MPI_File)4711;
    char where[30], text[MPI_MAX_ERROR_STRING];
    int before = open_descriptors(), length;
    snprintf(where, sizeof where, "rank %d and", at);
    int code = MPI_File_open(MPI_COMM_WORLD, path, amode, info, &file);
    MPI_Error_string(code, text, &length);
    if (class_of(code) != class)
        fail(__FILE__, line, "expected class %d, got %d: %s", class, class_of(code), text);
    if (strncmp(text, "MPI_File_open: ", 15) != 0 || strstr(text, at < 0 || at == me ? word : where) == NULL)
        fail(__FILE__, line, "the text has no '%s': %s", at < 0 || at == me ? word : where, text);
    if (file != MPI_FILE_NULL)
        fail(__FILE__, line, "a file that was not opened has a handle");
    same(__FILE__, line, open_descriptors(), before, "descriptors after a file was not opened");
}

/* The same on all ranks. */
#define NOT_OPENED(class, path, amode, word) not_opened(__LINE__, path, amode, MPI_INFO_NULL, class, -1, word)
/* Found at one rank. */
#define NOT_OPENED_AT(class, path, amode, at, word) not_opened(__LINE__, path, amode, MPI_INFO_NULL, class, at, word)

static const int create = MPI_MODE_CREATE | MPI_MODE_RDWR;

static void modes(void)
{
    const char *path = in_folder("modes");
    NOT_OPENED(MPI_ERR_AMODE, path, 0, "exactly one");
    NOT_OPENED(MPI_ERR_AMODE, path, MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, "exactly one");
    NOT_OPENED(MPI_ERR_AMODE, path, MPI_MODE_RDONLY | MPI_MODE_WRONLY, "MPI_MODE_RDONLY | MPI_MODE_WRONLY");
    NOT_OPENED(MPI_ERR_AMODE, path, MPI_MODE_RDONLY | MPI_MODE_RDWR, "exactly one");
    NOT_OPENED(MPI_ERR_AMODE, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_WRONLY, "exactly one");
    NOT_OPENED(MPI_ERR_AMODE, path, MPI_MODE_RDONLY | MPI_MODE_CREATE, "MPI_MODE_CREATE");
    NOT_OPENED(MPI_ERR_AMODE, path, MPI_MODE_RDONLY | MPI_MODE_EXCL, "MPI_MODE_EXCL");
    NOT_OPENED(MPI_ERR_AMODE, path, create | MPI_MODE_SEQUENTIAL, "MPI_MODE_SEQUENTIAL");
    NOT_OPENED(MPI_ERR_AMODE, path, -1, "0xff");
    NOT_OPENED(MPI_ERR_AMODE, path, create | 0x4000, "0x4000");
    if (ranks > 1) {
        const int last = ranks - 1;
        NOT_OPENED(MPI_ERR_NOT_SAME, path, me == 0 ? create : create | MPI_MODE_APPEND, "amode");
        NOT_OPENED(MPI_ERR_NOT_SAME, path, me == last ? MPI_MODE_RDONLY : create, "amode");
        NOT_OPENED_AT(MPI_ERR_AMODE, path, me == last ? 0 : create, last, "exactly one");
        NOT_OPENED_AT(MPI_ERR_AMODE, path, me == 0 ? 0 : create, 0, "exactly one");
        MPI_Info info;
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "file_perm", me == last ? "0600" : "0640"));
        not_opened(__LINE__, path, create, info, MPI_ERR_NOT_SAME, -1, "file_perm");
        not_opened(__LINE__, path, create, me == 0 ? info : MPI_INFO_NULL, MPI_ERR_NOT_SAME, -1, "file_perm");
        OK(MPI_Info_free(&info));
    }
    SAME(size_of(path), -1, "size of a file that was never opened");
}

static void paths(const char *program)
{
    const char *path = in_folder("paths");
    char long_name[5000];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    NOT_OPENED_AT(MPI_ERR_NO_SUCH_FILE, path, MPI_MODE_RDWR, 0, path);
    NOT_OPENED_AT(MPI_ERR_NO_SUCH_FILE, path, MPI_MODE_WRONLY | MPI_MODE_EXCL, 0, path);
    NOT_OPENED_AT(MPI_ERR_NO_SUCH_FILE, in_folder("no/where"), create, 0, "no/where");
    NOT_OPENED_AT(MPI_ERR_BAD_FILE, long_name, create, 0, "long");
    NOT_OPENED_AT(MPI_ERR_BAD_FILE, folder, MPI_MODE_RDONLY, 0, "directory");
    NOT_OPENED_AT(MPI_ERR_BAD_FILE, folder, create, 0, folder);
    NOT_OPENED(MPI_ERR_BAD_FILE, "", create, "empty");
    if (me == 0)
        make_file(path, 3);
    MPI_Barrier(MPI_COMM_WORLD);
    NOT_OPENED_AT(MPI_ERR_FILE_EXISTS, path, create | MPI_MODE_EXCL, 0, path);
    NOT_OPENED_AT(MPI_ERR_BAD_FILE, in_folder("paths/below"), create, 0, "paths/below");
    if (geteuid() == 0) {
        if (me == 0)
            printf("skipped: nothing is forbidden to root\n");
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0)
            CHECK(chmod(path, 0) == 0, "chmod: %s", strerror(errno));
        MPI_Barrier(MPI_COMM_WORLD);
        NOT_OPENED_AT(MPI_ERR_ACCESS, path, MPI_MODE_RDONLY, 0, path);
        NOT_OPENED_AT(MPI_ERR_ACCESS, path, create, 0, path);
    }
    /* A program that runs can't be written, on most systems. */
    int writable = access(program, W_OK) == 0, busy = 0;
    if (me == 0 && writable) {
        FILE *file = fopen(program, "r+");
        busy = file == NULL && errno == ETXTBSY;
        if (file != NULL)
            fclose(file);
    }
    OK(MPI_Bcast(&busy, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (busy)
        NOT_OPENED_AT(MPI_ERR_FILE_IN_USE, program, MPI_MODE_WRONLY, 0, program);
    else if (me == 0)
        printf("skipped: a program that runs can be written\n");
    SAME(size_of(path), 3, "size of a file that was not opened");
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        ERROR(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(in_folder("nothing"), MPI_INFO_NULL), "nothing");
        ERROR(MPI_ERR_BAD_FILE, MPI_File_delete(folder, MPI_INFO_NULL), folder);
        ERROR(MPI_ERR_BAD_FILE, MPI_File_delete(in_folder("paths/below"), MPI_INFO_NULL), "paths/below");
        ERROR(MPI_ERR_BAD_FILE, MPI_File_delete(long_name, MPI_INFO_NULL), "long");
        ERROR(MPI_ERR_BAD_FILE, MPI_File_delete("", MPI_INFO_NULL), "empty");
        ERROR(MPI_ERR_ARG, MPI_File_delete(NULL, MPI_INFO_NULL), "filename");
        ERROR(MPI_ERR_INFO, MPI_File_delete(path, (MPI_Info)MPI_COMM_WORLD), "info");
        OK(MPI_File_delete(path, MPI_INFO_NULL));
        ERROR(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(path, MPI_INFO_NULL), path);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One rank fails, so all do: nothing is left open, and nothing that was created for it is left. */
static void one_alone(void)
{
    const char *path = in_folder("one_alone");
    for (int wrong = 0; wrong < (brief() ? 1 : ranks); wrong++) {
        const char *bad = me == wrong ? in_folder("no/where") : path;
        NOT_OPENED_AT(MPI_ERR_NO_SUCH_FILE, bad, create | MPI_MODE_EXCL, wrong, "no/where");
        SAME(size_of(path), -1, "size of a file that was created for nothing");
        NOT_OPENED_AT(MPI_ERR_BAD_FILE, me == wrong ? "" : path, create, wrong, "empty");
        /* A rank that has no descriptor left. */
        struct rlimit limit, none;
        CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit: %s", strerror(errno));
        none = limit;
        int first_free = dup(0);
        none.rlim_cur = first_free;
        close(first_free);
        MPI_File file = MPI_FILE_NULL;
        if (me == wrong)
            CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit: %s", strerror(errno));
        int code = MPI_File_open(MPI_COMM_WORLD, path, create, MPI_INFO_NULL, &file);
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit: %s", strerror(errno));
        SAME(class_of(code), MPI_ERR_IO, "class where rank %d has no descriptor left", wrong);
        CHECK(file == MPI_FILE_NULL, "a file that was not opened has a handle");
        SAME(size_of(path), -1, "size of a file that was created for nothing");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* What was there already stays. */
    if (me == 0)
        make_file(path, 3);
    MPI_Barrier(MPI_COMM_WORLD);
    const int last = ranks - 1;
    NOT_OPENED_AT(MPI_ERR_NO_SUCH_FILE, me == last ? in_folder("no/where") : path, create, last, "no/where");
    SAME(size_of(path), 3, "size of a file that was there already");
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Sizes, flags and hints that are wrong, or not the same. */
static void arguments(void)
{
    const char *path = in_folder("arguments");
    MPI_File file = new_file("arguments"), reading;
    const int last = ranks - 1;
    ERROR(MPI_ERR_ARG, MPI_File_set_size(file, -1), "size", "-1");
    ERROR(MPI_ERR_ARG, MPI_File_preallocate(file, -7), "size", "-7");
    if (ranks > 1) {
        ERROR(MPI_ERR_NOT_SAME, MPI_File_set_size(file, me == 0 ? 5 : 50), "size", "5", "50");
        ERROR(MPI_ERR_NOT_SAME, MPI_File_preallocate(file, me == last ? 0 : 50), "size", "0", "50");
        ERROR(MPI_ERR_ARG, MPI_File_set_size(file, me == last ? -2 : 50), me == last ? "-2" : "rank");
        ERROR(MPI_ERR_NOT_SAME, MPI_File_set_atomicity(file, me == last), "flag");
        int flag = -1;
        OK(MPI_File_get_atomicity(file, &flag));
        SAME(flag, 0, "atomicity where the flags differ");
    }
    SAME(size_of(path), 0, "size of a file that was not resized");
    ERROR(MPI_ERR_INFO, MPI_File_set_info(file, MPI_INFO_NULL), "MPI_INFO_NULL");
    ERROR(MPI_ERR_TYPE, MPI_File_get_type_extent(file, MPI_DATATYPE_NULL, &(MPI_Aint){0}), "MPI_DATATYPE_NULL");
    /* There is no room: a limit of this process, which would end it if it didn't say that it wants to hear. */
    struct rlimit limit, small;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0, "getrlimit: %s", strerror(errno));
    small = limit;
    small.rlim_cur = 100000;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0, "setrlimit: %s", strerror(errno));
    int resized = MPI_File_set_size(file, 200000), stored = MPI_File_preallocate(file, 200000);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit: %s", strerror(errno));
    signal(SIGXFSZ, before);
    ERROR(MPI_ERR_NO_SPACE, resized, me == 0 ? "200000" : "rank 0");
    ERROR(MPI_ERR_NO_SPACE, stored, me == 0 ? "200000" : "rank 0");
    SAME(size_of(path), 0, "size of a file that was not resized");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &reading));
    ERROR(MPI_ERR_READ_ONLY, MPI_File_set_size(reading, 5), "MPI_MODE_RDONLY", path);
    ERROR(MPI_ERR_READ_ONLY, MPI_File_preallocate(reading, 5), "MPI_MODE_RDONLY");
    OK(MPI_File_sync(reading));
    close_file(&reading);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &reading));
    ERROR(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_set_size(reading, 5), "MPI_MODE_SEQUENTIAL");
    ERROR(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_preallocate(reading, 5), "MPI_MODE_SEQUENTIAL");
    close_file(&reading);
    /* Somebody else has deleted what is to be deleted: it is closed all the same. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == last)
        CHECK(unlink(path) == 0, "unlink: %s", strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    ERROR(MPI_ERR_NO_SUCH_FILE, MPI_File_close(&file), me == 0 ? path : "rank 0");
    CHECK(file == MPI_FILE_NULL, "MPI_File_close left the handle");
}

/* Communicators that can't have files. */
static void bad_communicators(void)
{
    MPI_File file = MPI_FILE_NULL;
    ERROR(MPI_ERR_COMM, MPI_File_open(MPI_COMM_NULL, in_folder("comm"), create, MPI_INFO_NULL, &file), "MPI_COMM_NULL");
    if (ranks > 1) {
        MPI_Comm half, inter;
        OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half));
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - me % 2, 0, &inter));
        ERROR(MPI_ERR_COMM, MPI_File_open(inter, in_folder("comm"), create, MPI_INFO_NULL, &file), "comm",
              "intercommunicator");
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&half));
    }
    CHECK(file == MPI_FILE_NULL, "a file that was not opened has a handle");
}

static int handled, handled_code, handled_default;
static MPI_File handled_file;

static void handler(MPI_File *file, int *code, ...)
{
    handled++;
    handled_file = *file;
    handled_code = *code;
}

static void default_handler(MPI_File *file, int *code, ...)
{
    handled_default++;
    handled_file = *file;
    handled_code = *code;
}

static void comm_handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    FAIL("a communicator's handler was called");
}

/* Who hears of an error: the file, or where there is none MPI_FILE_NULL; and nobody else. */
static void error_handlers(void)
{
    MPI_Errhandler of_file, of_null, of_comm, got, before;
    OK(MPI_File_create_errhandler(handler, &of_file));
    OK(MPI_File_create_errhandler(default_handler, &of_null));
    OK(MPI_Comm_create_errhandler(comm_handler, &of_comm));
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_comm));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, of_comm));
    /* At first errors return, and they do with new files. */
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == MPI_ERRORS_RETURN, "the first default handler is %s", hex((uintptr_t)got));
    MPI_File file = new_file("handlers"), other;
    OK(MPI_File_get_errhandler(file, &got));
    CHECK(got == MPI_ERRORS_RETURN, "the first handler of a file is %s", hex((uintptr_t)got));
    /* The default is for new files, and for errors without one. */
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, of_null));
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == of_null, "the default handler");
    OK(MPI_Errhandler_free(&got));
    OK(MPI_File_get_errhandler(file, &got));
    CHECK(got == MPI_ERRORS_RETURN, "the handler of a file that was open before");
    other = new_file("handlers.other");
    OK(MPI_File_get_errhandler(other, &got));
    CHECK(got == of_null, "the handler of a new file");
    OK(MPI_Errhandler_free(&got));
    int code = MPI_File_set_size(other, -1);
    SAME(handled_default, 1, "calls of the default handler by a new file");
    CHECK(handled_file == other && handled_code == code, "arguments of the handler");
    code = MPI_File_delete(in_folder("nothing"), MPI_INFO_NULL);
    SAME(handled_default, 2, "calls of the default handler by MPI_File_delete");
    CHECK(handled_file == MPI_FILE_NULL && handled_code == code, "arguments of the default handler");
    MPI_File none;
    code = MPI_File_open(MPI_COMM_WORLD, in_folder("nothing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &none);
    SAME(handled_default, 3, "calls of the default handler by MPI_File_open");
    CHECK(handled_file == MPI_FILE_NULL && handled_code == code, "arguments of the default handler");
    MPI_File_open(MPI_COMM_NULL, in_folder("nothing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &none);
    SAME(handled_default, 4, "calls of the default handler by MPI_File_open without a communicator");
    MPI_File_sync(MPI_FILE_NULL);
    SAME(handled_default, 5, "calls of the default handler by MPI_File_sync without a file");
    MPI_File_close(&none);
    SAME(handled_default, 6, "calls of the default handler by MPI_File_close without a file");
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_TAG));
    SAME(handled_default, 7, "calls of the default handler by MPI_File_call_errhandler");
    CHECK(handled_file == MPI_FILE_NULL && handled_code == MPI_ERR_TAG, "arguments of the default handler");
    code = MPI_Register_datarep("mine", NULL, NULL, NULL, NULL);
    SAME(handled_default, 8, "calls of the default handler by MPI_Register_datarep");
    SAME(class_of(code), MPI_ERR_UNSUPPORTED_OPERATION, "class of MPI_Register_datarep");
    /* A file's own, also for what is not there yet. */
    OK(MPI_File_set_errhandler(file, of_file));
    code = MPI_File_set_size(file, -1);
    SAME(handled, 1, "calls of the file's handler");
    CHECK(handled_file == file && handled_code == code, "arguments of the file's handler");
    code = MPI_File_read(file, &code, 1, MPI_INT, MPI_STATUS_IGNORE);
    SAME(handled, 2, "calls of the file's handler by MPI_File_read");
    CHECK(handled_file == file && handled_code == code, "arguments of the file's handler");
    OK(MPI_File_call_errhandler(file, MPI_ERR_TAG));
    SAME(handled, 3, "calls of the file's handler by MPI_File_call_errhandler");
    CHECK(handled_file == file && handled_code == MPI_ERR_TAG, "arguments of the file's handler");
    code = MPI_File_set_errhandler(file, of_comm);
    SAME(handled, 4, "calls of the file's handler");
    SAME(class_of(code), MPI_ERR_ERRHANDLER, "a communicator's handler for a file");
    code = MPI_File_get_errhandler(file, NULL);
    SAME(class_of(code), MPI_ERR_ARG, "no place for the handler");
    code = MPI_File_set_errhandler(MPI_FILE_NULL, of_comm);
    SAME(class_of(code), MPI_ERR_ERRHANDLER, "a communicator's handler for MPI_FILE_NULL");
    SAME(handled_default, 9, "calls of the default handler");
    /* The last error of a file is its handler's, too. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        CHECK(unlink(in_folder("handlers")) == 0, "unlink: %s", strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    handled = 0;
    none = file;
    code = MPI_File_close(&file);
    SAME(handled, 1, "calls of the file's handler by MPI_File_close");
    CHECK(file == MPI_FILE_NULL && handled_file == none && handled_code == code, "MPI_File_close that fails");
    SAME(class_of(code), MPI_ERR_NO_SUCH_FILE, "class of MPI_File_close");
    close_file(&other);
    SAME(handled_default, 9, "calls of the default handler");
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, before));
    OK(MPI_Errhandler_free(&of_file));
    OK(MPI_Errhandler_free(&of_null));
    OK(MPI_Errhandler_free(&of_comm));
}

/* Each procedure that takes a file says what is wrong with it, those that are not there yet too. */
static void bad_files(void)
{
    MPI_File closed = new_file("bad"), copy_of_it = closed, file;
    MPI_Group group;
    MPI_Info info;
    MPI_Errhandler errhandler;
    MPI_Offset offset;
    MPI_Aint extent;
    MPI_Request request;
    int number;
    close_file(&closed);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    const struct {
        MPI_File handle;
        const char *word;
    } bad[] = {
        {MPI_FILE_NULL, "MPI_FILE_NULL"},
        {copy_of_it, hex((uintptr_t)copy_of_it)},
        {(MPI_File)group, hex((uintptr_t)group)},
        {(MPI_File)MPI_COMM_WORLD, hex((uintptr_t)MPI_COMM_WORLD)},
        {(MPI_File)0, "0"},
        {(MPI_File)(uintptr_t)0xdeadbeefcafe, "0xdeadbeefcafe"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *word = bad[i].word;
        file = bad[i].handle;
        ERROR(MPI_ERR_FILE, MPI_File_set_size(file, 1), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_preallocate(file, 1), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_get_size(file, &offset), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_get_group(file, &group), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_get_amode(file, &number), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_set_info(file, MPI_INFO_ENV), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_get_info(file, &info), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_get_type_extent(file, MPI_INT, &extent), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_get_type_extent_c(file, MPI_INT, &offset), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_set_atomicity(file, 1), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_get_atomicity(file, &number), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_sync(file), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_write(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE), "file", word);
        ERROR(MPI_ERR_FILE, MPI_File_iread_at_c(file, 0, &number, 1, MPI_INT, &request), "file", word);
        if (file != MPI_FILE_NULL) {
            ERROR(MPI_ERR_FILE, MPI_File_set_errhandler(file, MPI_ERRORS_RETURN), "file", word);
            ERROR(MPI_ERR_FILE, MPI_File_get_errhandler(file, &errhandler), "file", word);
            ERROR(MPI_ERR_FILE, MPI_File_call_errhandler(file, MPI_ERR_TAG), "file", word);
        }
        ERROR(MPI_ERR_FILE, MPI_File_close(&file), "file", word);
        CHECK(file == bad[i].handle, "a file that was not closed lost its handle");
    }
    ERROR(MPI_ERR_ARG, MPI_File_close(NULL), "fh");
    SAME(MPI_File_toint(MPI_File_fromint(12345)), 12345, "a file's handle as an integer");
    OK(MPI_Group_free(&group));
    /* One that is open, as an integer too; reading and writing are for later. */
    file = new_file("bad");
    CHECK(MPI_File_fromint(MPI_File_toint(file)) == file, "a file's handle as an integer");
    ERROR(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_write_at_all(file, 0, &number, 1, MPI_INT, MPI_STATUS_IGNORE),
          "does not have");
    ERROR(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_seek(file, 0, MPI_SEEK_SET), "does not have");
    close_file(&file);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *how = argc > 1 ? argv[1] : "";
    make_folder();
    if (strcmp(how, "fatal") == 0) {
        MPI_File file = new_file("fatal");
        OK(MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL));
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0)
            unlink(in_folder("fatal")), rmdir(folder);
        MPI_File_get_size(file, NULL);
        FAIL("MPI_ERRORS_ARE_FATAL returned");
    }
    if (strcmp(how, "left") == 0) {
        new_file("left");
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0)
            unlink(in_folder("left")), rmdir(folder);
        return end("file_errors");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    modes();
    paths(argv[0]);
    one_alone();
    arguments();
    bad_communicators();
    error_handlers();
    bad_files();
    int status = end("file_errors");
    if (me == 0)
        remove_folder();
    return status;
}
