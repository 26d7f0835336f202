/* Opens and reads a file that is not managed, so many times as is said: what the library adds to that is counted. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
    int opens = atoi(arguments[2]), reads = atoi(arguments[3]), fd = -1;
    char byte;
    for (int index = 0; index < opens; index++) {
        if (fd >= 0) close(fd);
        fd = open(arguments[1], O_RDONLY);
    }
    if (fd < 0) fd = open(arguments[1], O_RDONLY);
    for (int index = 0; index < reads; index++) pread(fd, &byte, 1, 0);
    return 0;
}
