/* Opens a descriptor once more by the paths that the kernel has for it, writes, and prints what the file holds. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *path;

/* What is in the file, by system calls of its own. */
static void show(const char *what, off_t at) {
    char bytes[8] = "";
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
    syscall(SYS_pread64, fd, bytes, 7, at);
    syscall(SYS_close, fd);
    printf("%s: %.7s\n", what, bytes);
}

static void again(const char *format, int id, int flags, const char *text, off_t at) {
    char name[64], bytes[8] = "";
    int fd = open(path, O_RDONLY);
    pread(fd, bytes, 7, at);
    snprintf(name, sizeof name, format, id < 0 ? fd : id, fd);
    int other = open(name, flags);
    printf("%s %zd\n", text, pwrite(other, text, 7, at));
    show(text, at);
    pread(fd, bytes, 7, at), printf("by the first: %.7s\n", bytes);
    close(fd), close(other);
}

int main(int count, char **paths) {
    char bytes[8] = "", name[64], link[4096] = "";
    struct stat s, t;
    path = paths[1];
    /* Each on a file of its own, as one that was written has no copy. */
    again("/proc/self/fd/%d", -1, O_RDWR, "by self", 1000);
    path = paths[2], again("/dev/fd/%d", -1, O_RDWR, "by dev.", 2000);
    path = paths[3], again("/proc/%d/fd/%d", getpid(), O_WRONLY, "by pid.", 3000);
    path = paths[4];
    FILE *stream = fopen(path, "r");
    fread(bytes, 1, 7, stream);
    stream = freopen(NULL, "r+", stream);
    fseek(stream, 4000, SEEK_SET), fputs("freopen", stream), fclose(stream);
    show("freopen", 4000);
    path = paths[5];
    int fd = open(path, O_RDONLY);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    stat(name, &s), fstat(fd, &t), readlink(name, link, sizeof link - 1);
    printf("stat %d link %d\n", s.st_ino == t.st_ino && s.st_dev == t.st_dev, strcmp(link, path));
    stream = fopen(name, "r+");
    fseek(stream, 5000, SEEK_SET), fputs("fopen..", stream), fclose(stream);
    show("fopen", 5000);
    return 0;
}
