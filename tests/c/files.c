/* Files as objects: opening, closing, deleting, sizes, access modes, hints, consistency, error handlers; files of sessions,
 * and those that nobody closes. (What goes wrong: file_errors.c.) */
#include "files.h"

static void opening(void)
{
    const char *path = in_folder("opening");
    MPI_File file, again;
    MPI_Group group, world;
    int amode, number;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    CHECK(file != MPI_FILE_NULL, "an open file has no handle");
    SAME(size_of(path), 0, "size of a new file");
    OK(MPI_File_get_amode(file, &amode));
    SAME(amode, MPI_MODE_CREATE | MPI_MODE_WRONLY, "amode");
    /* The group is the communicator's, and the user's to free. */
    OK(MPI_File_get_group(file, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &number));
    SAME(number, MPI_IDENT, "group of the file and of its communicator");
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    OK(MPI_File_set_size(file, 100));
    close_file(&file);
    SAME(size_of(path), 100, "size of a closed file");
    /* What is there is neither created nor truncated. */
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    SAME(size_of(path), 100, "size of a file that was there");
    /* Twice at once, and in other modes. */
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &again));
    CHECK(file != again, "two files have one handle");
    close_file(&again);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_APPEND | MPI_MODE_EXCL, MPI_INFO_NULL, &again));
    close_file(&again);
    close_file(&file);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_UNIQUE_OPEN, MPI_INFO_NULL, &file));
    OK(MPI_File_get_amode(file, &amode));
    SAME(amode, MPI_MODE_RDONLY | MPI_MODE_UNIQUE_OPEN, "amode");
    close_file(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        OK(MPI_File_delete(path, MPI_INFO_NULL));
        SAME(size_of(path), -1, "size of a file that was deleted");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* What is opened so is deleted by the time that anybody has closed it. */
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    SAME(size_of(path), 0, "size of a new file");
    MPI_Barrier(MPI_COMM_WORLD);
    close_file(&file);
    SAME(size_of(path), -1, "size of a file that was deleted on close");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Some of the ranks, in another order, and each by itself. */
static void communicators(void)
{
    MPI_Comm part;
    MPI_File file, alone;
    MPI_Group group, expected;
    char name[30];
    int result;
    OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &part));
    snprintf(name, sizeof name, "part.%d", me % 2);
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    OK(MPI_File_open(part, in_folder(name), amode, MPI_INFO_NULL, &file));
    OK(MPI_File_open(MPI_COMM_SELF, own("alone"), amode, MPI_INFO_NULL, &alone));
    OK(MPI_File_get_group(file, &group));
    OK(MPI_Comm_group(part, &expected));
    OK(MPI_Group_compare(group, expected, &result));
    SAME(result, MPI_IDENT, "group of a file of some ranks");
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&expected));
    /* The file has a communicator of its own: that one may go, and its messages are another matter. */
    int from = -1, size, rank;
    OK(MPI_Comm_size(part, &size));
    OK(MPI_Comm_rank(part, &rank));
    MPI_Request request;
    OK(MPI_Irecv(&from, 1, MPI_INT, (rank + 1) % size, MPI_ANY_TAG, part, &request));
    OK(MPI_File_set_size(file, 10));
    OK(MPI_File_sync(file));
    OK(MPI_Send(&me, 1, MPI_INT, (rank + size - 1) % size, 3, part));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(from >= 0 && from < ranks && from % 2 == me % 2, "the message is of rank %d", from);
    OK(MPI_Comm_free(&part));
    OK(MPI_File_set_size(file, 20));
    SAME(size_of(in_folder(name)), 20, "size of the file of some ranks");
    OK(MPI_File_get_group(alone, &group));
    OK(MPI_Group_size(group, &size));
    SAME(size, 1, "size of the group of a rank's own file");
    OK(MPI_Group_free(&group));
    OK(MPI_File_set_size(alone, 1 + me));
    SAME(size_of(own("alone")), 1 + me, "size of a rank's own file");
    close_file(&alone);
    close_file(&file);
}

