/* Calls that are rare, fail or come at an odd moment: each prints what it gives, so that runs can be compared. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 300 };
static char **paths;

static int is_same(int fd, const char *path) {
    struct stat one, other;
    return fstat(fd, &one) == 0 && stat(path, &other) == 0 && one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

/* Whether another process can lock the file, asked by calls that no library sees. */
static int is_free(const char *path) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
        syscall(SYS_exit_group, syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) == 0);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static void cut(const char *path) {
    char memory[100];
    int fd = open(path, O_RDONLY);
    pread(fd, memory, sizeof memory, 0);
    volatile char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    (void)map[0];
    int other = open(path, O_RDONLY | O_TRUNC);
    printf("cut: read %zd, other %zd\n", read(fd, memory, sizeof memory), read(other, memory, sizeof memory));
}

static void forked_without_handlers(const char *path) {
    int fd = open(path, O_RDONLY), status;
    fflush(stdout);
    pid_t child = _Fork();
    if (child == 0) {
        printf("_Fork: same %d\n", is_same(fd, path));
        printf("flock %d ", flock(fd, LOCK_EX | LOCK_NB)), fflush(stdout);
        printf("free %d\n", is_free(path));
        fflush(stdout), _exit(0);
    }
    waitpid(child, &status, 0);
    printf("status %d same %d\n", status, is_same(fd, path));
    close(fd);
}

/* A child may have each number that it names. */
static void numbers_of_a_child(const char *path) {
    char byte;
    int fd = open(path, O_RDONLY), status, refused = 0;
    pread(fd, &byte, 1, 0);
    pid_t child = fork();
    if (child == 0) {
        for (int number = fd + 1; number < LIMIT; number++) refused += dup2(0, number) != number;
        _exit(refused);
    }
    waitpid(child, &status, 0);
    printf("refused %d\n", WEXITSTATUS(status));
    close(fd);
}

static void range_that_is_refused(const char *path) {
    int fd = open(path, O_RDONLY);
    int answer = close_range(3, 4000, 64), error = errno;
    printf("close_range %d error %d same %d ", answer, error, is_same(fd, path));
    printf("flock %d ", flock(fd, LOCK_EX | LOCK_NB)), fflush(stdout);
    printf("free %d\n", is_free(path));
    close(fd);
}

static void asked(const char *path) {
    char name[64], *text;
    size_t len;
    struct statfs by_name, by_number;
    struct stat s;
    int fd = open(path, O_RDONLY);
    printf("faccessat %d ", faccessat(fd, "", X_OK, AT_EMPTY_PATH)), printf("error %d\n", errno);
    for (const char **form = (const char *[]){"/proc/self/fd/+%d", "/proc/self/fd/0%d", "/proc/self/fd/%d", NULL}; *form; form++) {
        snprintf(name, sizeof name, *form, fd);
        printf("stat %d\n", stat(name, &s));
    }
    int mere_path = open(name, O_PATH);
    printf("mere path %d\n", is_same(mere_path, path)), close(mere_path);
    statfs(name, &by_name), fstatfs(fd, &by_number);
    printf("statfs %d\n", by_name.f_type == by_number.f_type);
    errno = 0;
    int seals = fcntl(fd, F_GET_SEALS);
    printf("seals %d error %d\n", seals, errno);
    struct timeval times[2] = {{1, 0}, {1, 0}};
    int set = futimesat(fd, NULL, times);
    stat(path, &s);
    printf("futimesat %d %ld\n", set, (long)s.st_mtime);
    FILE *stream = open_memstream(&text, &len);
    fputs("a", stream);
    errno = 0, fclose(stream);
    printf("memory stream %d\n", errno);
    close(fd);
}

static void messages(const char *path) {
    int sockets[2], fd = open(path, O_RDONLY);
    struct msghdr none = {.msg_control = (void *)8, .msg_controllen = 64};
    struct mmsghdr *many = calloc(1024, sizeof *many);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets);
    printf("no message %zd ", sendmsg(sockets[0], (void *)8, 0)), printf("error %d\n", errno);
    printf("no control %zd ", sendmsg(sockets[0], &none, 0)), printf("error %d\n", errno);
    printf("no messages %d ", sendmmsg(sockets[0], (void *)8, 1, 0)), printf("error %d\n", errno);
    printf("too many %d\n", sendmmsg(sockets[0], many, -1u, MSG_DONTWAIT) > 0);
    close(sockets[0]), close(sockets[1]), close(fd);
}

/* A file that is mapped and locked, and then written to: nothing of ours takes a number that the program would get. */
static void locked_map(const char *path) {
    struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDONLY);
    volatile char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    int lock = fcntl(fd, F_SETLK, &range), writer = open(path, O_RDWR), next = dup(0);
    /* A thread that copies has a number for a moment, between its open and its move of that to a high one. */
    for (int tries = 0; tries < 1000 && (writer != fd + 1 || next != fd + 2); tries++) {
        close(next), close(writer), usleep(1000);
        writer = open(path, O_RDWR), next = dup(0);
    }
    char byte = map[0] ^ 1;
    pwrite(writer, &byte, 1, 0);
    printf("lock %d writer +%d next +%d shows %d\n", lock, writer - fd, next - fd, map[0] == byte);
    close(writer), close(next), close(fd);
}

/* Makes descriptors until `left` numbers are free, as the kernel lists them. */
static void fill(int limit, int left) {
    for (;;) {
        int free_count = 0;
        for (int fd = 0; fd < limit; fd++) free_count += syscall(SYS_fcntl, fd, F_GETFD) < 0;
        if (free_count <= left || syscall(SYS_dup, 0) < 0) return;
    }
}

/* A map shows what is written, though no number is left when the writer is opened. */
static void map_without_numbers(const char *path) {
    int fd = open(path, O_RDONLY);
    volatile char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    char byte = map[0] ^ 0x55;
    fill(LIMIT, 1);
    int writer = open(path, O_RDWR);
    pwrite(writer, &byte, 1, 0);
    printf("writer %d shows %d\n", writer >= 0, map[0] == byte);
}

int main(int count, char **arguments) {
    struct rlimit limit = {LIMIT, LIMIT};
    setrlimit(RLIMIT_NOFILE, &limit);
    paths = arguments + 1;
    numbers_of_a_child(paths[0]);
    forked_without_handlers(paths[0]);
    range_that_is_refused(paths[1]);
    messages(paths[2]);
    locked_map(paths[3]);
    asked(paths[4]);
    cut(paths[5]);
    map_without_numbers(paths[6]);
    return 0;
}
