/* Threads and forked children that open, read, duplicate, lock and close one file at once, and compare it with another copy of it. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;
static unsigned char *wanted;
static off_t len;
static int shared, rounds;

static void fail(const char *what) {
    fprintf(stderr, "%s differs\n", what);
    _exit(3);
}

static void compare(const char *what, const unsigned char *got, off_t at, ssize_t count, ssize_t asked) {
    ssize_t left = len - at < asked ? len - at : asked;
    if (count != left || memcmp(got, wanted + at, left) != 0) fail(what);
}

static void *work(void *seed) {
    unsigned int state = (unsigned int)(size_t)seed;
    unsigned char *memory = malloc(1 << 18);
    for (int round = 0; round < rounds; round++) {
        off_t at = rand_r(&state) % len;
        size_t asked = 1 + rand_r(&state) % (1 << 18);
        compare("pread of all threads' descriptor", memory, at, pread(shared, memory, asked, at), asked);
        int fd = open(path, O_RDONLY);
        lseek(fd, at, SEEK_SET);
        switch (rand_r(&state) % 5) {
        case 0: flock(fd, LOCK_SH), flock(fd, LOCK_UN); break;
        case 1: { int other = dup(fd); close(fd); fd = other; break; }
        case 2: { struct stat s; fstat(fd, &s); if (s.st_size != len) fail("length"); break; }
        case 3: {
            unsigned char *map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
            compare("mmap", map + at, at, len - at < (off_t)asked ? len - at : (off_t)asked, asked);
            munmap(map, len);
            break;
        }
        }
        compare("read", memory, at, read(fd, memory, asked), asked);
        close(fd);
    }
    free(memory);
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[6];
    path = arguments[1], rounds = atoi(arguments[3]);
    int other = open(arguments[2], O_RDONLY), status;
    len = lseek(other, 0, SEEK_END);
    wanted = mmap(NULL, len, PROT_READ, MAP_PRIVATE, other, 0);
    shared = open(path, O_RDONLY);
    for (size_t index = 0; index < 6; index++) pthread_create(&threads[index], NULL, work, (void *)(index + 1));
    for (int child = 0; child < 4; child++) {
        usleep(3000);
        if (fork() == 0) {
            work((void *)(size_t)(100 + child));
            exit(0);
        }
    }
    for (int index = 0; index < 6; index++) pthread_join(threads[index], NULL);
    for (int child = 0; child < 4; child++) {
        wait(&status);
        if (status != 0) return 4;
    }
    puts("all the same");
    return 0;
}
