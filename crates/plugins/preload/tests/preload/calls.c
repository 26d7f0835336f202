/* Reads a file by every call there is, and prints what each gave: with and without the library the same. */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

extern char **environ;
int __fxstat64(int, int, struct stat64 *);
int __fxstatat64(int, int, const char *, struct stat64 *, int);

/* What the version is called that programs of before 2.33 pass. */
#ifdef __x86_64__
enum { STAT_VERSION = 1 };
#else
enum { STAT_VERSION = 0 };
#endif

static unsigned char memory[1 << 22];

static uint64_t sum(const void *from, ssize_t len) {
    uint64_t hash = 14695981039346656037ull;
    for (ssize_t at = 0; at < len; at++) hash = (hash ^ ((const unsigned char *)from)[at]) * 1099511628211ull;
    return hash;
}

static void say(const char *what, ssize_t len) {
    printf("%s %zd %d %016llx\n", what, len, len < 0 ? errno : 0, (unsigned long long)sum(memory, len > 0 ? len : 0));
    fflush(stdout);
    memset(memory, 0xee, sizeof memory);
}

static int must(int fd) {
    if (fd < 0) { perror("open"); exit(9); }
    return fd;
}

/* All of the file by read in pieces of odd lengths. */
static void read_all(const char *what, int fd, size_t step) {
    size_t at = 0;
    ssize_t len;
    while (at + step < sizeof memory && (len = read(fd, memory + at, step)) > 0) at += len;
    say(what, at);
}

static void show(const char *what, const struct stat *s) {
    printf("%s %lx %lx %o %ld %ld %ld.%ld %ld.%ld %lu\n", what, (long)s->st_dev, (long)s->st_ino, s->st_mode, (long)s->st_size,
           (long)s->st_blksize, (long)s->st_mtim.tv_sec, s->st_mtim.tv_nsec, (long)s->st_ctim.tv_sec, s->st_ctim.tv_nsec,
           (unsigned long)s->st_nlink);
}

static void stats(int fd) {
    struct stat s;
    struct stat64 s64;
    struct statx x;
    struct statfs f;
    char list[256];
    fstat(fd, &s), show("fstat", &s);
    fstat64(fd, &s64), show("fstat64", (struct stat *)&s64);
    __fxstat64(STAT_VERSION, fd, &s64), show("__fxstat64", (struct stat *)&s64);
    fstatat(fd, "", &s, AT_EMPTY_PATH), show("fstatat", &s);
    __fxstatat64(STAT_VERSION, fd, "", &s64, AT_EMPTY_PATH), show("__fxstatat64", (struct stat *)&s64);
    statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x);
    printf("statx %u:%u %llx %llu %lld\n", x.stx_dev_major, x.stx_dev_minor, (unsigned long long)x.stx_ino,
           (unsigned long long)x.stx_size, (long long)x.stx_mtime.tv_sec);
    fstatfs(fd, &f), printf("fstatfs %lx\n", (long)f.f_type);
    printf("flags %x %x\n", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    printf("xattr %zd\n", flistxattr(fd, list, sizeof list));
}

static void vectors(int fd) {
    struct iovec parts[3] = {{memory, 1000}, {memory + 1000, 70000}, {memory + 71000, 3}};
    say("readv", readv(fd, parts, 3));
    say("preadv", preadv(fd, parts, 3, 12345));
    say("preadv64", preadv64(fd, parts, 3, 54321));
    say("preadv2", preadv2(fd, parts, 3, 777, 0));
    say("preadv2 on", preadv2(fd, parts, 3, -1, 0));
    say("readv on", readv(fd, parts, 2));
}

static void seeks(int fd, off_t len) {
    printf("lseek %ld %ld %ld\n", (long)lseek(fd, 100, SEEK_SET), (long)lseek(fd, 23, SEEK_CUR), (long)lseek(fd, -50, SEEK_END));
    say("at the end", read(fd, memory, 4096));
    say("past the end", read(fd, memory, 4096));
    say("pread past the end", pread(fd, memory, 100, len + 5));
    say("pread over the end", pread(fd, memory, 4096, len - 7));
    say("pread before the start", pread(fd, memory, 10, -1));
    printf("pread to nowhere %zd %d\n", pread(fd, NULL, 10, 0), errno);
    say("pread of nothing", pread(fd, memory, 0, 0));
    printf("lseek before the start %ld\n", (long)lseek(fd, -1, SEEK_SET));
    lseek(fd, 0, SEEK_SET);
}

static void duplicates(int fd) {
    int other = dup(fd), third = 77, high;
    lseek(fd, 5000, SEEK_SET);
    say("dup", read(other, memory, 3000));
    dup2(other, third);
    say("dup2", read(third, memory, 3000));
    high = fcntl(third, F_DUPFD_CLOEXEC, 200);
    close(third);
    say("F_DUPFD", read(high, memory, 3000));
    say("and the first", read(fd, memory, 3000));
    dup3(fd, 78, O_CLOEXEC);
    close(fd);
    say("dup3", pread(78, memory, 3000, 9));
    close(78), close(high), close(other);
}

