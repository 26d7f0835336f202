/* A program that reads and writes one file by several descriptors, and prints what it reads. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void show(const char *what, int fd, off_t at) {
    unsigned char bytes[16];
    ssize_t len = pread(fd, bytes, sizeof bytes, at);
    printf("%s %zd", what, len);
    for (ssize_t index = 0; index < len; index++) printf(" %02x", bytes[index]);
    printf("\n");
}

int main(int count, char **paths) {
    int before = open(paths[1], O_RDONLY), other = open(paths[1], O_RDONLY);
    show("first", before, 1000);
    show("second", other, 200000);
    lseek(before, 77, SEEK_SET);
    int writer = open(paths[1], O_RDWR);
    show("while it is open for writing", before, 1000);
    pwrite(writer, "written", 7, 1000);
    show("after a write", before, 1000);
    printf("position %ld\n", (long)lseek(before, 0, SEEK_CUR));
    int after = open(paths[1], O_RDONLY);
    show("opened after it", after, 1000);
    pwrite(writer, "WRITTEN", 7, 1001);
    show("and written again", after, 1000);
    ftruncate(writer, 1003);
    show("cut", before, 1000);
    show("cut", after, 1000);
    close(writer);
    truncate(paths[1], 1002);
    show("cut by name", other, 1000);
    FILE *stream = fopen(paths[1], "a");
    fputs("appended", stream);
    fclose(stream);
    show("appended", other, 1000);
    return 0;
}
