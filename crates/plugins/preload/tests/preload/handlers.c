/* Signal handlers that use the descriptor which the thread is just using, and a transfer that a signal interrupts. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static int file;
static volatile sig_atomic_t calls;
static char memory[65536];

static void seeks(int number) {
    struct stat s;
    int before = errno;
    lseek(file, 0, SEEK_CUR), fstat(file, &s), pread(file, memory + 32768, 100, 5000), close(dup(file));
    calls++, errno = before;
}

static void nothing(int number) { calls++; }

static void handle(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
}

static void every(int microseconds) {
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Sends until the other side takes no more: what a signal interrupts, and what does not wait. */
static void send_all(const char *what, int to, int from) {
    ssize_t sent, all = 0;
    off_t at = 0;
    while ((sent = sendfile(to, from, &at, 40000)) > 0) all += sent;
    printf("%s %d %d %d\n", what, (int)sent, errno, all == at && all > 0);
    fflush(stdout);
}

int main(int count, char **paths) {
    int pair[2], wrong = 0;
    file = open(paths[1], O_RDONLY);
    alarm(0), handle(seeks), every(200);
    for (int round = 0; round < 20000 && calls < 500; round++) {
        if (lseek(file, 4096, SEEK_SET) != 4096 || read(file, memory, 1000) != 1000 || lseek(file, 0, SEEK_CUR) != 5096) wrong++;
        lseek(file, -100, SEEK_END);
    }
    every(0);
    printf("wrong %d\n", wrong);
    fflush(stdout);
    pread(file, memory, 1000, 0);
    handle(nothing), pipe(pair), every(50000);
    send_all("a full pipe", pair[1], file);
    pipe(pair), fcntl(pair[1], F_SETFL, O_NONBLOCK), every(0);
    send_all("a pipe that does not wait", pair[1], file);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair), every(50000);
    send_all("a full socket", pair[1], file);
    return 0;
}
