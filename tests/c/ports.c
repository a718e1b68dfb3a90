/* Two jobs, or two parts of one, that meet at a port. `ports one`: within a job of at least 2 ranks. `ports server FILE` and `ports client FILE`: the
 * name of the port goes through a file; with one more argument they have no way to each other in common, and are told so. `ports publish` and `ports lookup`: it is published. */
#include "jobs.h"

static void close_and_try_again(const char *name)
{
    OK(MPI_Close_port(name));
    ERROR(MPI_ERR_PORT, MPI_Close_port(name), "port");
    MPI_Comm comm;
    ERROR(MPI_ERR_PORT, MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm), "port");
    ERROR(MPI_ERR_PORT, MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm), "port");
    ERROR(MPI_ERR_PORT, MPI_Comm_connect("nonsense", MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm), "port");
    ERROR(MPI_ERR_PORT, MPI_Comm_connect("", MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm), "port");
}

static void in_vain(void)
{
    char name[MPI_MAX_PORT_NAME];
    MPI_Comm comm;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "timeout", "0.2"));
    OK(MPI_Open_port(MPI_INFO_NULL, name));
    ERROR(MPI_ERR_PORT, MPI_Comm_accept(name, info, 0, MPI_COMM_SELF, &comm), "time");
    ERROR(MPI_ERR_PORT, MPI_Comm_connect(name, info, 0, MPI_COMM_SELF, &comm), "time");
    OK(MPI_Info_set(info, "timeout", "soon"));
    ERROR(MPI_ERR_INFO_VALUE, MPI_Comm_accept(name, info, 0, MPI_COMM_SELF, &comm), "timeout");
    OK(MPI_Info_free(&info));
    close_and_try_again(name);
}

static void names(void)
{
    char name[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME];
    OK(MPI_Open_port(MPI_INFO_NULL, name));
    ERROR(MPI_ERR_NAME, MPI_Lookup_name("weft test of names", MPI_INFO_NULL, found), "weft test of names");
    OK(MPI_Publish_name("weft test of names", MPI_INFO_NULL, name));
    ERROR(MPI_ERR_SERVICE, MPI_Publish_name("weft test of names", MPI_INFO_NULL, name), "weft test of names");
    OK(MPI_Lookup_name("weft test of names", MPI_INFO_NULL, found));
    CHECK(strcmp(name, found) == 0, "published '%s', found '%s'", name, found);
    OK(MPI_Unpublish_name("weft test of names", MPI_INFO_NULL, name));
    ERROR(MPI_ERR_SERVICE, MPI_Unpublish_name("weft test of names", MPI_INFO_NULL, name), "weft test of names");
    ERROR(MPI_ERR_NAME, MPI_Lookup_name("weft test of names", MPI_INFO_NULL, found), "weft test of names");
    OK(MPI_Close_port(name));
}

int main(int argc, char **argv)
{
    char name[MPI_MAX_PORT_NAME] = "";
    MPI_Comm part, inter;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const char *mode = argc > 1 ? argv[1] : "one";
    if (strcmp(mode, "one") == 0) {
        if (me == 0) {
            in_vain();
            names();
            OK(MPI_Open_port(MPI_INFO_NULL, name));
        }
        OK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD));
        int server = me < (ranks + 1) / 2;
        OK(MPI_Comm_split(MPI_COMM_WORLD, server, 0, &part));
        for (int round = 0; ranks > 1 && round < 3; round++) {
            if (server)
                OK(MPI_Comm_accept(name, MPI_INFO_NULL, 0, part, &inter));
            else
                OK(MPI_Comm_connect(name, MPI_INFO_NULL, 0, part, &inter));
            work(inter, server);
            OK(MPI_Comm_disconnect(&inter));
        }
        if (me == 0)
            close_and_try_again(name);
        OK(MPI_Comm_disconnect(&part));
        return end("ports");
    }
    int server = strcmp(mode, "server") == 0, published = strcmp(mode, "publish") == 0;
    if (server || published) {
        if (me == 0) {
            OK(MPI_Open_port(MPI_INFO_NULL, name));
            if (published) {
                OK(MPI_Publish_name("weft ports", MPI_INFO_NULL, name));
            } else {
                char before[4096];
                snprintf(before, sizeof before, "%s.part", argv[2]);
                FILE *file = fopen(before, "w");
                CHECK(file != NULL && fputs(name, file) >= 0 && fclose(file) == 0 && rename(before, argv[2]) == 0,
                      "%s can't be written", before);
            }
        }
        if (argc > 3) {
            ERROR(MPI_ERR_OTHER, MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), "no way to each other", argv[3]);
            return end("ports");
        }
        for (int round = 0; round < 2; round++) {
            OK(MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
            work(inter, 1);
            if (round == 0)
                OK(MPI_Comm_disconnect(&inter));
        }
        if (me == 0 && published)
            OK(MPI_Unpublish_name("weft ports", MPI_INFO_NULL, name));
    } else {
        if (me == 0 && strcmp(mode, "lookup") == 0) {
            while (MPI_Lookup_name("weft ports", MPI_INFO_NULL, name) != MPI_SUCCESS)
                usleep(1000);
        } else if (me == 0) {
            FILE *file;
            while ((file = fopen(argv[2], "r")) == NULL)
                usleep(1000);
            CHECK(fgets(name, sizeof name, file) != NULL, "%s is empty", argv[2]);
            fclose(file);
        }
        if (argc > 3) {
            ERROR(MPI_ERR_OTHER, MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), "no way to each other", argv[3]);
            return end("ports");
        }
        for (int round = 0; round < 2; round++) {
            OK(MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
            work(inter, 0);
            if (round == 0)
                OK(MPI_Comm_disconnect(&inter));
        }
    }
    return end("ports");
}
