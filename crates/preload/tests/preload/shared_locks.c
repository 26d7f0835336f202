/* Takes shared locks on files that others lock and write, and prints what it reads and who else may lock them. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Another process, which calls the kernel itself: whether it gets a lock of its own. */
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

/* Another process writes `byte` to the begin of the file: under a lock of its own, which it has when this returns, or without one, at once. */
static pid_t changed(const char *path, char byte, int locks) {
    int ready[2];
    char said;
    pipe(ready);
    pid_t child = fork();
    if (child == 0) {
        int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
        if (locks) syscall(SYS_flock, fd, LOCK_EX), syscall(SYS_write, ready[1], "x", 1), usleep(200000);
        syscall(SYS_pwrite64, fd, &byte, 1, 0L);
        syscall(SYS_exit_group, 0);
    }
    if (locks) read(ready[0], &said, 1);
    else waitpid(child, NULL, 0);
    close(ready[0]), close(ready[1]);
    return child;
}

static void show(const char *what, int fd) {
    char memory[3000];
    unsigned sum = 0;
    ssize_t len = pread(fd, memory, sizeof memory, 0);
    for (ssize_t at = 0; at < len; at++) sum = sum * 31 + (unsigned char)memory[at];
    printf("%s: %zd bytes, %08x\n", what, len, sum);
    fflush(stdout);
}

static void held(const char *path) {
    char memory[100];
    int fd = open(path, O_RDONLY), other = open(path, O_RDONLY);
    printf("shared %d ", flock(fd, LOCK_SH)), printf("%d", flock(other, LOCK_SH | LOCK_NB)), show("", fd);
    printf("free %d\n", is_free(path));
    printf("read %zd ", read(fd, memory, 100)), printf("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    printf("both: alone %d\n", flock(fd, LOCK_EX | LOCK_NB));
    close(other);
    printf("alone %d ", flock(fd, LOCK_EX | LOCK_NB)), printf("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    printf("shared again %d ", flock(fd, LOCK_SH)), printf("unlocked %d ", flock(fd, LOCK_UN)), printf("free %d\n", is_free(path));
    printf("wrong %d\n", flock(fd, LOCK_SH | 64));
    close(fd);
    fd = open(path, O_RDONLY), flock(fd, LOCK_SH), other = dup(fd), close(fd);
    printf("of a duplicate: free %d\n", is_free(path));
    show("of a duplicate", other), close(other);
    printf("closed: free %d\n", is_free(path));
}

/* A program that is started has the descriptor, and with it a part in the lock. */
static void started(const char *path, const char *call) {
    int fd = open(path, O_RDONLY), closed = open(path, O_RDONLY | O_CLOEXEC), line[2];
    char *const arguments[] = {"cat", NULL};
    pid_t child;
    flock(fd, LOCK_SH), flock(closed, LOCK_SH);
    pipe2(line, O_CLOEXEC);
    if (strcmp(call, "posix_spawn") == 0) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions), posix_spawn_file_actions_adddup2(&actions, line[0], 0);
        posix_spawnp(&child, "cat", &actions, NULL, arguments, environ);
    } else if ((child = fork()) == 0) {
        dup2(line[0], 0);
        execvp("cat", arguments);
    }
    show(call, fd), close(fd), close(closed), close(line[0]);
    printf("%s: free %d", call, is_free(path));
    close(line[1]), waitpid(child, NULL, 0);
    printf(" and %d\n", is_free(path));
}

/* What others wrote before they gave up their lock is there once this one is. */
static void waited_for(const char *path) {
    int fd = open(path, O_RDONLY);
    show("before", fd);
    pid_t child = changed(path, 1, 1);
    printf("lock %d\n", flock(fd, LOCK_SH | LOCK_NB));
    printf("lock %d\n", flock(fd, LOCK_SH)), show("after it was waited for", fd);
    waitpid(child, NULL, 0), close(fd);
}

/* Who gave up the lock reads what others write. */
static void unlocked(const char *path) {
    int fd = open(path, O_RDONLY);
    flock(fd, LOCK_SH), show("locked", fd), flock(fd, LOCK_UN), show("unlocked", fd);
    changed(path, 2, 0), show("changed", fd);
    close(fd);
}

/* A lock is the moment from which the changes of others are seen, of those too that take none. */
static void locked_again(const char *path) {
    int fd = open(path, O_RDONLY);
    flock(fd, LOCK_SH), show("locked", fd);
    changed(path, 3, 0), flock(fd, LOCK_SH), show("locked again", fd);
    close(fd);
}

/* The number is another file's, by calls that no library sees. */
static void closed(const char *path, const char *other) {
    int fd = open(path, O_RDONLY);
    flock(fd, LOCK_SH), show("locked", fd);
    syscall(SYS_close, fd);
    int next = syscall(SYS_openat, AT_FDCWD, other, O_RDONLY);
    printf("the same number %d", next == fd), show("", next);
    close(next);
}

int main(int count, char **paths) {
    held(paths[1]), started(paths[1], "execvp"), started(paths[1], "posix_spawn");
    waited_for(paths[2]), unlocked(paths[3]), locked_again(paths[4]), closed(paths[1], paths[5]);
    return 0;
}
