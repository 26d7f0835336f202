/* Takes and drops record locks on many files, and on one file many times, and counts what is open. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_count(void) {
    int count = 0;
    for (int fd = 0; fd < sysconf(_SC_OPEN_MAX); fd++) count += syscall(SYS_fcntl, fd, F_GETFD) >= 0;
    return count;
}

static int change(int fd, int type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &range);
}

int main(int count, char **paths) {
    char memory[4096];
    int fd, held = open(paths[1], O_RDWR);
    printf("lock %d\n", change(held, F_WRLCK));
    int warm = open(paths[2], O_RDONLY);
    pread(warm, memory, sizeof memory, 0);
    int before = open_count();
    for (int turn = 0; turn < 400; turn++) {
        const char *path = paths[1 + turn % (count - 1)];
        /* Closing it drops the lock on the first file, which is taken again. */
        fd = open(path, O_RDONLY), pread(fd, memory, sizeof memory, turn * 100);
        if (turn % 3 == 0) change(fd, F_UNLCK);
        if (turn % 3 == 1) change(fd, F_WRLCK), lockf(fd, F_TEST, 0);
        if (turn % 3 == 2) change(fd, F_RDLCK), dup2(0, fd);
        close(fd);
        change(held, F_WRLCK);
    }
    for (int turn = 0; turn < 400; turn++) {
        /* The lock stays all the time: only others are opened. */
        fd = open(paths[2 + turn % (count - 2)], O_RDONLY);
        change(fd, F_RDLCK), pread(fd, memory, sizeof memory, turn * 100);
        close(fd);
    }
    int after = open_count();
    printf("grown %d\n", after > before + 64);
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_pid = 0};
    if (fork() == 0) {
        int other = syscall(SYS_openat, AT_FDCWD, paths[1], O_RDWR);
        syscall(SYS_fcntl, other, F_GETLK, &range);
        syscall(SYS_exit_group, range.l_type != F_UNLCK);
    }
    int status;
    wait(&status), printf("held %d\n", WEXITSTATUS(status));
    return 0;
}
