/* Writes 40 pieces of 1 MiB to each file named, by one call for each, in turns; prints every count that is not a whole piece, and the length of each. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECE = 1 << 20, PIECES = 40, FILES = 8 };

static ssize_t put(const char *how, int fd, char *bytes, off_t at) {
    struct iovec parts[3] = {{bytes, 1000}, {bytes + 1000, 0}, {bytes + 1000, PIECE - 1000}};
    if (!strcmp(how, "write")) return write(fd, bytes, PIECE);
    if (!strcmp(how, "pwrite")) return pwrite(fd, bytes, PIECE, at);
    if (!strcmp(how, "writev")) return writev(fd, parts, 3);
    if (!strcmp(how, "pwritev")) return pwritev(fd, parts, 3, at);
    return pwritev2(fd, parts, 3, !strcmp(how, "pwritev2") ? at : -1, 0);
}

int main(int count, char **words) {
    const char *how = words[1];
    int fds[FILES], files = count - 2;
    char *bytes = malloc(PIECE);
    for (int file = 0; file < files; file++) fds[file] = open(words[2 + file], O_CREAT | O_RDWR | O_TRUNC, 0644);
    for (int piece = 0; piece < PIECES; piece++) {
        for (int at = 0; at < PIECE; at++) bytes[at] = (char)(at * 7 + piece);
        for (int file = 0; file < files; file++) {
            ssize_t len = put(how, fds[file], bytes, (off_t)piece * PIECE);
            if (len != PIECE) printf("piece %d: %zd %s\n", piece, len, len < 0 ? strerror(errno) : "");
        }
    }
    for (int file = 0; file < files; file++) printf("%ld\n", (long)lseek(fds[file], 0, SEEK_END));
    return 0;
}
