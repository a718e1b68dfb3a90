/* What can't be spawned, what need not be, and how many: `MPI_ERR_SPAWN` with a code per process, after which MPI goes on; sets of numbers
 * (`soft`); no process at all; several commands; keys of an info object. `spawn_errors many`: 64 processes. */
#include "jobs.h"

static char *program;

static MPI_Info keys(const char *key, const char *value)
{
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, key, value));
    return info;
}

static void goes_on(void)
{
    char *arguments[] = {"child", NULL};
    MPI_Comm children;
    int size;
    OK(MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
    OK(MPI_Comm_remote_size(children, &size));
    SAME(size, 1, "number of children");
    OK(MPI_Comm_disconnect(&children));
}

static void not_there(void)
{
    int codes[5];
    MPI_Comm children = MPI_COMM_SELF;
    ERROR(MPI_ERR_SPAWN,
          MPI_Comm_spawn("./there-is-no-such-program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes),
          "there-is-no-such-program");
    for (int nth = 0; nth < 2; nth++)
        SAME(class_of(codes[nth]), MPI_ERR_SPAWN, "class of the code of process %d", nth);
    ERROR(MPI_ERR_SPAWN,
          MPI_Comm_spawn("/etc/passwd", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE),
          "/etc/passwd");
    /* One of three commands. */
    char *commands[] = {program, "/there/is/nothing", program}, *arguments[] = {"child", NULL}, **all[] = {arguments, arguments, arguments};
    int counts[] = {2, 1, 2};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL, MPI_INFO_NULL};
    ERROR(MPI_ERR_SPAWN, MPI_Comm_spawn_multiple(3, commands, all, counts, infos, 0, MPI_COMM_WORLD, &children, codes),
          "/there/is/nothing");
    SAME(class_of(codes[2]), MPI_ERR_SPAWN, "class of the code of the process that can't be started");
    goes_on();
    /* A program that ends before MPI_Init. */
    ERROR(MPI_ERR_SPAWN, MPI_Comm_spawn("true", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes), "did not connect");
    goes_on();
}

static void bad_arguments(void)
{
    MPI_Comm children;
    MPI_Info info = keys("soft", "1:2:x");
    ERROR(MPI_ERR_INFO_VALUE, MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE), "soft");
    OK(MPI_Info_free(&info));
    ERROR(MPI_ERR_ARG, MPI_Comm_spawn(program, MPI_ARGV_NULL, -1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE),
          "maxprocs");
    ERROR(MPI_ERR_ROOT,
          MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, ranks, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE), "root");
    ERROR(MPI_ERR_COMM,
          MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_NULL, &children, MPI_ERRCODES_IGNORE), "MPI_COMM_NULL");
    info = keys("arch", "pdp11");
    ERROR(MPI_ERR_SPAWN, MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE), "pdp11");
    OK(MPI_Info_free(&info));
    info = keys("host", "no-such-host.invalid");
    ERROR(MPI_ERR_SPAWN, MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE),
          "no-such-host.invalid");
    OK(MPI_Info_free(&info));
}

