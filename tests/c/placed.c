/* Children where info keys place them. `placed COMMAND [and COMMAND]... [then COMMAND...]`: processes that are spawned together, and what each of them
 * spawns. COMMAND is a number of processes, keys `NAME=VALUE`, and with them `on=HOST,HOST,...` (where these processes have to be, in the order of
 * their ranks), `in=DIRECTORY` (their working directory), `root=N` (of the whole spawn), `fails=TEXT` (it is MPI_ERR_SPAWN with that text). */
#include "jobs.h"
#include <limits.h>

enum { MOST = 8 };

struct command {
    int count;
    MPI_Info info;
    char *on, *in;
};

/* Where a process is. */
struct place {
    char host[64], directory[PATH_MAX];
};

static void look(const char *service, const char *port)
{
    char found[MPI_MAX_PORT_NAME];
    OK(MPI_Lookup_name(service, MPI_INFO_NULL, found));
    CHECK(strcmp(found, port) == 0, "the name '%s' is found as '%s', and is '%s'", service, found, port);
}

/* Names that one job publishes and the other finds, first of the parents, then of the children. */
static void names(MPI_Comm inter, int parents)
{
    char service[128], port[MPI_MAX_PORT_NAME] = "";
    int rank;
    OK(MPI_Comm_rank(inter, &rank));
    for (int turn = 0; turn < 2; turn++) {
        int publishes = turn == !parents, root = publishes ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
        if (root == MPI_ROOT) {
            char host[64];
            gethostname(host, sizeof host);
            snprintf(service, sizeof service, "weft placed %s %d", host, getpid());
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            OK(MPI_Publish_name(service, MPI_INFO_NULL, port));
        }
        OK(MPI_Bcast(service, sizeof service, MPI_CHAR, root, inter));
        OK(MPI_Bcast(port, sizeof port, MPI_CHAR, root, inter));
        if (!publishes)
            look(service, port);
        OK(MPI_Barrier(inter));
        if (root == MPI_ROOT) {
            OK(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
            OK(MPI_Close_port(port));
        }
    }
}

static void check_places(MPI_Comm children, const struct command *commands, int many)
{
    int child = 0;
    for (int nth = 0; nth < many; nth++) {
        char *at = commands[nth].on;
        for (int i = 0; i < commands[nth].count; i++, child++) {
            struct place place;
            OK(MPI_Recv(&place, sizeof place, MPI_BYTE, child, 1, children, MPI_STATUS_IGNORE));
            int length = at ? (int)strcspn(at, ",") : 0;
            CHECK(at == NULL || ((int)strlen(place.host) == length && strncmp(place.host, at, length) == 0),
                  "child %d is on '%s' and not on '%.*s'", child, place.host, length, at ? at : "");
            CHECK(commands[nth].in == NULL || strcmp(place.directory, commands[nth].in) == 0,
                  "child %d is in '%s' and not in '%s'", child, place.directory, commands[nth].in);
            if (at != NULL)
                at += length + (at[length] == ',');
        }
    }
}

static void be_child(MPI_Comm parent)
{
    struct place place;
    memset(&place, 0, sizeof place);
    gethostname(place.host, sizeof place.host);
    CHECK(getcwd(place.directory, sizeof place.directory) != NULL, "no working directory");
    OK(MPI_Send(&place, sizeof place, MPI_BYTE, 0, 1, parent));
    names(parent, 0);
    work(parent, 0);
}

/* Does what the words say. */
static void spawn(const char *program, char **words)
{
    struct command commands[MOST];
    char *programs[MOST] = {NULL}, **lists[MOST] = {NULL}, *of_child[64] = {"child"}, *fails = NULL;
    int many = 0, counts[MOST] = {0}, all = 0, root = 0, codes[256];
    MPI_Info infos[MOST] = {MPI_INFO_NULL};
    MPI_Comm children;
    for (; *words != NULL && strcmp(*words, "then") != 0; words++) {
        struct command *command = &commands[many - 1];
        char *value = strchr(*words, '=');
        if (value == NULL) {
            if (strcmp(*words, "and") == 0)
                continue;
            CHECK(many < MOST, "too many commands");
            command = &commands[many++];
            *command = (struct command){.count = atoi(*words)};
            OK(MPI_Info_create(&command->info));
            continue;
        }
        CHECK(many > 0, "'%s' comes before the first number", *words);
        char *key = strndup(*words, value++ - *words);
        if (strcmp(key, "on") == 0)
            command->on = value;
        else if (strcmp(key, "in") == 0)
            command->in = value;
        else if (strcmp(key, "root") == 0)
            root = atoi(value);
        else if (strcmp(key, "fails") == 0)
            fails = value;
        else
            OK(MPI_Info_set(command->info, key, value));
        free(key);
    }
    for (int nth = 1; *words != NULL && *++words != NULL && nth < 63; nth++)
        of_child[nth] = *words;
    for (int nth = 0; nth < many; nth++) {
        programs[nth] = (char *)program;
        lists[nth] = of_child;
        counts[nth] = commands[nth].count;
        infos[nth] = commands[nth].info;
        all += counts[nth];
    }
    CHECK(all <= (int)(sizeof codes / sizeof *codes), "too many processes");
    memset(codes, 1, sizeof codes);
    int code = MPI_Comm_spawn_multiple(many, programs, lists, counts, infos, root, MPI_COMM_WORLD, &children, codes);
    for (int nth = 0; nth < many; nth++)
        OK(MPI_Info_free(&commands[nth].info));
    if (fails != NULL) {
        ERROR(MPI_ERR_SPAWN, code, fails);
        for (int nth = 0; nth < all; nth++)
            SAME(class_of(codes[nth]), MPI_ERR_SPAWN, "class of the code of process %d", nth);
        return;
    }
    OK(code);
    for (int nth = 0; nth < all; nth++)
        SAME(codes[nth], MPI_SUCCESS, "code of process %d", nth);
    if (me == 0)
        check_places(children, commands, many);
    names(children, 1);
    work(children, 1);
    /* Otherwise they end together. */
    if (of_child[1] == NULL)
        OK(MPI_Comm_disconnect(&children));
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        be_child(parent);
        if (argv[1] != NULL && argv[2] != NULL)
            spawn(argv[0], argv + 2);
        else
            OK(MPI_Comm_disconnect(&parent));
        MPI_Finalize();
        return 0;
    }
    CHECK(argc > 1, "there is nothing to spawn");
    spawn(argv[0], argv + 1);
    return end("placed");
}
