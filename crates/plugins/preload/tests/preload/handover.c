/* Hands descriptors to the file system, to another process and to the kernel to run, and prints what each got. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void send_fd(int socket, int fd) {
    char byte = 'x', space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    printf("sent %zd\n", sendmsg(socket, &message, 0));
}

static int receive_fd(int socket) {
    int fd = -1;
    char byte, space[CMSG_SPACE(sizeof fd)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    recvmsg(socket, &message, 0);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

int main(int count, char **paths) {
    int pair[2], left = 0, flags = 0, version = 0, status;
    char bytes[8] = "";
    struct stat s, t;
    int fd = open(paths[1], O_RDONLY);
    lseek(fd, 1000, SEEK_SET);
    printf("FIONREAD %d %d\n", ioctl(fd, FIONREAD, &left), left);
    printf("FIOCLEX %d %d\n", ioctl(fd, FIOCLEX), fcntl(fd, F_GETFD));
    int got = ioctl(fd, FS_IOC_GETFLAGS, &flags);
    printf("FS_IOC_GETFLAGS %d %d %x\n", got, got ? errno : 0, got ? 0 : flags);
    got = ioctl(fd, FS_IOC_GETVERSION, &version);
    printf("FS_IOC_GETVERSION %d %d %d\n", got, got ? errno : 0, got ? 0 : version);
    printf("position %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    int other = open(paths[1], O_RDONLY);
    lseek(other, 2000, SEEK_SET);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    send_fd(pair[0], other);
    int received = receive_fd(pair[1]);
    syscall(SYS_fstat, received, &s), stat(paths[1], &t);
    printf("the origin %d\n", s.st_ino == t.st_ino && s.st_dev == t.st_dev);
    syscall(SYS_read, received, bytes, 7);
    printf("%.0s%ld %ld\n", bytes, (long)lseek(other, 0, SEEK_CUR), (long)lseek(received, 0, SEEK_CUR));
    int target = open("/dev/null", O_WRONLY);
    got = ioctl(target, FICLONERANGE, (void *)8), printf("FICLONERANGE %d %d\n", got, errno);
    got = ioctl(target, FICLONERANGE, NULL), printf("FICLONERANGE %d %d\n", got, errno);
    int from = open(paths[1], O_RDONLY);
    got = ioctl(target, FICLONE, (unsigned long)from | 0xabcdul << 32), printf("FICLONE %d %d\n", got, errno);
    long length = sysconf(_SC_PAGESIZE);
    char *page = mmap(NULL, 2 * length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + length, length, PROT_NONE);
    struct cmsghdr *last = (void *)(page + length - CMSG_SPACE(sizeof fd));
    *last = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(1 << 20)};
    struct iovec part = {bytes, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = last, .msg_controllen = CMSG_SPACE(sizeof fd)};
    printf("%zd", sendmsg(pair[0], &message, 0)), printf(" %d\n", errno);
    for (int way = 0; way < 2; way++) {
        fflush(stdout);
        int script = open(paths[2], O_RDONLY);
        if (fork() == 0) {
            char *const arguments[] = {"script", "argument", NULL};
            way ? execveat(script, "", arguments, environ, AT_EMPTY_PATH) : fexecve(script, arguments, environ);
            perror("exec"), _exit(9);
        }
        wait(&status), printf("ran %d\n", status);
        close(script);
    }
    return 0;
}
