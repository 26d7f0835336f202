/* A library that opens and reads a file before others are ready: by a constructor with the first number that programs may use. The same as a program
   (-DPROGRAM), by a function that runs before all libraries. The file is the first argument. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned char memory[1 << 16];
static char line[256];

static uint64_t sum(uint64_t hash, const unsigned char *from, ssize_t len) {
    for (ssize_t at = 0; at < len; at++) hash = (hash ^ from[at]) * 1099511628211ull;
    return hash;
}

static void read_all(const char *path) {
    uint64_t first = 14695981039346656037ull, second = first, third = first;
    int fd = open(path, O_RDONLY), other = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    struct stat s = {0};
    ssize_t len, at = 0;
    fstat(fd, &s);
    while ((len = read(fd, memory, sizeof memory)) > 0) first = sum(first, memory, len);
    while ((len = pread(other, memory, sizeof memory, at)) > 0) second = sum(second, memory, len), at += len;
    unsigned char *map = mmap(NULL, s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map != MAP_FAILED) third = sum(third, map, s.st_size), munmap(map, s.st_size);
    close(fd), close(other);
    len = snprintf(line, sizeof line, "early %ld %016llx %016llx %016llx\n", (long)s.st_size, (unsigned long long)first,
                   (unsigned long long)second, (unsigned long long)third);
    write(1, line, len);
}

#ifdef PROGRAM
static void before_all(int count, char **arguments, char **variables) { read_all(arguments[1]); }
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = before_all;
int main(int count, char **arguments) { return read_all(arguments[1]), 0; }
#else
__attribute__((constructor(101))) static void before_others(int count, char **arguments, char **variables) {
    if (count > 1) read_all(arguments[1]);
}
#endif
