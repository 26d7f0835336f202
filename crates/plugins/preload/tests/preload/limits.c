/* What a program sees of the limit of open files and of numbers that are not its own, and calls that need the last of them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char memory[1 << 22];
static char **paths;
static int many;
static volatile int is_over;

static void show(const char *what, int fd) {
    uint64_t hash = 14695981039346656037ull;
    ssize_t len = pread(fd, memory, sizeof memory, 0);
    for (ssize_t at = 0; at < len; at++) hash = (hash ^ memory[at]) * 1099511628211ull;
    printf("%s %zd %016llx\n", what, len, (unsigned long long)hash);
    fflush(stdout);
}

static void *reader(void *none) {
    char bytes[4096];
    for (int turn = 0; !is_over; turn++) {
        int fd = open(paths[turn % many], O_RDONLY);
        pread(fd, bytes, sizeof bytes, turn % 8 * 10000), close(fd);
    }
    return none;
}

/* The limit is what it was, here, in children and after the program has set it. */
static void limit(void) {
    struct rlimit before, now;
    pthread_t thread;
    int odd = 0, odd_children = 0, lost = 0;
    getrlimit(RLIMIT_NOFILE, &before);
    pthread_create(&thread, NULL, reader, NULL);
    for (int turn = 0; turn < 400; turn++) {
        int status;
        getrlimit(RLIMIT_NOFILE, &now);
        odd += now.rlim_cur != before.rlim_cur || sysconf(_SC_OPEN_MAX) != (long)before.rlim_cur;
        pid_t child = fork();
        if (child == 0) {
            syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &now);
            syscall(SYS_exit_group, now.rlim_cur != before.rlim_cur);
        }
        waitpid(child, &status, 0);
        odd_children += WEXITSTATUS(status);
        before.rlim_cur ^= 1, setrlimit(RLIMIT_NOFILE, &before);
    }
    is_over = 1, pthread_join(thread, NULL);
    getrlimit(RLIMIT_NOFILE, &now), lost = now.rlim_cur != before.rlim_cur;
    printf("limit %d %d %d\n", odd, odd_children, lost);
}

/* Numbers that are open and that the program has not opened are not there for it, and may be laid over. */
static void foreign(void) {
    int own[3], wrong = 0;
    struct stat s;
    for (int index = 0; index < 3; index++) own[index] = open(paths[index], O_RDONLY), show("read", own[index]);
    for (int fd = 100; fd < sysconf(_SC_OPEN_MAX); fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) wrong++;
        if (fstat(fd, &s) != -1 || errno != EBADF) wrong++;
        if (read(fd, memory, 1) != -1 || errno != EBADF) wrong++;
        if (pread(fd, memory, 1, 0) != -1 || errno != EBADF) wrong++;
        if (lseek(fd, 0, SEEK_CUR) != -1 || errno != EBADF) wrong++;
        if (pwrite(fd, "x", 1, 0) != -1 || errno != EBADF) wrong++;
        if (dup(fd) != -1 || errno != EBADF) wrong++;
        if (dup2(fd, 50) != -1 || errno != EBADF) wrong++;
        if (close(fd) != -1 || errno != EBADF) wrong++;
    }
    printf("foreign %d\n", wrong);
    int file = open(paths[many - 1], O_RDWR);
    for (int fd = sysconf(_SC_OPEN_MAX) - 1; fd >= 600; fd--)
        if (dup2(file, fd) != fd) wrong++, perror("dup2");
    printf("laid %d\n", wrong);
    for (int index = 0; index < 3; index++) show("again", own[index]), show("anew", open(paths[index], O_RDONLY));
    fstat(file, &s);
    for (int fd = 600; fd < sysconf(_SC_OPEN_MAX); fd++) {
        struct stat found;
        if (fstat(fd, &found) != 0 || found.st_ino != s.st_ino || close(fd) != 0) wrong++;
    }
    printf("closed %d\n", wrong);
}

/* Other numbers are beyond the limit that the program has lowered. */
static void lowered(void) {
    struct rlimit now;
    int fd = open(paths[0], O_RDONLY), count = 0;
    show("before", fd);
    getrlimit(RLIMIT_NOFILE, &now), now.rlim_cur = 40, printf("set %d\n", setrlimit(RLIMIT_NOFILE, &now));
    show("after", fd);
    for (int index = 0; index < many; index++) show("more", open(paths[index], O_RDONLY));
    while (open("/dev/null", O_RDONLY) >= 0) count++;
    printf("opened %d %d\n", count, errno);
    show("at last", fd);
}

/* The call named `how` has the last numbers; those of nobody the program knows of give way. */
static void last(const char *how, const char *outside) {
    char name[4096];
    int last[2] = {-1, -1}, fd, pair[2], made = -1;
    FILE *stream = fopen(paths[1], "r");
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    address.sun_path[1] = 'f', memcpy(address.sun_path + 2, &(int){getpid()}, sizeof(int));
    if (strncmp(how, "accept", 6) == 0)
        bind(listener, (void *)&address, sizeof address), listen(listener, 1), connect(client, (void *)&address, sizeof address);
    snprintf(name, sizeof name, "%s/last-XXXXXX", outside);
    int kept = open(paths[0], O_RDONLY);
    show("before", kept);
    while ((fd = syscall(SYS_dup, 0)) >= 0) last[0] = last[1], last[1] = fd;
    if (getenv("LD_PRELOAD") == NULL) close(last[0]), close(last[1]);
    sigset_t signals;
    sigemptyset(&signals);
#define IF(call) if (strcmp(how, call) == 0)
    IF("open") made = open(paths[2], O_RDONLY);
    IF("fopen") { FILE *opened = fopen(paths[2], "r"); made = opened ? fileno(opened) : -1; }
    IF("freopen") { FILE *opened = freopen(paths[2], "r", stream); made = opened ? fileno(opened) : -1; }
    IF("opendir") { DIR *opened = opendir("/"); made = opened ? dirfd(opened) : -1; }
    IF("mkstemp") made = mkstemp(name), unlink(name);
    IF("dup") made = dup(0);
    IF("fcntl") made = fcntl(0, F_DUPFD, 10);
    IF("cloexec") made = fcntl(0, F_DUPFD_CLOEXEC, 10);
    IF("again") { snprintf(name, sizeof name, "/proc/self/fd/%d", kept); made = open(name, O_RDONLY); }
    IF("pipe") made = pipe(pair);
    IF("pipe2") made = pipe2(pair, O_CLOEXEC);
    IF("socket") made = socket(AF_UNIX, SOCK_STREAM, 0);
    IF("socketpair") made = socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    IF("accept") made = accept(listener, NULL, NULL);
    IF("accept4") made = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    IF("eventfd") made = eventfd(0, 0);
    IF("epoll") made = epoll_create1(0);
    IF("timerfd") made = timerfd_create(CLOCK_MONOTONIC, 0);
    IF("signalfd") made = signalfd(-1, &signals, 0);
    IF("inotify") made = inotify_init1(0);
    IF("memfd") made = memfd_create("m", 0);
    printf("%s %d\n", how, made < 0 ? errno : 0);
    show("after", kept);
}

int main(int count, char **arguments) {
    const char *how = arguments[1];
    paths = arguments + 3, many = count - 3;
    IF("limit") limit();
    else IF("foreign") foreign();
    else IF("lowered") lowered();
    else last(how, arguments[2]);
    return 0;
}