/* A name is found again from another folder, and need not be text. */
static void names(void)
{
    char before[600];
    MPI_File file;
    CHECK(getcwd(before, sizeof before) != NULL, "getcwd: %s", strerror(errno));
    CHECK(chdir(folder) == 0, "chdir: %s", strerror(errno));
    OK(MPI_File_open(MPI_COMM_WORLD, "\xff\xfe here", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    CHECK(chdir(before) == 0, "chdir: %s", strerror(errno));
    SAME(size_of(in_folder("\xff\xfe here")), 0, "size of a file with a strange name");
    MPI_Barrier(MPI_COMM_WORLD);
    close_file(&file);
    SAME(size_of(in_folder("\xff\xfe here")), -1, "size of a deleted file with a strange name");
}

static void has_size(MPI_File file, const char *path, long long expected)
{
    MPI_Offset size = -1;
    OK(MPI_File_get_size(file, &size));
    SAME(size, expected, "MPI_File_get_size");
    SAME(size_of(path), expected, "size of the file");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void sizes(void)
{
    const char *path = in_folder("sizes");
    MPI_File file = new_file("sizes");
    struct stat about;
    has_size(file, path, 0);
    OK(MPI_File_set_size(file, 1000));
    has_size(file, path, 1000);
    OK(MPI_File_set_size(file, 10));
    has_size(file, path, 10);
    /* More than 32 bits, without storage. */
    OK(MPI_File_set_size(file, 5000000000));
    has_size(file, path, 5000000000);
    OK(MPI_File_set_size(file, 0));
    has_size(file, path, 0);
    /* With storage, from the beginning on; the size only grows. */
    OK(MPI_File_preallocate(file, 0));
    has_size(file, path, 0);
    OK(MPI_File_preallocate(file, 100000));
    has_size(file, path, 100000);
    CHECK(stat(path, &about) == 0 && about.st_blocks * 512 >= 100000, "%lld blocks of storage",
          (long long)about.st_blocks);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_preallocate(file, 5));
    has_size(file, path, 100000);
    close_file(&file);
    /* What was written is not touched. */
    char text[5] = "";
    if (me == 0)
        make_file(path, 3);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    OK(MPI_File_preallocate(file, 4));
    has_size(file, path, 4);
    FILE *written = fopen(path, "r");
    CHECK(written != NULL && fread(text, 1, 4, written) == 4 && memcmp(text, "aaa", 4) == 0, "the file's bytes");
    fclose(written);
    MPI_Barrier(MPI_COMM_WORLD);
    close_file(&file);
}

static void hint_is(MPI_File file, const char *key, const char *expected)
{
    MPI_Info info;
    OK(MPI_File_get_info(file, &info));
    info_says(info, key, expected);
    OK(MPI_Info_free(&info));
}

static void hints(void)
{
    const char *path = in_folder("hints");
    MPI_Info info;
    MPI_File file = new_file("hints");
    struct stat about;
    hint_is(file, "filename", path);
    hint_is(file, "file_perm", "0666");
    hint_is(file, "mpi_memory_alloc_kinds", "mpi,system");
    close_file(&file);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "filename", "another"));
    OK(MPI_Info_set(info, "file_perm", "0642"));
    OK(MPI_Info_set(info, "access_style", "sequential"));
    OK(MPI_Info_set(info, "of_another_library", "yes"));
    mode_t mask = umask(027);
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    OK(MPI_File_open(MPI_COMM_WORLD, path, amode, info, &file));
    umask(mask);
    CHECK(stat(path, &about) == 0, "stat: %s", strerror(errno));
    SAME(about.st_mode & 0777, 0640, "permissions of the new file");
    hint_is(file, "filename", path);
    hint_is(file, "file_perm", "0642");
    hint_is(file, "access_style", NULL);
    hint_is(file, "of_another_library", NULL);
    /* These are about how a file is opened: nothing changes them later. */
    OK(MPI_Info_set(info, "file_perm", "0777"));
    OK(MPI_File_set_info(file, info));
    OK(MPI_File_set_info(file, MPI_INFO_ENV));
    hint_is(file, "filename", path);
    hint_is(file, "file_perm", "0642");
    close_file(&file);
    /* What is no permissions is ignored; and a file that is there keeps its own. */
    OK(MPI_Info_set(info, "file_perm", "rw-rw-rw-"));
    OK(MPI_File_open(MPI_COMM_WORLD, path, amode, info, &file));
    hint_is(file, "file_perm", "0666");
    close_file(&file);
    OK(MPI_Info_set(info, "file_perm", "0777"));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, info, &file));
    hint_is(file, "file_perm", NULL);
    close_file(&file);
    SAME(stat(path, &about) == 0 ? about.st_mode & 0777 : 0, 0640, "permissions of the old file");
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        OK(MPI_File_delete(path, info));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Info_free(&info));
}

