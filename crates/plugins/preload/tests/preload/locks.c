/* Takes record locks on a file, opens, reads and closes it by other descriptors, and prints whether the lock is held as another process sees it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;

/* A child has no locks of its parent's, and asks by system calls of its own. */
static void show(const char *what) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
        syscall(SYS_fcntl, fd, F_GETLK, &range);
        syscall(SYS_exit_group, range.l_type != F_UNLCK);
    }
    waitpid(child, &status, 0);
    printf("%s: %s\n", what, WEXITSTATUS(status) ? "locked" : "free");
    fflush(stdout);
}

static void lock(int fd, int type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET};
    printf("lock %d\n", fcntl(fd, F_SETLK, &range));
}

int main(int count, char **paths) {
    char memory[4096];
    struct stat s;
    path = paths[1];
    int before = open(path, O_RDONLY), fd = open(path, O_RDONLY);
    pread(before, memory, sizeof memory, 100000), pread(fd, memory, sizeof memory, 700000);
    lock(fd, F_RDLCK), show("locked for reading");
    close(open(path, O_PATH)), show("closed a mere path");
    printf("dup2 %d\n", dup2(777, fd)), show("a call that fails closes nothing");
    printf("dup3 %d\n", dup3(before, fd, 64)), show("nor does one with wrong flags");
    int after = open(path, O_RDONLY);
    pread(after, memory, sizeof memory, 300000), show("opened once more");
    read(fd, memory, sizeof memory), fstat(before, &s), fstat(after, &s), show("read");
    /* Copies that are under way come to their end. */
    usleep(400000), pread(before, memory, sizeof memory, 1000), show("later");
    close(before), show("closed one of before");
    lock(fd, F_RDLCK), show("locked again");
    close(after), show("closed one of after");
    printf("lockf %d\n", lockf(open(path, O_RDWR), F_TLOCK, 0)), show("lockf");
    int reader = open(path, O_RDONLY);
    pread(reader, memory, sizeof memory, 0), show("lockf and a reader");
    for (int index = 2; index < count; index++) {
        int other = open(paths[index], O_RDONLY);
        pread(other, memory, sizeof memory, 0), close(other);
    }
    show("other files were closed");
    struct flock range = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(reader, F_SETLK, &range), show("unlocked");
    close(reader), close(fd);
    fd = open(path, O_RDONLY), reader = open(path, O_RDONLY);
    int writer = open(path, O_RDWR);
    lock(writer, F_WRLCK), show("a writer's lock");
    usleep(200000), show("and later");
    close(reader), show("and a reader was closed");
    return 0;
}