static void sets_of_numbers(void)
{
    static const struct {
        const char *soft;
        int most, started;
    } cases[] = {{"2", 3, 2}, {"1:3", 3, 3}, {"0:9:3", 4, 3}, {"5,1,9", 4, 1}, {"0", 2, 0}};
    for (int nth = 0; nth < (int)(sizeof cases / sizeof *cases); nth++) {
        MPI_Comm children = MPI_COMM_SELF;
        int codes[9] = {-1, -1, -1, -1, -1, -1, -1, -1, -1}, size;
        char *arguments[] = {"child", NULL};
        MPI_Info info = keys("soft", cases[nth].soft);
        OK(MPI_Comm_spawn(program, arguments, cases[nth].most, info, 0, MPI_COMM_WORLD, &children, codes));
        OK(MPI_Info_free(&info));
        for (int i = 0; i < 9; i++)
            SAME(codes[i] == -1 ? -1 : class_of(codes[i]), i >= cases[nth].most ? -1 : i < cases[nth].started ? MPI_SUCCESS : MPI_ERR_SPAWN,
                 "soft '%s': code %d", cases[nth].soft, i);
        if (cases[nth].started == 0) {
            SAME(children, MPI_COMM_NULL, "the communicator with no processes");
            continue;
        }
        OK(MPI_Comm_remote_size(children, &size));
        SAME(size, cases[nth].started, "soft '%s', at most %d", cases[nth].soft, cases[nth].most);
        OK(MPI_Comm_disconnect(&children));
    }
    MPI_Comm children = MPI_COMM_SELF;
    OK(MPI_Comm_spawn(program, MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
    SAME(children, MPI_COMM_NULL, "the communicator with no processes");
}

/* Each command has its number, its arguments and its errors' handler. */
static void several_commands(void)
{
    char *commands[] = {program, program, program}, *zero[] = {"child", "0", NULL}, *one[] = {"child", "1", "blank and more", "", NULL},
         *two[] = {"child", "2", NULL}, **all[] = {zero, one, two};
    int counts[] = {1, 2, 1}, codes[4] = {-1, -1, -1, -1}, size;
    MPI_Info infos[] = {MPI_INFO_NULL, keys("wdir", "/"), keys("mpi_initial_errhandler", "mpi_errors_return")};
    OK(MPI_Info_set(infos[1], "pset_name", "test://of-one"));
    MPI_Comm children;
    OK(MPI_Comm_spawn_multiple(3, commands, all, counts, infos, 0, MPI_COMM_WORLD, &children, codes));
    OK(MPI_Info_free(&infos[1]));
    OK(MPI_Info_free(&infos[2]));
    for (int nth = 0; nth < 4; nth++)
        SAME(codes[nth], MPI_SUCCESS, "code of process %d", nth);
    OK(MPI_Comm_remote_size(children, &size));
    SAME(size, 4, "number of children");
    work(children, 1);
    OK(MPI_Comm_disconnect(&children));
}

static void be_child(MPI_Comm parent, int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "work") == 0) {
        gather_across(parent, 0);
        OK(MPI_Comm_disconnect(&parent));
        return;
    }
    if (argc > 2) {
        int *number, flag, nth = atoi(argv[2]);
        OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag));
        SAME(flag ? *number : -1, nth, "MPI_APPNUM");
        SAME(ranks, 4, "size of the children's world");
        SAME(nth, me == 0 ? 0 : me < 3 ? 1 : 2, "command of rank %d", me);
        SAME(argc, nth == 1 ? 5 : 3, "number of arguments");
        if (nth == 1) {
            char folder[100];
            CHECK(strcmp(argv[3], "blank and more") == 0 && argv[4][0] == '\0', "arguments '%s' and '%s'", argv[3], argv[4]);
            CHECK(getcwd(folder, sizeof folder) != NULL && strcmp(folder, "/") == 0, "the directory is %s", folder);
            MPI_Session session;
            MPI_Group group;
            int size;
            OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
            OK(MPI_Group_from_session_pset(session, "test://of-one", &group));
            OK(MPI_Group_size(group, &size));
            SAME(size, 2, "size of the command's process set");
            OK(MPI_Group_free(&group));
            OK(MPI_Session_finalize(&session));
        } else if (nth == 2) {
            MPI_Errhandler handler;
            OK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &handler));
            SAME(handler, MPI_ERRORS_RETURN, "the initial error handler");
        }
        work(parent, 0);
    }
    OK(MPI_Comm_disconnect(&parent));
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    begin(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        be_child(parent, argc, argv);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    program = argv[0];
    if (argc > 1) {
        int size;
        char *arguments[] = {"child", "work", NULL};
        OK(MPI_Comm_spawn(program, arguments, 64, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        OK(MPI_Comm_remote_size(children, &size));
        SAME(size, 64, "number of children");
        gather_across(children, 1);
        OK(MPI_Comm_disconnect(&children));
    } else {
        not_there();
        bad_arguments();
        sets_of_numbers();
        several_commands();
    }
    return end("spawn_errors");
}
