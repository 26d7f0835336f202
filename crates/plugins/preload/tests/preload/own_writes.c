/* Writes to a file by duplicates and maps while it reads it by descriptors and maps of before, and prints what it reads. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void show(const char *what, const char *bytes) { printf("%s: %.7s\n", what, bytes); }

static void show_at(const char *what, int fd, off_t at) {
    char bytes[8] = "";
    pread(fd, bytes, 7, at);
    show(what, bytes);
}

int main(int count, char **paths) {
    const char *path = paths[1];
    const size_t len = 262144;
    /* A duplicate of a writer that was closed. */
    int writer = open(path, O_RDWR), other = dup(writer), third = fcntl(writer, F_DUPFD_CLOEXEC, 50);
    close(writer);
    int reader = open(path, O_RDONLY);
    pwrite(other, "dup dup", 7, 1000), show_at("a duplicate", reader, 1000);
    close(other), close(reader), reader = open(path, O_RDONLY);
    pwrite(third, "third 3", 7, 1000), show_at("another duplicate", reader, 1000);
    close(third), close(reader);
    /* A shared map that outlives its descriptor. */
    writer = open(path, O_RDWR);
    char *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
    close(writer);
    reader = open(path, O_RDONLY);
    memcpy(map + 1000, "by map!", 7), show_at("a shared map", reader, 1000);
    munmap(map, len), close(reader);
    /* Maps of before a write, of a file that this program has not written yet. */
    path = paths[2];
    reader = open(path, O_RDONLY);
    char *shared = mmap(NULL, len, PROT_READ, MAP_SHARED, reader, 0);
    char *private = mmap(NULL, len, PROT_READ, MAP_PRIVATE, reader, 4096);
    char *cut = mmap(NULL, len, PROT_READ, MAP_SHARED, reader, 0);
    munmap(cut + 8192, 4096);
    close(reader);
    printf("same %d\n", memcmp(shared + 4096, private, 1000) == 0);
    writer = open(path, O_WRONLY);
    pwrite(writer, "shared!", 7, 1000), pwrite(writer, "private", 7, 5000), pwrite(writer, "rest...", 7, 20000);
    show("shared", shared + 1000), show("private", private + 904), show("cut", cut + 20000);
    printf("same %d\n", memcmp(shared + 4096, private, len - 4096) == 0);
    return 0;
}