static void consistency(void)
{
    MPI_File file = new_file("consistency");
    int flag = -1;
    OK(MPI_File_get_atomicity(file, &flag));
    SAME(flag, 0, "atomicity of a new file");
    OK(MPI_File_sync(file));
    /* Any two numbers that are not 0 are the same flag. */
    OK(MPI_File_set_atomicity(file, 1 + me));
    OK(MPI_File_get_atomicity(file, &flag));
    SAME(flag, 1, "atomicity");
    OK(MPI_File_set_size(file, 10));
    OK(MPI_File_sync(file));
    OK(MPI_File_sync(file));
    OK(MPI_File_set_atomicity(file, 0));
    OK(MPI_File_get_atomicity(file, &flag));
    SAME(flag, 0, "atomicity");
    close_file(&file);
}

/* In the native representation a datatype is as long in the file as in memory. */
static void extents(void)
{
    MPI_File file = new_file("extents");
    MPI_Datatype type;
    MPI_Aint extent = -1;
    MPI_Count large = -1;
    OK(MPI_Type_create_resized(MPI_INT, -8, 5000000000, &type));
    OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    SAME(extent, 8, "extent of a double");
    OK(MPI_File_get_type_extent(file, type, &extent));
    SAME(extent, 5000000000, "extent of a large type");
    OK(MPI_File_get_type_extent_c(file, type, &large));
    SAME(large, 5000000000, "extent of a large type");
    OK(MPI_Type_free(&type));
    close_file(&file);
}

/* A device has no size to set, and nothing to be kept. */
static void devices(void)
{
    MPI_File file;
    MPI_Offset size = -1;
    OK(MPI_File_open(MPI_COMM_WORLD, "/dev/null", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_get_size(file, &size));
    SAME(size, 0, "size of /dev/null");
    OK(MPI_File_sync(file));
    ERROR(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_set_size(file, 10), me == 0 ? "/dev/null" : "rank 0");
    close_file(&file);
}

/* Many times: nothing grows. */
static void many(void)
{
    const int cycles = brief() ? 10 : 30;
    int before = open_descriptors();
    MPI_File files[10];
    for (int i = 0; i < cycles; i++) {
        MPI_File file = new_file("many");
        OK(MPI_File_set_size(file, i));
        close_file(&file);
    }
    for (int i = 0; i < 10; i++)
        OK(MPI_File_open(MPI_COMM_WORLD, in_folder("many"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files[i]));
    SAME(open_descriptors(), before + 10, "descriptors of 10 open files");
    for (int i = 9; i >= 0; i--)
        close_file(&files[(i * 7 + 3) % 10]);
    SAME(open_descriptors(), before, "descriptors after %d files", cycles);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        OK(MPI_File_delete(in_folder("many"), MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A file of a session: closed in time, and not closed. */
static void of_session(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_File closed, left, copy_of_it;
    int amode;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "files", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    int before = open_descriptors();
    const int modes = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    OK(MPI_File_open(comm, in_folder("session.closed"), modes, MPI_INFO_NULL, &closed));
    OK(MPI_File_open(comm, in_folder("session.left"), modes, MPI_INFO_NULL, &left));
    OK(MPI_Comm_disconnect(&comm));
    OK(MPI_File_set_size(closed, 10));
    OK(MPI_File_set_size(left, 10));
    close_file(&closed);
    copy_of_it = left;
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    ERROR(MPI_ERR_FILE, MPI_File_get_amode(left, &amode), hex((uintptr_t)copy_of_it), "session");
    SAME(open_descriptors(), before, "descriptors after a session that left a file open");
    /* It was not closed by the user, and so it was not deleted. */
    SAME(size_of(in_folder("session.left")), 10, "size of a file that nobody has closed");
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        OK(MPI_File_delete(in_folder("session.left"), MPI_INFO_NULL));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    make_folder();
    opening();
    communicators();
    names();
    sizes();
    hints();
    consistency();
    extents();
    devices();
    many();
    of_session();
    /* Those that nobody closes. */
    MPI_File left, alone;
    OK(MPI_File_open(MPI_COMM_WORLD, in_folder("left"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &left));
    OK(MPI_File_open(MPI_COMM_SELF, own("left"), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &alone));
    OK(MPI_File_set_size(left, 5));
    OK(MPI_File_set_size(alone, 6));
    int status = end("files");
    if (me != 0)
        return status;
    /* All have come to MPI_Finalize. */
    SAME(size_of(in_folder("left")), 5, "size of a file that nobody has closed");
    CHECK(unlink(in_folder("left")) == 0, "unlink: %s", strerror(errno));
    for (me = 0; me < ranks; me++) {
        SAME(size_of(own("left")), 6, "size of a file that nobody has closed");
        CHECK(unlink(own("left")) == 0, "unlink: %s", strerror(errno));
    }
    remove_folder();
    return status;
}