static void children(const char *path) {
    int fd = must(open(path, O_RDONLY)), status;
    say("before the fork", read(fd, memory, 1234));
    pid_t child = fork();
    if (child == 0) {
        say("in the child", read(fd, memory, 4321));
        say("the child's own", pread(fd, memory, 4321, 70000));
        int own = must(open(path, O_RDONLY));
        read_all("opened by the child", own, 65537);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say("after the fork", read(fd, memory, 1234));
    char *const arguments[] = {"head", "-c", "100", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    lseek(fd, 1000, SEEK_SET);
    posix_spawnp(&child, "head", &actions, NULL, arguments, environ);
    waitpid(child, &status, 0);
    printf("\nspawned %d\n", status);
    fflush(stdout);
    child = vfork();
    if (child == 0) {
        close(fd);
        execlp("true", "true", NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    say("after vfork", pread(fd, memory, 1234, 4));
    close(fd);
}

static void locks(const char *path) {
    int fd = must(open(path, O_RDONLY)), other = must(open(path, O_RDONLY));
    struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    lseek(fd, 4321, SEEK_SET);
    printf("flock %d", flock(fd, LOCK_EX | LOCK_NB));
    printf(" %d", flock(other, LOCK_EX | LOCK_NB));
    printf(" %d\n", flock(fd, LOCK_UN));
    say("after flock", read(fd, memory, 1000));
    printf("fcntl %d\n", fcntl(other, F_SETLK, &range));
    printf("ofd %d\n", fcntl(other, F_OFD_SETLK, &range));
    say("after fcntl", read(other, memory, 1000));
    close(fd), close(other);
    fd = must(open(path, O_RDONLY));
    printf("lockf %d %d\n", lockf(fd, F_TEST, 0), errno);
    close(fd);
}

static void streams(const char *path) {
    FILE *stream = fopen(path, "r");
    fseek(stream, 333, SEEK_SET);
    say("fread", fread(memory, 1, 100000, stream));
    stream = freopen(path, "rb", stream);
    say("freopen", fread(memory, 1, 100000, stream));
    printf("fileno %d eof %d\n", fileno(stream) >= 0, feof(stream));
    fclose(stream);
    printf("w on a folder %d\n", fopen("/", "w") != NULL);
}

static void maps(int fd, off_t len) {
    unsigned char *at = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    memcpy(memory, at, len);
    say("mmap", len);
    munmap(at, len);
    at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    printf("mmap for writing %d %d\n", at == MAP_FAILED, errno);
}

/* The answer of a closed number, and of one that is another file by now. */
static void reuse(const char *path) {
    int fd = must(open(path, O_RDONLY)), pair[2];
    say("first", read(fd, memory, 10));
    syscall(SYS_close, fd);
    say("closed", read(fd, memory, 10));
    pipe(pair);
    write(pair[1], "hello", 5);
    say("a pipe", read(pair[0], memory, 10));
    close(pair[0]), close(pair[1]);
    fd = must(open(path, O_RDONLY));
    close_range(fd, fd, 0);
    say("close_range", read(fd, memory, 10));
}

/* A signal that all threads of the program block waits to be taken, whichever threads a library has. */
static void signals(void) {
    struct timespec patience = {30, 0};
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    usleep(20000);
    printf("signal %d\n", sigtimedwait(&set, NULL, &patience) == SIGUSR1);
}

int main(int count, char **paths) {
    const char *path = paths[1], *folder = paths[2], *name = paths[3];
    char odd[4096];
    struct stat s;
    volatile int flags = O_RDONLY;
    int fd, at = must(open(folder, O_RDONLY | O_DIRECTORY));
    stat(path, &s), show("stat", &s);
    read_all("open", fd = must(open(path, flags)), 100003);
    stats(fd), seeks(fd, s.st_size), vectors(fd), maps(fd, s.st_size), duplicates(fd);
    read_all("open64", fd = must(open64(path, O_RDONLY | O_CLOEXEC)), 4096), stats(fd), close(fd);
    read_all("openat", fd = must(openat(at, name, O_RDONLY)), 1 << 20), close(fd);
    snprintf(odd, sizeof odd, "/%s//./%s", folder, name);
    read_all("//", fd = must(open(odd, O_RDONLY)), 65536), close(fd);
    snprintf(odd, sizeof odd, "%s/../set/%s", folder, name);
    read_all("..", fd = must(open(odd, O_RDONLY)), 65536), close(fd);
    chdir(folder);
    read_all("relative", fd = must(open(name, O_RDONLY)), 65536), close(fd);
    chdir("..");
    snprintf(odd, sizeof odd, "set/%s", name);
    read_all("relative from above", fd = must(open(odd, O_RDONLY)), 65536), close(fd);
    fd = must(open(path, O_RDONLY));
    posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    say("pread", pread(fd, memory, 200000, 3));
    say("pread64", pread64(fd, memory, 200000, 99999));
    volatile size_t few = 3000;
    char small[4096];
    memcpy(memory, small, 0 * pread(fd, small, few, 17));
    printf("__pread_chk %zd %016llx\n", pread(fd, small, few, 17), (unsigned long long)sum(small, few));
    printf("__read_chk %zd %016llx\n", read(fd, small, few), (unsigned long long)sum(small, few));
    close(fd);
    signals(), streams(path), children(path), locks(path), reuse(path);
    printf("no such file %d %d\n", open("/no/such/file", O_RDONLY), errno);
    snprintf(odd, sizeof odd, "%s/none", folder);
    printf("nor here %d %d\n", open(odd, O_RDONLY), errno);
    printf("a folder %d\n", open(folder, O_RDONLY) >= 0);
    return 0;
}
