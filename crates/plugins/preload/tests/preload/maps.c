/* Maps files, writes to them by other ways, and prints what the maps show. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEN 262144
static atomic_int is_over;

static void show(const char *what, const char *bytes) { printf("%s: %.7s\n", what, bytes); }

static char *map(const char *path, int protection, int flags) {
    int fd = open(path, O_RDONLY);
    char *at = mmap(NULL, LEN, protection, flags, fd, 0);
    close(fd);
    return at;
}

static void put(const char *path, const char *text, off_t at) {
    int fd = open(path, O_RDWR);
    pwrite(fd, text, 7, at), close(fd);
}

/* What was stored to a private map stays, whatever it is protected from afterwards. */
static void private_pages(const char *path) {
    char *stored = map(path, PROT_READ | PROT_WRITE, MAP_PRIVATE), *clean = map(path, PROT_READ, MAP_PRIVATE);
    char *open_now = map(path, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    memcpy(stored + 1000, "private", 7), memcpy(open_now + 1000, "another", 7);
    mprotect(stored, LEN, PROT_READ);
    put(path, "by file", 1000), put(path, "by file", 9000);
    show("stored", stored + 1000), show("may be stored to", open_now + 1000);
    show("clean", clean + 1000), show("clean", clean + 9000);
}

/* Locks end with the descriptor that they were taken by. */
static void locks(const char *path) {
    int fd = open(path, O_RDONLY), other, held;
    char *at = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fd, 0);
    volatile char first = *at;
    munmap(at, LEN);
    printf("flock %d\n", flock(fd, LOCK_EX)), close(fd);
    other = open(path, O_RDONLY);
    printf("another flock %d\n", flock(other, LOCK_EX | LOCK_NB)), close(other);
    fd = open(path, O_RDONLY), at = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fd, 0), first = *at, munmap(at, LEN);
    struct flock lock = {.l_type = F_RDLCK};
    held = fcntl(fd, F_OFD_SETLK, &lock), close(fd);
    lock = (struct flock){.l_type = F_WRLCK}, other = open(path, O_RDWR);
    printf("lock %d another %d\n", held, fcntl(other, F_OFD_SETLK, &lock));
    close(other), (void)first;
}

static int removed(const char *path, const struct stat *s, int kind, struct FTW *w) { return kind == FTW_F ? unlink(path) : 0; }

/* Copies that have left their tier, one after it was mapped and one before. */
static void deleted(const char *path, const char *other, const char *tier) {
    int fd = open(other, O_RDONLY);
    char *before = map(path, PROT_READ, MAP_SHARED);
    nftw(tier, removed, 8, FTW_PHYS);
    char *after = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
    put(path, "written", 1000), put(other, "written", 1000);
    show("before", before + 1000), show("after", after + 1000);
}

/* A child writes and sees it by a map of before it was forked; so does its parent afterwards. */
static void children(const char *path) {
    char *at = map(path, PROT_READ, MAP_SHARED);
    fflush(stdout);
    if (fork() == 0)
        put(path, "child..", 1000), show("in the child", at + 1000), fflush(stdout), _exit(0);
    wait(NULL);
    put(path, "parent.", 5000), show("in the parent", at + 1000), show("in the parent", at + 5000);
}

static void *change(void *path) {
    while (!is_over) {
        char *at = map(path, PROT_READ, MAP_PRIVATE);
        mprotect(at, 4096, PROT_NONE), munmap(at, LEN);
    }
    return NULL;
}

static void *write_now_and_then(void *path) {
    while (!is_over)
        put(path, "written", 1000), usleep(100);
    return NULL;
}

/* Children of a program whose threads map, unmap and write all the time. */
static void forks(char *path, char *other) {
    pthread_t threads[4];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, change, path);
    pthread_create(&threads[3], NULL, write_now_and_then, other);
    int ended = 0;
    alarm(60);
    for (int i = 0; i < 300; i++) {
        int status = 1, child = fork();
        if (child == 0) {
            alarm(20);
            char *at = map(path, PROT_READ, MAP_PRIVATE), *anonymous = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(at, LEN), mprotect(anonymous, LEN, PROT_NONE), munmap(anonymous, LEN);
            put(other, "written", 1000), _exit(0);
        }
        waitpid(child, &status, 0), ended += status == 0;
    }
    is_over = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("ended %d\n", ended);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Opens files, then opens and maps them all, and prints how long each took. */
static void many(char **paths) {
    double began = seconds(), opened, mapped;
    for (char **path = paths; *path; path++)
        close(open(*path, O_RDONLY));
    opened = seconds() - began, began = seconds();
    for (char **path = paths; *path; path++)
        map(*path, PROT_READ, MAP_PRIVATE);
    mapped = seconds() - began;
    printf("%.6f %.6f\n", opened, mapped);
}

int main(int count, char **arguments) {
    if (strcmp(arguments[1], "many") == 0)
        return many(arguments + 2), 0;
    if (strcmp(arguments[1], "forks") == 0)
        return forks(arguments[2], arguments[3]), 0;
    private_pages(arguments[1]), locks(arguments[2]), children(arguments[3]), deleted(arguments[4], arguments[5], arguments[6]);
    return 0;
}
