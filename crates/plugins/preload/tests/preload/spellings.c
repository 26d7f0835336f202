/* Changes a file that it has open by paths to the descriptor, spelled in many ways, and prints what the file holds. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

static char **next, *path, name[64], home[4096];

/* The next file, open for reading. */
static int opened(void) {
    path = *next++;
    return open(path, O_RDONLY);
}

/* What is in the file, by system calls of its own. */
static void show(const char *what) {
    char bytes[8] = "";
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
    long len = syscall(SYS_lseek, fd, 0, SEEK_END);
    syscall(SYS_pread64, fd, bytes, 7, 1000);
    syscall(SYS_close, fd);
    printf("%s: %ld bytes, %.7s\n", what, len, bytes);
}

static void put(const char *what, int first, int fd) {
    char bytes[8] = "";
    printf("%zd ", pwrite(fd, "written", 7, 1000));
    show(what);
    pread(first, bytes, 7, 1000), printf("by the first: %.7s\n", bytes);
    close(fd), close(first);
}

static const char *spelled(const char *format, int a, int b, int c) {
    snprintf(name, sizeof name, format, a, b, c);
    return name;
}

static void times(const char *what) {
    struct stat s;
    syscall(SYS_newfstatat, AT_FDCWD, path, &s, 0);
    printf("%s: mode %o time %ld\n", what, s.st_mode, s.st_mtime == 1000 ? 1000L : 0L);
}

int main(int count, char **paths) {
    int fd, pid = getpid(), folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY), own = open("/proc/self", O_PATH);
    struct stat s, t;
    struct timeval old[2] = {{1000, 0}, {1000, 0}};
    next = paths + 1;
    getcwd(home, sizeof home);
    fd = opened(), put("in the folder", fd, openat(folder, spelled("%d", fd, 0, 0), O_RDWR));
    fd = opened(), put("two slashes", fd, open(spelled("/proc//self/fd/%d", fd, 0, 0), O_RDWR));
    fd = opened(), put("of a task", fd, open(spelled("/proc/%d/task/%d/fd/%d", pid, pid, fd), O_WRONLY));
    fd = opened(), put("below a folder", fd, openat(own, spelled("fd/%d", fd, 0, 0), O_RDWR));
    fd = opened(), chdir("/proc/self"), put("where it works", fd, open(spelled("fd/%d", fd, 0, 0), O_RDWR)), chdir(home);
    fd = opened(), put("with dots", fd, open(spelled("/dev/../proc/./self/fd/%d", fd, 0, 0), O_RDWR));
    fd = opened(), symlink(spelled("/proc/self/fd/%d", fd, 0, 0), "link"), put("a link", fd, open("link", O_RDWR)), unlink("link");
    fd = opened(), put("emptied", fd, openat(folder, spelled("%d", fd, 0, 0), O_WRONLY | O_TRUNC));
    fd = opened(), close(open(spelled("/proc//self/fd/%d", fd, 0, 0), O_RDONLY | O_TRUNC)), show("emptied for reading"), close(fd);
    fd = opened(), put("made", fd, creat(spelled("/proc//self/fd/%d", fd, 0, 0), 0600));
    fd = opened();
    FILE *stream = fopen(spelled("/proc//self/fd/%d", fd, 0, 0), "r+");
    fseek(stream, 1000, SEEK_SET), fputs("fopen r", stream), fclose(stream), show("a stream"), close(fd);
    fd = opened(), stream = fopen(spelled("/proc//self/fd/%d", fd, 0, 0), "w");
    fputs("fopen w", stream), fclose(stream), show("an emptied stream"), close(fd);
    fd = opened(), printf("truncate %d\n", truncate(spelled("/proc/self/fd/%d", fd, 0, 0), 1005)), show("truncated");
    fstat(fd, &s), printf("len %ld\n", (long)s.st_size), close(fd);
    fd = opened(), printf("truncate %d\n", truncate(spelled("/proc//self/fd/%d", fd, 0, 0), 1003)), show("truncated"), close(fd);
    fd = opened(), printf("chmod %d", chmod(spelled("/proc//self/fd/%d", fd, 0, 0), 0640)), times(""), close(fd);
    fd = opened(), printf("utimes %d", utimes(spelled("/proc/self/fd/%d", fd, 0, 0), old)), times(""), close(fd);
    fd = opened(), printf("chown %d %d", chown(spelled("/dev/fd/%d", fd, 0, 0), -1, -1), fchownat(fd, "", -1, -1, AT_EMPTY_PATH)), times(""), close(fd);
    fd = opened(), unlink("linked");
    printf("link %d\n", linkat(AT_FDCWD, spelled("/proc/self/fd/%d", fd, 0, 0), AT_FDCWD, "linked", AT_SYMLINK_FOLLOW));
    stat("linked", &s), stat(path, &t), printf("same %d\n", s.st_ino == t.st_ino), unlink("linked"), close(fd);
    /* Read only, it is a file of the origin too, with a position of its own. */
    fd = opened(), lseek(fd, 100, SEEK_SET);
    int other = openat(folder, spelled("%d", fd, 0, 0), O_RDONLY);
    fstat(fd, &s), fstat(other, &t);
    printf("same %d position %ld\n", s.st_ino == t.st_ino && s.st_dev == t.st_dev, (long)lseek(other, 0, SEEK_CUR));
    return 0;
}
