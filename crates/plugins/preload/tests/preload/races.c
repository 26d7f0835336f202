/* Threads that use descriptors while another one begins to write to the file, or that are cancelled. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { OPEN = 200 };
static const char *path;
static volatile int is_over, is_wanted;

/* Opens the file for writing when asked, by which everything that is open of it becomes the origin. */
static void *write_when_asked(void *unused) {
    while (!is_over) {
        if (!is_wanted) continue;
        close(open(path, O_RDWR));
        is_wanted = 0;
    }
    return unused;
}

/* Numbers that were closed are given to others at once: nothing is laid over these. */
static int stolen(int rounds) {
    int count = 0;
    srand(5);
    for (int round = 0; round < rounds; round++) {
        int files[OPEN], others[OPEN], is_backwards = rand() % 2;
        for (int index = 0; index < OPEN; index++) files[index] = open(path, O_RDONLY);
        is_wanted = 1;
        for (volatile int wait = rand() % 100000; wait > 0; wait--) {}
        for (int index = 0; index < OPEN; index++) {
            int at = is_backwards ? OPEN - 1 - index : index;
            close(files[at]), others[at] = eventfd(7, 0);
        }
        while (is_wanted) {}
        for (int index = 0; index < OPEN; index++) {
            uint64_t number;
            /* An eventfd has no positions. */
            count += pread(others[index], &number, sizeof number, 0) >= 0;
            close(others[index]);
        }
    }
    return count;
}

/* The file has the numbers from 0 on: each is read once. */
static int twice(int rounds) {
    int count = 0;
    for (int round = 0; round < rounds; round++) {
        uint64_t number, wanted = 0;
        int fd = open(path, O_RDONLY);
        for (int index = 0; index < 20000; index++) {
            if (index == 5000) is_wanted = 1;
            if (read(fd, &number, sizeof number) != sizeof number) return -1;
            count += number != wanted, wanted = number + 1;
        }
        close(fd);
        while (is_wanted) {}
        usleep(1000);
    }
    return count;
}

static void *open_for_ever(void *unused) {
    for (;;) close(open(path, O_RDONLY));
    return unused;
}

static void *read_for_ever(void *unused) {
    char memory[4096];
    int fd = open(path, O_RDONLY);
    for (unsigned turn = 0;; turn++) pread(fd, memory, sizeof memory, turn * 7919u % 6000 * 4096l);
    return unused;
}

static int cancelled(void *(*work)(void *), int rounds) {
    int count = 0;
    for (int round = 0; round < rounds; round++) {
        pthread_t thread;
        void *answer;
        pthread_create(&thread, NULL, work, NULL);
        usleep(5000 + round * 777);
        pthread_cancel(thread), pthread_join(thread, &answer);
        count += answer == PTHREAD_CANCELED;
    }
    return count;
}

int main(int count, char **arguments) {
    const char *how = arguments[1];
    int rounds = atoi(arguments[3]);
    path = arguments[2];
    if (!strcmp(how, "cancel-open")) return printf("cancelled %d\n", cancelled(open_for_ever, rounds)), 0;
    if (!strcmp(how, "cancel-read")) return printf("cancelled %d\n", cancelled(read_for_ever, rounds)), 0;
    pthread_t writer;
    pthread_create(&writer, NULL, write_when_asked, NULL);
    if (!strcmp(how, "stolen")) printf("stolen %d\n", stolen(rounds));
    if (!strcmp(how, "twice")) printf("twice %d\n", twice(rounds));
    is_over = 1;
    pthread_join(writer, NULL);
    return 0;
}
