/* What the programs about files share: a folder that all ranks know, files in it, and what is in there. */
#ifndef FILES_H
#define FILES_H

#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

/* The folder of the job's files. */
static char folder[400] UNUSED;

/* The path of a file in the folder. */
static UNUSED const char *in_folder(const char *name)
{
    static char paths[8][600];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* The path of a file of this rank's own. */
static UNUSED const char *own(const char *name)
{
    char text[100];
    snprintf(text, sizeof text, "%s.%d", name, me);
    return in_folder(text);
}

static UNUSED void make_folder(void)
{
    if (me == 0) {
        const char *place = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/weft-files-XXXXXX", place == NULL ? "/tmp" : place);
        CHECK(mkdtemp(folder) != NULL, "%s can't be made: %s", folder, strerror(errno));
        char *real = realpath(folder, NULL);
        CHECK(real != NULL && strlen(real) < sizeof folder, "%s: %s", folder, strerror(errno));
        strcpy(folder, real);
        free(real);
    }
    OK(MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD));
}

/* Nothing is left in the folder, or this says what. By one rank, when all are done with it. */
static UNUSED void remove_folder(void)
{
    if (rmdir(folder) == 0)
        return;
    DIR *open = opendir(folder);
    CHECK(open != NULL, "%s can't be read: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(open)) != NULL;)
        CHECK(entry->d_name[0] == '.', "the file '%s' is left", entry->d_name);
    FAIL("%s can't be removed", folder);
}

/* The size of a file; -1 if there is none. */
static UNUSED long long size_of(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0)
        return (long long)about.st_size;
    CHECK(errno == ENOENT, "%s: %s", path, strerror(errno));
    return -1;
}

/* A file that exists already, of so many bytes; made by one process. */
static UNUSED void make_file(const char *path, int bytes)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL, "%s can't be made: %s", path, strerror(errno));
    for (int i = 0; i < bytes; i++)
        putc('a', file);
    CHECK(fclose(file) == 0, "%s can't be written: %s", path, strerror(errno));
}

/* How many descriptors of this process are of files in the folder. (A transport may open some at any time.) */
static UNUSED int open_descriptors(void)
{
    int count = 0;
    DIR *open = opendir("/proc/self/fd");
    CHECK(open != NULL, "/proc/self/fd can't be read");
    for (struct dirent *entry; (entry = readdir(open)) != NULL;) {
        char target[600];
        ssize_t length = readlinkat(dirfd(open), entry->d_name, target, sizeof target);
        count += length > (ssize_t)strlen(folder) && memcmp(target, folder, strlen(folder)) == 0;
    }
    closedir(open);
    return count;
}

/* A file of all ranks, which is gone when it is closed. */
static UNUSED MPI_File new_file(const char *name)
{
    MPI_File file = MPI_FILE_NULL;
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    OK(MPI_File_open(MPI_COMM_WORLD, in_folder(name), amode, MPI_INFO_NULL, &file));
    CHECK(file != MPI_FILE_NULL, "an open file has no handle");
    return file;
}

static UNUSED void close_file(MPI_File *file)
{
    OK(MPI_File_close(file));
    CHECK(*file == MPI_FILE_NULL, "MPI_File_close left the handle");
}

#endif
