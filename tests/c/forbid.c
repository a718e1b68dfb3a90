/* Preloaded: forbids ranks system calls, as containers and sandboxes do. WEFT_FORBID is a list of CALL=ERRNO; a word of a call
 * that has sizes can be CALL@BYTES=ERRNO, for that size alone. CALL=kill: who makes it is killed (SIGSYS). `dumpable=0` is another kind: nobody else may look into this
 * process. WEFT_FORBID_RANK, if set, names the only rank that is concerned. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name;
    long number;
} calls[] = {
    {"process_vm_readv", SYS_process_vm_readv},
    {"memfd_create", SYS_memfd_create},
    {"fallocate", SYS_fallocate},
    {"membarrier", SYS_membarrier},
    {"pidfd_open", SYS_pidfd_open},
};

enum { KILL = -1 };

static void fail(const char *what)
{
    fprintf(stderr, "forbid.c: %s: %s\n", what, strerror(errno));
    _exit(98);
}

static void not_dumpable(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0)
        fail("capget");
    data[0].effective &= ~(1u << CAP_SYS_PTRACE);
    data[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    if (syscall(SYS_capset, &header, data) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0)
        fail("PR_SET_DUMPABLE");
}

/* For a call that has no good arguments. */
static void must_kill(long number)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        syscall(number, -1, 0, 0, 0, 0, 0);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
        fail("the filter does not kill");
}

/* `bytes` is 0, or the fourth argument for which alone the call fails; `error` KILL: who makes it is killed. */
static void forbid(long number, unsigned bytes, int error)
{
    const unsigned action = error == KILL ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | (unsigned)error;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, bytes != 0 ? 3 : 1),
        bytes != 0 ? (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3]))
                   : (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action),
        bytes != 0 ? (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bytes, 0, 1)
                   : (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        fail("seccomp");
    /* With no good arguments it would fail in any case, but otherwise. */
    if (error == KILL)
        must_kill(number);
    else if (syscall(number, -1, 0, 0, bytes, 0, 0) != -1 || errno != error)
        fail("the filter does not work");
}

__attribute__((constructor)) static void begin(void)
{
    const char *list = getenv("WEFT_FORBID"), *rank = getenv("PMI_RANK"), *only = getenv("WEFT_FORBID_RANK");
    if (list == NULL || rank == NULL || (only != NULL && strcmp(only, rank) != 0))
        return;
    char *words = strdup(list);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        char *value = strchr(word, '='), *at = strchr(word, '@');
        if (value == NULL)
            fail(word);
        *value++ = '\0';
        if (at != NULL)
            *at++ = '\0';
        if (strcmp(word, "dumpable") == 0) {
            not_dumpable();
            continue;
        }
        int known = 0;
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
            if (strcmp(word, calls[i].name) == 0) {
                forbid(calls[i].number, at != NULL ? atoi(at) : 0, strcmp(value, "kill") == 0 ? KILL : atoi(value));
                known = 1;
            }
        if (!known)
            fail(word);
    }
    free(words);
}
