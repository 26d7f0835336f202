/* Copies parts of a file by `copy_file_range` with and without places of its own, and prints counts, errors, places and what was copied. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void told(const char *what, ssize_t count, int from, int to, off_t at, off_t into) {
    printf("%s: %zd %s, at %ld and %ld, positions %ld and %ld\n", what, count, count < 0 ? strerror(errno) : "", (long)at, (long)into,
           (long)lseek(from, 0, SEEK_CUR), (long)lseek(to, 0, SEEK_CUR));
}

int main(int count, char **words) {
    int from = open(words[1], O_RDONLY), to = open(words[2], O_CREAT | O_RDWR | O_TRUNC, 0644);
    off_t at = 50, into = 7000;
    char bytes[10000];
    (void)count;
    told("an offset", copy_file_range(from, &at, to, NULL, 1000, 0), from, to, at, into);
    told("none", copy_file_range(from, NULL, to, NULL, 1000, 0), from, to, at, into);
    told("both", copy_file_range(from, &at, to, &into, 500, 0), from, to, at, into);
    told("the other", copy_file_range(from, NULL, to, &into, 500, 0), from, to, at, into);
    at = lseek(from, 0, SEEK_END) - 10;
    told("the end", copy_file_range(from, &at, to, &into, 500, 0), from, to, at, into);
    told("behind it", copy_file_range(from, NULL, to, NULL, 500, 0), from, to, at, into);
    told("flags", copy_file_range(from, NULL, to, NULL, 500, 1), from, to, at, into);
    told("nowhere", copy_file_range(from, NULL, 900, NULL, 500, 0), from, to, at, into);
    told("not for writing", copy_file_range(from, NULL, from, NULL, 500, 0), from, to, at, into);
    off_t before = -5;
    told("into before the beginning", copy_file_range(from, NULL, to, &before, 500, 0), from, to, at, before);
    told("a little before it", copy_file_range(from, NULL, to, &before, 3, 0), from, to, at, before);
    told("from before the beginning", copy_file_range(from, &before, to, NULL, 500, 0), from, to, before, into);
    told("from a little before it", copy_file_range(from, &before, to, &into, 3, 0), from, to, before, into);
    ssize_t len = pread(to, bytes, sizeof bytes, 0);
    unsigned sum = 0;
    for (ssize_t i = 0; i < len; i++) sum = sum * 31 + (unsigned char)bytes[i];
    printf("%zd bytes, %u\n", len, sum);
    return 0;
}
