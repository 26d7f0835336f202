/* Threads read a file at random places while a library may place it. The most memory that the process takes meanwhile is printed in KiB, and what it
   takes afterwards, without what it shares with the tier (RssAnon and RssFile): memory PATH READS */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, LEN = 64 << 10 };
static const char *path;
static int reads, running = THREADS;

static void *reader(void *seed) {
    unsigned int state = (unsigned int)(size_t)seed;
    char *memory = malloc(LEN);
    int fd = open(path, O_RDONLY);
    struct stat s;
    fstat(fd, &s);
    for (int index = 0; index < reads; index++) pread(fd, memory, LEN, rand_r(&state) % (s.st_size - LEN));
    close(fd), free(memory);
    __atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* By system calls alone: what is measured is what the threads take. */
static long taken(const char *key) {
    char text[4096];
    int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY);
    ssize_t len = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[len > 0 ? len : 0] = 0;
    char *at = strstr(text, key);
    return at ? atol(at + strlen(key)) : 0;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    long most = 0, now;
    path = arguments[1], reads = atoi(arguments[2]);
    for (size_t index = 0; index < THREADS; index++) pthread_create(&threads[index], NULL, reader, (void *)(index + 1));
    do {
        if ((now = taken("RssAnon:") + taken("RssFile:")) > most) most = now;
        usleep(500);
    } while (__atomic_load_n(&running, __ATOMIC_ACQUIRE));
    for (int index = 0; index < THREADS; index++) pthread_join(threads[index], NULL);
    usleep(300000);
    printf("%ld %ld %ld %ld\n", most, taken("RssAnon:") + taken("RssFile:"), taken("RssAnon:"), taken("RssFile:"));
    return 0;
}
