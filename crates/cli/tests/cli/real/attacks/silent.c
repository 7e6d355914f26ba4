#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A FUSE server that never answers some requests, and processes of its user that the kernel lets wait
   for it while they hold what guards their memory. Started as root, which mounts for the user what
   fusermount3(1) would: silent FOLDER PROCESSES USER [PROGRAM ARGUMENT...]. Where a program is named,
   it runs beside these processes; what is there about FOLDER/never is never answered. */

static int device;
static const char *folder;

static void answer(struct fuse_in_header *to, int error, void *body, size_t length) {
    char out[70000];
    struct fuse_out_header head = {sizeof head + length, error, to->unique};
    memcpy(out, &head, sizeof head);
    if (length) memcpy(out + sizeof head, body, length);
    if (write(device, out, head.len) < 0) perror("answer");
}

static struct fuse_attr attributes(uint64_t node) {
    struct fuse_attr attr = {.ino = node, .nlink = 1, .uid = getuid(), .gid = getgid(), .blksize = 4096};
    attr.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0666;
    attr.size = node == 1 ? 0 : 8192;
    return attr;
}

/* Answers what lets files be opened and mapped, and gives the pages of those that are written. */
static void serve(void) {
    static char request[1 << 20], zeros[65536];
    for (;;) {
        ssize_t got = read(device, request, sizeof request);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) _exit(0);
        struct fuse_in_header *in = (void *)request;
        switch (in->opcode) {
        case FUSE_INIT: {
            struct fuse_init_in *asked = (void *)(in + 1);
            struct fuse_init_out init = {.major = 7, .minor = 31, .max_readahead = asked->max_readahead, .max_write = 65536};
            answer(in, 0, &init, sizeof init);
            break;
        }
        case FUSE_LOOKUP: {
            if (!strcmp((char *)(in + 1), "never")) break;
            struct fuse_entry_out entry = {.nodeid = 2 + atoi((char *)(in + 1)), .entry_valid = 9999, .attr_valid = 9999};
            entry.attr = attributes(entry.nodeid);
            answer(in, 0, &entry, sizeof entry);
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out attr = {.attr_valid = 9999, .attr = attributes(in->nodeid)};
            answer(in, 0, &attr, sizeof attr);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out open = {.fh = in->nodeid, .open_flags = FOPEN_KEEP_CACHE};
            answer(in, 0, &open, sizeof open);
            break;
        }
        case FUSE_STATFS: {
            struct fuse_statfs_out statistics = {.st = {.bsize = 4096, .namelen = 255}};
            answer(in, 0, &statistics, sizeof statistics);
            break;
        }
        case FUSE_READ: {
            struct fuse_read_in *asked = (void *)(in + 1);
            if (in->nodeid % 2 == 0) answer(in, 0, zeros, asked->size);
            break;
        }
        case FUSE_WRITE: case FUSE_FLUSH: case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT:
        case FUSE_RELEASE: case FUSE_SETATTR:
            break;
        default:
            answer(in, -ENOSYS, 0, 0);
        }
    }
}

/* An even one replaces a mapping whose pages the server does not take; an odd one starts a program
   while a file cannot be closed. */
static void lock_memory(int number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", folder, number);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) { perror(path); _exit(3); }
    mmap(0, 300 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (number % 2) {
        execl("/bin/sleep", "sleep", "3600", (char *)0);
        _exit(4);
    }
    char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) { perror("mmap"); _exit(3); }
    memory[0] = 1;
    mmap(memory, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    for (;;) pause();
}

int main(int count, char **arguments) {
    folder = arguments[1];
    int kids = atoi(arguments[2]);
    unsigned user = atoi(arguments[3]);
    char options[128];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    /* Only where /etc/fuse.conf allows it may root look into what a user mounts. */
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%u,group_id=%u%s", device, user, user,
             count > 4 ? ",allow_other" : "");
    if (device < 0 || unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0)
        || mount("silent", folder, "fuse", MS_NOSUID | MS_NODEV, options)) { perror("mount"); return 3; }
    if (setgroups(0, 0) || setgid(user) || setuid(user)) { perror("setuid"); return 3; }
    prctl(PR_SET_DUMPABLE, 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Where all else fails, its end lets everybody go: no signal ends who waits for an answer. */
    if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(count > 4 ? 30 : 100); serve(); }
    for (int number = 0; number < kids; number++)
        if (!fork()) { close(device); prctl(PR_SET_PDEATHSIG, SIGKILL); lock_memory(number); }
    if (count > 4 && !fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen("/dev/null", "w", stdout)) execv(arguments[4], arguments + 4);
        _exit(4);
    }
    close(device);
    sleep(1);
    puts("ready"); fflush(stdout);
    for (;;) pause();
}
