/* What the programs that call every name have in common: a call gives what the bare system call gives. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

static int wrong;

static void compare(const char *name, const char *about, long got, int error, long wanted, int bare_error) {
    if (got == wanted && error == bare_error) return;
    fprintf(stderr, "%s %s: %ld (%s), and the kernel %ld (%s)\n", name, about, got, strerror(error), wanted, strerror(bare_error));
    wrong = 1;
}

/* Both answers, each with its error. */
#define SAME(name, about, call, bare)                                              \
    do {                                                                           \
        errno = 0;                                                                 \
        long got_ = (long)(call);                                                  \
        int error_ = got_ == -1 ? errno : 0;                                       \
        errno = 0;                                                                 \
        long wanted_ = (long)(bare);                                               \
        compare(name, about, got_, error_, wanted_, wanted_ == -1 ? errno : 0);    \
    } while (0)

static void must(const char *name, const char *about, int is_right) {
    if (is_right) return;
    fprintf(stderr, "%s %s is wrong (%s)\n", name, about, strerror(errno));
    wrong = 1;
}

static int bare_open(const char *path, int flags) {
    int fd = syscall(SYS_openat, AT_FDCWD, path, flags, 0644);
    if (fd < 0) fprintf(stderr, "%s: %s\n", path, strerror(errno)), exit(9);
    return fd;
}

static void bare_close(int fd) { syscall(SYS_close, fd); }

/* What `path` is, as the kernel says; the structure is that of the C library. */
static struct stat bare_stat(const char *path, int flags) {
    struct stat s;
    memset(&s, 0, sizeof s);
    if (syscall(SYS_newfstatat, AT_FDCWD, path, &s, flags) != 0) s.st_mode = 0;
    return s;
}

/* All but the time of the last read, which the library changes as any reader does. */
static int is_same_stat(const struct stat *one, const struct stat *other) {
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino && one->st_mode == other->st_mode
        && one->st_nlink == other->st_nlink && one->st_uid == other->st_uid && one->st_gid == other->st_gid
        && one->st_size == other->st_size && one->st_blksize == other->st_blksize && one->st_blocks == other->st_blocks
        && memcmp(&one->st_mtim, &other->st_mtim, sizeof one->st_mtim) == 0
        && memcmp(&one->st_ctim, &other->st_ctim, sizeof one->st_ctim) == 0;
}

static int ended(void) {
    if (!wrong) puts("every name gave the same");
    return wrong;
}
