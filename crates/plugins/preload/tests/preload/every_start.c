/* Starts programs and makes descriptors by every name that the library exports for that. What a program inherits is the file, at its position and with its
   locks; each descriptor has the number and the kind that the bare system call gives: every_start PATH TWIN COPY-OF-CAT */
#include "every.h"

#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

extern char **environ;
static const char *path, *program;
static const unsigned char *bytes;
static off_t size;
static unsigned char got[1 << 22];

/* Programs that print their input: how each is started, in a child. */
static char *words[] = {"cat", NULL};
static void by_execv(int in) { execv("/bin/cat", words); }
static void by_execve(int in) { execve("/bin/cat", words, environ); }
static void by_execvp(int in) { execvp("cat", words); }
static void by_execvpe(int in) { execvpe("cat", words, environ); }
static void by_fexecve(int in) { fexecve(open(program, O_RDONLY | O_CLOEXEC), words, environ); }
static void by_execveat(int in) { execveat(open(program, O_RDONLY | O_CLOEXEC), "", words, environ, AT_EMPTY_PATH); }

static void in_child(int in, int out, void (*start)(int)) {
    dup2(in, 0), dup2(out, 1), close(out);
    start(in);
    _exit(7);
}

/* The rest of the file, as a started program prints it from where this one has read. */
static void rest(const char *called, off_t from, int spawned, void (*start)(int)) {
    int in = open(path, O_RDONLY), pair[2], status = -1;
    size_t len = 0;
    ssize_t part;
    pid_t child;
    pipe2(pair, O_CLOEXEC);
    must(called, "bytes before", read(in, got, from) == from && memcmp(got, bytes, from) == 0);
    if (spawned) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in, 0), posix_spawn_file_actions_adddup2(&actions, pair[1], 1);
        SAME(called, "", spawned == 1 ? posix_spawn(&child, "/bin/cat", &actions, NULL, words, environ)
                                      : posix_spawnp(&child, "cat", &actions, NULL, words, environ), 0);
        posix_spawn_file_actions_destroy(&actions);
    } else if ((child = fork()) == 0) {
        in_child(in, pair[1], start);
    }
    syscall(SYS_close, pair[1]);
    while ((part = syscall(SYS_read, pair[0], got + len, sizeof got - len)) > 0) len += part;
    waitpid(child, &status, 0);
    must(called, "status", status == 0);
    must(called, "bytes", (off_t)len == size - from && memcmp(got, bytes + from, len) == 0);
    must(called, "position", lseek(in, 0, SEEK_CUR) == size);
    close(pair[0]), close(in);
}

static void programs(void) {
    rest("execv", 1000, 0, by_execv), rest("execve", 2000, 0, by_execve), rest("execvp", 3000, 0, by_execvp);
    rest("execvpe", 70000, 0, by_execvpe), rest("fexecve", 1, 0, by_fexecve), rest("execveat", 5, 0, by_execveat);
    rest("posix_spawn", 99999, 1, NULL), rest("posix_spawnp", 7, 2, NULL);
    pid_t child = -1;
    SAME("execv", "of no program", execv("/no/such", words), (errno = ENOENT, -1));
    SAME("execve", "of a file that is none", execve(path, words, environ), (errno = EACCES, -1));
    SAME("execvp", "of no program", execvp("no-such-program", words), (errno = ENOENT, -1));
    SAME("execvpe", "of no program", execvpe("no-such-program", words, environ), (errno = ENOENT, -1));
    SAME("fexecve", "of a file that is none", fexecve(open(path, O_RDONLY), words, environ), (errno = EACCES, -1));
    SAME("execveat", "of no program", execveat(AT_FDCWD, "/no/such", words, environ, 0), (errno = ENOENT, -1));
    SAME("posix_spawn", "of no program", posix_spawn(&child, "/no/such", NULL, NULL, words, environ), ENOENT);
    SAME("posix_spawnp", "of no program", posix_spawnp(&child, "no-such-program", NULL, NULL, words, environ), ENOENT);
    void (*const ends[])(int) = {_exit, _Exit};
    for (int index = 0; index < 2; index++) {
        int status;
        if ((child = fork()) == 0) pread(open(path, O_RDONLY), got, 9, 0), ends[index](40 + index);
        waitpid(child, &status, 0);
        must(index ? "_Exit" : "_exit", "status", WIFEXITED(status) && WEXITSTATUS(status) == 40 + index);
    }
}

/* The number is the lowest that is free, and what it is open on is what the kernel says for the bare call. */
static void made(const char *called, int fd, int lowest, int bare, int is_closed_on_exec) {
    char link[64], mine[256] = "", plain[256] = "";
    must(called, "number", fd == lowest && fcntl(fd, F_GETFD) == (is_closed_on_exec ? FD_CLOEXEC : 0));
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd), readlink(link, mine, sizeof mine - 1);
    snprintf(link, sizeof link, "/proc/self/fd/%d", bare), readlink(link, plain, sizeof plain - 1);
    // Those of pipes, sockets and memory have numbers of their own.
    must(called, "kind", strncmp(mine, plain, strcspn(plain, "[")) == 0 && strlen(plain) > 3);
    close(fd), bare_close(bare);
}

static int lowest(void) {
    int fd = bare_open("/dev/null", O_RDONLY);
    bare_close(fd);
    return fd;
}

static void descriptors(void) {
    sigset_t set;
    sigemptyset(&set);
#define MADE(called, call, is_closed, ...)                    \
    do {                                                      \
        int free_ = lowest(), fd_ = call;                     \
        made(called, fd_, free_, syscall(__VA_ARGS__), is_closed); \
    } while (0)
    MADE("socket", socket(AF_UNIX, SOCK_STREAM, 0), 0, SYS_socket, AF_UNIX, SOCK_STREAM, 0);
    MADE("eventfd", eventfd(1, EFD_CLOEXEC), 1, SYS_eventfd2, 1, 0);
    MADE("epoll_create", epoll_create(1), 0, SYS_epoll_create1, 0);
    MADE("epoll_create1", epoll_create1(EPOLL_CLOEXEC), 1, SYS_epoll_create1, 0);
    MADE("timerfd_create", timerfd_create(CLOCK_MONOTONIC, 0), 0, SYS_timerfd_create, CLOCK_MONOTONIC, 0);
    MADE("signalfd", signalfd(-1, &set, 0), 0, SYS_signalfd4, -1, &set, 8L, 0L);
    MADE("inotify_init", inotify_init(), 0, SYS_inotify_init1, 0);
    MADE("inotify_init1", inotify_init1(IN_CLOEXEC), 1, SYS_inotify_init1, 0);
    MADE("memfd_create", memfd_create("same", MFD_CLOEXEC), 1, SYS_memfd_create, "same", 0);
    SAME("socket", "of no kind", socket(AF_UNIX, 99, 0), syscall(SYS_socket, AF_UNIX, 99, 0));
    SAME("eventfd", "with odd flags", eventfd(0, 1 << 20), syscall(SYS_eventfd2, 0, 1 << 20));
    SAME("epoll_create", "of nothing", epoll_create(0), (errno = EINVAL, -1));
    SAME("timerfd_create", "of no clock", timerfd_create(99, 0), syscall(SYS_timerfd_create, 99, 0));
    SAME("memfd_create", "with odd flags", memfd_create("same", 1 << 20), syscall(SYS_memfd_create, "same", 1 << 20));
    SAME("inotify_init1", "with odd flags", inotify_init1(1), syscall(SYS_inotify_init1, 1));
    SAME("signalfd", "of a file", signalfd(lowest() - 1, &set, 0), (errno = EINVAL, -1));
    for (int index = 0; index < 3; index++) {
        const char *called[] = {"pipe", "pipe2", "socketpair"};
        int pair[2], bare[2], free = lowest();
        must(called[index], "", (index == 0 ? pipe(pair) : index == 1 ? pipe2(pair, O_CLOEXEC) : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) == 0);
        must(called[index], "", index == 2 ? syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, bare) == 0 : syscall(SYS_pipe2, bare, 0) == 0);
        must(called[index], "bytes", write(pair[1], "hello", 5) == 5 && read(pair[0], got, 9) == 5 && memcmp(got, "hello", 5) == 0);
        made(called[index], pair[1], free + 1, bare[1], index > 0), made(called[index], pair[0], free, bare[0], index > 0);
    }
    SAME("pipe2", "with odd flags", pipe2((int[2]){0, 0}, 1), (errno = EINVAL, -1));
    for (int index = 0; index < 2; index++) {
        int listening = socket(AF_INET, SOCK_STREAM, 0), calling = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, from = {0};
        socklen_t len = sizeof place;
        bind(listening, (struct sockaddr *)&place, len), listen(listening, 2), getsockname(listening, (struct sockaddr *)&place, &len);
        connect(calling, (struct sockaddr *)&place, len);
        int free = lowest();
        int fd = index ? accept4(listening, (struct sockaddr *)&from, &len, SOCK_CLOEXEC) : accept(listening, (struct sockaddr *)&from, &len);
        must(index ? "accept4" : "accept", "address", from.sin_port != 0 && len == sizeof from);
        must(index ? "accept4" : "accept", "bytes", send(calling, "hello", 5, 0) == 5 && read(fd, got, 9) == 5 && memcmp(got, "hello", 5) == 0);
        made(index ? "accept4" : "accept", fd, free, syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), index);
        close(listening), close(calling);
    }
}

int main(int count, char **arguments) {
    path = arguments[1], program = arguments[3], size = bare_stat(arguments[2], 0).st_size;
    bytes = (unsigned char *)syscall(SYS_mmap, NULL, size, PROT_READ, MAP_PRIVATE, bare_open(arguments[2], O_RDONLY), 0L);
    int fd = open(path, O_RDONLY);
    // A folder that may not be looked into has another error than one without the program.
    setenv("PATH", "/usr/bin:/bin", 1);
    programs(), descriptors();
    must("open", "bytes at the end", pread(fd, got, sizeof got, 0) == size && memcmp(got, bytes, size) == 0);
    return ended();
}
